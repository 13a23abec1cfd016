/*
 * gzip IN OUT: compress a file; gunzip on any machine restores it.
 *
 * RFC 1951 (DEFLATE) inside RFC 1952 (gzip). LZ77 turns the input into tokens,
 * a literal byte or a match (length, distance); a block of tokens is written
 * stored, with the fixed Huffman code or with a code of its own: the shortest of
 * the three. A stored block is always possible, which bounds the output.
 */
#include "app.h"

APP("in out", "compress a file; gunzip on any machine restores it");

#define WINDOW 32768u
#define HASH_SIZE 8192u
#define MIN_MATCH 3u
#define MAX_MATCH 258u
#define CHAIN 32 /* candidates tried for a match */
#define MAX_TOKENS 16384
#define MAX_SPAN (65535u - MAX_MATCH) /* bytes of a block: it may have to be stored */
#define END_OF_BLOCK 256
#define LITERALS 286
#define DISTANCES 30
#define CODE_LENGTHS 19
#define MAX_SYMBOLS 288

struct code {
	unsigned symbols;
	unsigned limit; /* bits of the longest code */
	uint32_t count[MAX_SYMBOLS];
	uint8_t length[MAX_SYMBOLS];
	uint16_t bits[MAX_SYMBOLS]; /* already reversed: the first bit is bit 0 */
};

/* A code length of the block header: symbol 0-15, or a run 16-18 with its extra bits. */
struct run {
	uint8_t symbol, extra;
};

struct gzip {
	const uint8_t *in;
	size_t size, pos, block_start;
	uint8_t *out;
	size_t written;
	uint64_t bit_buffer;
	unsigned bit_count;
	uint32_t head[HASH_SIZE], previous[WINDOW]; /* position + 1; 0: none */
	/* literal, or MATCH | length - 3 | distance - 1 */
	uint32_t tokens[MAX_TOKENS];
	unsigned token_count;
	struct code literal, distance, lengths;
	struct run runs[LITERALS + DISTANCES];
	unsigned run_count;
};

#define MATCH 0x80000000
#define TOKEN(length, distance) (MATCH | ((length) - MIN_MATCH) << 16 | ((distance) - 1))
#define TOKEN_LENGTH(t) (((t) >> 16 & 0xff) + MIN_MATCH)
#define TOKEN_DISTANCE(t) (((t) & 0x7fff) + 1)

static const uint16_t length_base[29] = {
	3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27,
	31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258,
};
static const uint8_t length_extra[29] = {
	0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
};
static const uint16_t distance_base[DISTANCES] = {
	1,   2,   3,   4,   5,    7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
	193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
};
static const uint8_t length_order[CODE_LENGTHS] = {
	16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
};

static unsigned distance_extra(unsigned symbol)
{
	return symbol < 4 ? 0 : symbol / 2 - 1;
}

static unsigned length_symbol(unsigned length)
{
	unsigned s = 28;

	while (length_base[s] > length)
		s--;
	return s;
}

static unsigned distance_symbol(unsigned distance)
{
	unsigned s = DISTANCES - 1;

	while (distance_base[s] > distance)
		s--;
	return s;
}

/* ---- writing bits ---- */

static void put_bits(struct gzip *z, uint32_t value, unsigned count)
{
	z->bit_buffer |= (uint64_t)value << z->bit_count;
	z->bit_count += count;
	while (z->bit_count >= 8) {
		z->out[z->written++] = z->bit_buffer;
		z->bit_buffer >>= 8;
		z->bit_count -= 8;
	}
}

static void align_to_byte(struct gzip *z)
{
	if (z->bit_count)
		put_bits(z, 0, 8 - z->bit_count);
}

static void put_symbol(struct gzip *z, const struct code *c, unsigned symbol)
{
	put_bits(z, c->bits[symbol], c->length[symbol]);
}

/* ---- LZ77 ---- */

static unsigned hash(const uint8_t *p)
{
	return ((p[0] | p[1] << 8 | (uint32_t)p[2] << 16) * 2654435761u) >> 19;
}

static void remember(struct gzip *z, size_t pos)
{
	unsigned h;

	if (pos + MIN_MATCH > z->size)
		return;
	h = hash(z->in + pos);
	z->previous[pos % WINDOW] = z->head[h];
	z->head[h] = pos + 1;
}

