// needs: kern/base/string.c -DKERNEL_NAMES -Ikern/tests
/* Memory and strings, held against the C library's. */
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace lib {
static auto strchr_ = static_cast<const char *(*)(const char *, int)>(std::strchr);
static auto memchr_ = static_cast<const void *(*)(const void *, int, size_t)>(std::memchr);
static auto memmove_ = std::memmove;
static auto memset_ = std::memset;
static auto memcmp_ = std::memcmp;
static auto strncmp_ = std::strncmp;
static auto strcmp_ = std::strcmp;
}

#include "host.h"
extern "C" {
#include "errno.h"
#include "string.h"
}

static int sign(int v)
{
	return (v > 0) - (v < 0);
}

TEST(memory, copies_and_fills_at_every_alignment_and_length)
{
	for (size_t to = 0; to < 9; to++)
		for (size_t from = 0; from < 9; from++)
			for (size_t n = 0; n < 70; n++) {
				std::vector<u8> a(100), b, c(100);
				for (size_t i = 0; i < a.size(); i++)
					a[i] = i * 7;
				EXPECT_EQ(&c[to], memcpy(&c[to], &a[from], n));
				ASSERT_EQ(0, lib::memcmp_(&c[to], &a[from], n));
				b = c = a;
				lib::memmove_(&b[to], &b[from], n);
				memmove(&c[to], &c[from], n);
				ASSERT_EQ(b, c) << to << " " << from << " " << n;
				lib::memset_(&b[to], 0x15a, n);
				memset(&c[to], 0x15a, n);
				ASSERT_EQ(b, c);
			}
}

TEST(memory, compares_and_searches)
{
	srand(2);
	for (int i = 0; i < 20000; i++) {
		u8 a[16], b[16];
		size_t n = rand() % 17;
		for (int k = 0; k < 16; k++) {
			a[k] = rand() % 3 + (rand() % 2) * 253;
			b[k] = rand() % 8 ? a[k] : rand();
		}
		ASSERT_EQ(sign(lib::memcmp_(a, b, n)), sign(memcmp(a, b, n)));
		ASSERT_EQ(lib::memchr_(a, 2, n), memchr(a, 2, n));
	}
}

TEST(strings, every_function_is_the_librarys)
{
	srand(3);
	for (int i = 0; i < 50000; i++) {
		char a[12] = {}, b[12] = {};
		for (int k = rand() % 11; k--;)
			a[k] = "ab\xe9"[rand() % 3];
		for (int k = rand() % 4; k--;)
			b[k] = "ab\xe9"[rand() % 3];
		size_t n = rand() % 13;
		ASSERT_EQ(std::string(a).size(), strlen(a));
		ASSERT_EQ(std::min(n, std::string(a).size()), strnlen(a, n));
		ASSERT_EQ(sign(lib::strcmp_(a, b)), sign(strcmp(a, b)));
		ASSERT_EQ(sign(lib::strncmp_(a, b, n)), sign(strncmp(a, b, n)));
		for (int c : {0, +'a', +'b', 0xe9, +'z'}) {
			ASSERT_EQ(lib::strchr_(a, c), strchr(a, c));
		}
	}
}

TEST(strings, strlcpy_always_ends_what_it_wrote)
{
	for (size_t size = 0; size < 8; size++) {
		char d[8] = "#######";
		EXPECT_EQ(4u, strlcpy(d, "four", size));
		EXPECT_EQ(std::string("four").substr(0, size ? size - 1 : 0),
			  size ? std::string(d) : std::string());
	}
}

TEST(numbers, whole_texts_alone_are_numbers)
{
	struct { const char *text; int base, err; u64 value;
	} cases[] = {
		{"0", 0, 0, 0},
		{"10", 0, 0, 10},
		{"10\n", 0, 0, 10},
		{"0x1F", 0, 0, 31},
		{"1f", 16, 0, 31},
		{"0x1f", 16, 0, 31},
		{"017", 0, 0, 15},
		{"017", 10, 0, 17},
		{"18446744073709551615", 10, 0, ~0ull},
		{"18446744073709551616", 10, -ERANGE, 0},
		{"99999999999999999999999", 0, -ERANGE, 0},
		{"", 10, -EINVAL, 0},
		{"\n", 10, -EINVAL, 0},
		{"0x", 0, -EINVAL, 0},
		{"12x", 10, -EINVAL, 0},
		{"-1", 10, -EINVAL, 0},
		{" 1", 10, -EINVAL, 0},
		{"1 ", 10, -EINVAL, 0},
		{"1\n\n", 10, -EINVAL, 0},
		{"09", 0, -EINVAL, 0},
	};
	for (auto &c : cases) {
		u64 v = 0;
		EXPECT_EQ(c.err, kstrtou64(c.text, c.base, &v)) << c.text;
		EXPECT_EQ(c.value, v) << c.text;
	}
}

TEST(Number, WithASign)
{
	struct {
		const char *text;
		int err;
		s64 value;
	} cases[] = {
		{"5", 0, 5},
		{"+5", 0, 5},
		{"-0x10\n", 0, -16},
		{"9223372036854775807", 0, INT64_MAX},
		{"9223372036854775808", -ERANGE, 0},
		{"-9223372036854775808", 0, INT64_MIN},
		{"-9223372036854775809", -ERANGE, 0},
		{"-", -EINVAL, 0},
		{"--1", -EINVAL, 0},
	};
	for (auto &c : cases) {
		s64 v = 0;
		EXPECT_EQ(c.err, kstrtos64(c.text, 0, &v)) << c.text;
		EXPECT_EQ(c.value, v) << c.text;
	}
}
