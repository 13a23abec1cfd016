/*
 * cksum FILE...: print POSIX's checksum (a CRC-32 with the polynomial 0x04c11db7,
 * highest bit first, over the data and then the length) and the length.
 */
#include "app.h"

APP("file ...", "print a file's POSIX checksum and length");

static uint32_t crc_byte(uint32_t crc, uint8_t byte)
{
	crc ^= (uint32_t)byte << 24;
	for (int bit = 0; bit < 8; bit++)
		crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7 : 0);
	return crc;
}

static int cksum(const char *path)
{
	uint8_t buf[4096];
	uint64_t length = 0;
	uint32_t crc = 0;
	int fd = open(path, O_RDONLY);
	long n = fd;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0) {
		length += n;
		for (long i = 0; i < n; i++)
			crc = crc_byte(crc, buf[i]);
	}
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return complain("cksum", path, n);
	for (uint64_t rest = length; rest; rest >>= 8)
		crc = crc_byte(crc, rest);
	printf("%u %lu %s\n", ~crc, (unsigned long)length, path);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2) {
		printf("Usage: cksum file ...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++)
		status |= cksum(argv[i]);
	return status;
}