static unsigned common_length(const uint8_t *a, const uint8_t *b, unsigned max)
{
	unsigned n = 0;

	while (n < max && a[n] == b[n])
		n++;
	return n;
}

/* The token of the longest match for the text at pos, or else the literal. */
static __attribute__((noinline)) uint32_t find_match(struct gzip *z)
{
	size_t left = z->size - z->pos;
	unsigned max = left < MAX_MATCH ? left : MAX_MATCH, best = MIN_MATCH - 1;
	uint32_t token = z->in[z->pos], at;

	if (left < MIN_MATCH)
		return token;
	at = z->head[hash(z->in + z->pos)];
	for (int i = 0; i < CHAIN && at && z->pos - (at - 1) <= WINDOW; i++) {
		unsigned n = common_length(z->in + at - 1, z->in + z->pos, max);

		if (n > best) {
			best = n;
			token = TOKEN(n, (uint32_t)(z->pos - (at - 1)));
		}
		if (z->previous[(at - 1) % WINDOW] >= at)
			break;
		at = z->previous[(at - 1) % WINDOW];
	}
	return token;
}

static void count_token(struct gzip *z, uint32_t token)
{
	z->tokens[z->token_count++] = token;
	if (token & MATCH) {
		z->literal.count[257 + length_symbol(TOKEN_LENGTH(token))]++;
		z->distance.count[distance_symbol(TOKEN_DISTANCE(token))]++;
	} else {
		z->literal.count[token]++;
	}
}

/* Tokens for the next block, with their frequencies. */
static __attribute__((noinline)) void tokenize(struct gzip *z)
{
	z->block_start = z->pos;
	z->token_count = 0;
	memset(z->literal.count, 0, sizeof(z->literal.count));
	memset(z->distance.count, 0, sizeof(z->distance.count));
	while (z->pos < z->size && z->token_count < MAX_TOKENS &&
	       z->pos - z->block_start < MAX_SPAN) {
		uint32_t token = find_match(z);
		unsigned n = token & MATCH ? TOKEN_LENGTH(token) : 1;

		count_token(z, token);
		while (n--)
			remember(z, z->pos++);
	}
	z->literal.count[END_OF_BLOCK] = 1;
}

/* ---- Huffman codes ---- */

/* The lightest node that has no parent yet, and is not @other; -1: none. */
static int lightest(const uint32_t *weight, const int16_t *parent, int nodes, int other)
{
	int best = -1;

	for (int i = 0; i < nodes; i++)
		if (weight[i] && !parent[i] && i != other && (best < 0 || weight[i] < weight[best]))
			best = i;
	return best;
}

/* Join the two lightest nodes until one is left. Return: the longest code's length. */
static __attribute__((noinline)) unsigned huffman_lengths(struct code *c, const uint32_t *count)
{
	uint32_t weight[2 * MAX_SYMBOLS];
	int16_t parent[2 * MAX_SYMBOLS] = {0};
	int nodes = c->symbols, a, b;
	unsigned longest = 0;

	memcpy(weight, count, nodes * sizeof(*weight));
	while ((a = lightest(weight, parent, nodes, -1)) >= 0 &&
	       (b = lightest(weight, parent, nodes, a)) >= 0) {
		weight[nodes] = weight[a] + weight[b];
		parent[a] = parent[b] = nodes++;
	}
	for (unsigned s = 0; s < c->symbols; s++) {
		c->length[s] = 0;
		for (int node = parent[s]; node; node = parent[node])
			c->length[s]++;
		longest = c->length[s] > longest ? c->length[s] : longest;
	}
	return longest;
}

/*
 * Codes of one length are consecutive, after the shorter ones; a code's highest bit is sent first.
 */
static __attribute__((noinline)) void assign_bits(struct code *c)
{
	unsigned code = 0;

	for (unsigned length = 1; length <= c->limit; length++, code <<= 1) {
		for (unsigned s = 0; s < c->symbols; s++) {
			if (c->length[s] != length)
				continue;
			c->bits[s] = 0;
			for (unsigned i = 0; i < length; i++)
				c->bits[s] |= (code >> i & 1) << (length - 1 - i);
			code++;
		}
	}
}

