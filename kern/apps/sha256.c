/*
 * sha256 FILE...: print each file's SHA-256 (FIPS 180-4), as sha256sum does.
 */
#include "app.h"

APP("file ...", "print each file's SHA-256, as sha256sum does");

struct sha256 {
	uint32_t state[8];
	uint64_t length; /* bytes so far; the last length % 64 of them are in block */
	uint8_t block[64];
};

static const uint32_t round_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static inline uint32_t rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static __attribute__((noinline)) void sha256_schedule(uint32_t w[64], const uint8_t *block)
{
	for (unsigned i = 0; i < 16; i++, block += 4)
		w[i] = (uint32_t)block[0] << 24 | block[1] << 16 | block[2] << 8 | block[3];
	for (unsigned i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

static __attribute__((noinline)) void sha256_rounds(uint32_t s[8], const uint32_t w[64])
{
	for (unsigned i = 0; i < 64; i++) {
		uint32_t a = s[0], e = s[4];
		uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
			      ((e & s[5]) ^ (~e & s[6])) + round_constants[i] + w[i];
		uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
			      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));

		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += t1;
		s[0] = t1 + t2;
	}
}

static __attribute__((noinline)) void sha256_block(struct sha256 *h, const uint8_t *block)
{
	uint32_t w[64], s[8];

	sha256_schedule(w, block);
	memcpy(s, h->state, sizeof(s));
	sha256_rounds(s, w);
	for (unsigned i = 0; i < 8; i++)
		h->state[i] += s[i];
}

static void sha256_start(struct sha256 *h)
{
	*h = (struct sha256){
		.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
			  0x1f83d9ab, 0x5be0cd19},
	};
}

static __attribute__((noinline)) void sha256_add(struct sha256 *h, const uint8_t *data, size_t n)
{
	while (n) {
		size_t have = h->length % 64, take = n < 64 - have ? n : 64 - have;

		memcpy(h->block + have, data, take);
		h->length += take;
		data += take;
		n -= take;
		if (h->length % 64 == 0)
			sha256_block(h, h->block);
	}
}

/* A one bit, zeros up to eight bytes before a block's end, and the length in bits. */
static __attribute__((noinline)) void sha256_end(struct sha256 *h, uint8_t digest[32])
{
	uint64_t bits = h->length * 8;
	uint8_t length[8], byte = 0x80;

	for (unsigned i = 0; i < 8; i++)
		length[i] = bits >> (56 - 8 * i);
	do {
		sha256_add(h, &byte, 1);
		byte = 0;
	} while (h->length % 64 != 56);
	sha256_add(h, length, 8);
	for (unsigned i = 0; i < 32; i++)
		digest[i] = h->state[i / 4] >> (24 - 8 * (i % 4));
}

static __attribute__((noinline)) long sha256_file(const char *path, uint8_t digest[32])
{
	static const size_t size = 4096;
	uint8_t *buf = malloc(size);
	int fd = buf ? open(path, O_RDONLY) : -12;
	struct sha256 h;
	long n = fd;

	sha256_start(&h);
	while (fd >= 0 && (n = read(fd, buf, size)) > 0)
		sha256_add(&h, buf, n);
	if (fd >= 0)
		close(fd);
	sha256_end(&h, digest);
	free(buf);
	return n < 0 ? n : 0;
}

static void print_digest(const uint8_t digest[32], const char *name)
{
	char hex[65];

	for (unsigned i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	printf("%s  %s\n", hex, name);
}

int main(int argc, char **argv)
{
	uint8_t digest[32];
	int status = 0;

	if (argc < 2) {
		printf("usage: sha256 FILE...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		long err = sha256_file(argv[i], digest);

		if (err) {
			printf("sha256: %s: %s\n", argv[i], strerror(-err));
			status = 1;
		} else {
			print_digest(digest, argv[i]);
		}
	}
	return status;
}