/* A code has at least two symbols: decoders refuse an incomplete code. */
static __attribute__((noinline)) void build_code(struct code *c)
{
	uint32_t count[MAX_SYMBOLS];
	unsigned used = 0;

	for (unsigned s = 0; s < c->symbols; s++)
		used += c->count[s] != 0;
	memcpy(count, c->count, sizeof(count));
	for (unsigned s = 0; used < 2; s++) {
		used += count[s] == 0;
		count[s] += count[s] == 0;
	}
	while (huffman_lengths(c, count) > c->limit)
		for (unsigned s = 0; s < c->symbols; s++)
			count[s] = (count[s] + 1) / 2;
	assign_bits(c);
}

static void fixed_code(struct gzip *z)
{
	for (unsigned s = 0; s < MAX_SYMBOLS; s++)
		z->literal.length[s] = s < 144 ? 8 : s < 256 ? 9 : s < 280 ? 7 : 8;
	memset(z->distance.length, 5, DISTANCES);
	z->literal.symbols = MAX_SYMBOLS;
	assign_bits(&z->literal);
	assign_bits(&z->distance);
	z->literal.symbols = LITERALS;
}

/* ---- the header of a block with its own codes ---- */

static void add_run(struct gzip *z, unsigned symbol, unsigned extra)
{
	z->runs[z->run_count++] = (struct run){symbol, extra};
	z->lengths.count[symbol]++;
}

/* Encode n equal lengths as runs (RFC 1951). */
static void add_lengths(struct gzip *z, unsigned length, unsigned n)
{
	while (length == 0 && n >= 3) {
		unsigned take = n < 138 ? n : 138;

		add_run(z, take < 11 ? 17 : 18, take < 11 ? take - 3 : take - 11);
		n -= take;
	}
	if (n) {
		add_run(z, length, 0);
		n--;
	}
	while (n >= 3) {
		unsigned take = n < 6 ? n : 6;

		add_run(z, 16, take - 3);
		n -= take;
	}
	while (n--)
		add_run(z, length, 0);
}

static unsigned used_symbols(const struct code *c, unsigned least)
{
	unsigned n = c->symbols;

	while (n > least && !c->length[n - 1])
		n--;
	return n;
}

static __attribute__((noinline)) void make_runs(struct gzip *z)
{
	uint8_t all[LITERALS + DISTANCES];
	unsigned literals = used_symbols(&z->literal, 257), n = literals;

	memcpy(all, z->literal.length, n);
	memcpy(all + n, z->distance.length, DISTANCES);
	n += used_symbols(&z->distance, 1);
	z->run_count = 0;
	memset(z->lengths.count, 0, sizeof(z->lengths.count));
	for (unsigned i = 0, same; i < n; i += same) {
		for (same = 1; i + same < n && all[i + same] == all[i];)
			same++;
		add_lengths(z, all[i], same);
	}
	build_code(&z->lengths);
}

static unsigned run_extra(unsigned symbol)
{
	return symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
}

static unsigned lengths_sent(const struct gzip *z)
{
	unsigned n = CODE_LENGTHS;

	while (n > 4 && !z->lengths.length[length_order[n - 1]])
		n--;
	return n;
}

static __attribute__((noinline)) void write_header(struct gzip *z)
{
	unsigned n = lengths_sent(z);

	put_bits(z, used_symbols(&z->literal, 257) - 257, 5);
	put_bits(z, used_symbols(&z->distance, 1) - 1, 5);
	put_bits(z, n - 4, 4);
	for (unsigned i = 0; i < n; i++)
		put_bits(z, z->lengths.length[length_order[i]], 3);
	for (unsigned i = 0; i < z->run_count; i++) {
		put_symbol(z, &z->lengths, z->runs[i].symbol);
		put_bits(z, z->runs[i].extra, run_extra(z->runs[i].symbol));
	}
}

static uint64_t header_bits(const struct gzip *z)
{
	uint64_t bits = 14 + 3 * lengths_sent(z);

	for (unsigned s = 0; s < CODE_LENGTHS; s++)
		bits += z->lengths.count[s] * (z->lengths.length[s] + run_extra(s));
	return bits;
}

/* ---- blocks ---- */

static __attribute__((noinline)) uint64_t token_bits(const struct gzip *z)
{
	uint64_t bits = 0;

	for (unsigned s = 0; s < LITERALS; s++)
		bits += (uint64_t)z->literal.count[s] *
			(z->literal.length[s] + (s > 256 ? length_extra[s - 257] : 0));
	for (unsigned s = 0; s < DISTANCES; s++)
		bits += (uint64_t)z->distance.count[s] *
			(z->distance.length[s] + distance_extra(s));
	return bits;
}

static __attribute__((noinline)) void write_tokens(struct gzip *z)
{
	for (unsigned i = 0; i < z->token_count; i++) {
		uint32_t t = z->tokens[i];

		if (t & MATCH) {
			unsigned l = length_symbol(TOKEN_LENGTH(t));
			unsigned d = distance_symbol(TOKEN_DISTANCE(t));

			put_symbol(z, &z->literal, 257 + l);
			put_bits(z, TOKEN_LENGTH(t) - length_base[l], length_extra[l]);
			put_symbol(z, &z->distance, d);
			put_bits(z, TOKEN_DISTANCE(t) - distance_base[d], distance_extra(d));
		} else {
			put_symbol(z, &z->literal, t);
		}
	}
	put_symbol(z, &z->literal, END_OF_BLOCK);
}

static __attribute__((noinline)) void write_stored(struct gzip *z)
{
	unsigned n = z->pos - z->block_start;

	align_to_byte(z);
	put_bits(z, n, 16);
	put_bits(z, n ^ 0xffff, 16);
	memcpy(z->out + z->written, z->in + z->block_start, n);
	z->written += n;
}

static __attribute__((noinline)) void write_block(struct gzip *z)
{
	uint64_t stored = 8 * (z->pos - z->block_start) + 40, own, fixed;

	build_code(&z->literal);
	build_code(&z->distance);
	make_runs(z);
	own = token_bits(z) + header_bits(z);
	put_bits(z, z->pos == z->size, 1);
	if (own < stored) {
		fixed_code(z);
		fixed = token_bits(z);
		if (own < fixed) {
			build_code(&z->literal);
			build_code(&z->distance);
		}
		put_bits(z, own < fixed ? 2 : 1, 2);
		if (own < fixed)
			write_header(z);
		write_tokens(z);
		return;
	}
	fixed_code(z);
	fixed = token_bits(z);
	put_bits(z, fixed < stored ? 1 : 0, 2);
	if (fixed < stored)
		write_tokens(z);
	else
		write_stored(z);
}

/* ---- the file ---- */

static __attribute__((noinline)) uint32_t crc32(const uint8_t *p, size_t n)
{
	uint32_t crc = ~0u;

	while (n--) {
		crc ^= *p++;
		for (unsigned i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static __attribute__((noinline)) void deflate(struct gzip *z)
{
	z->literal.symbols = LITERALS;
	z->distance.symbols = DISTANCES;
	z->lengths.symbols = CODE_LENGTHS;
	z->literal.limit = z->distance.limit = 15;
	z->lengths.limit = 7;
	do {
		tokenize(z);
		write_block(z);
	} while (z->pos < z->size);
	align_to_byte(z);
}

/*
 * Compress in[0, size) into out, which has room for the worst case. Return: the gzip file's length.
 */
static size_t gzip(struct gzip *z, const uint8_t *in, size_t size, uint8_t *out)
{
	static const uint8_t header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff};

	z->in = in;
	z->size = size;
	z->out = out;
	memcpy(out, header, sizeof(header));
	z->written = sizeof(header);
	deflate(z);
	put_bits(z, crc32(in, size), 32);
	put_bits(z, size, 32);
	return z->written;
}

static long compress_file(const char *from, const char *to, size_t *size)
{
	struct gzip *z = calloc(1, sizeof(*z));
	void *in = NULL;
	long n = read_file(from, &in);
	uint8_t *out = n < 0 ? NULL : malloc(n + n / 8 + 1024);
	long err = n < 0 ? n : -12, made = 0;

	if (z && out) {
		*size = n;
		made = gzip(z, in, n, out);
		err = write_file(to, out, made);
	}
	free(out);
	free(in);
	free(z);
	return err ? err : made;
}

int main(int argc, char **argv)
{
	size_t size;
	long n;

	if (argc != 3) {
		printf("usage: gzip IN OUT\n");
		return 2;
	}
	n = compress_file(argv[1], argv[2], &size);
	if (n < 0)
		return complain("gzip", argv[1], n);
	printf("%s: %lu bytes, %s: %ld bytes\n", argv[1], (unsigned long)size, argv[2], n);
	return 0;
}
