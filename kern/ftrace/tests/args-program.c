/*
 * A program whose functions take and return values by each rule of the calling
 * conventions (RISC-V ELF psABI, LP64; AAPCS64), for test_arg_places.py.
 *
 * The arguments of a call have different values, so a trace shows where each was taken from.
 */
#include "app.h"

#define F __attribute__((noipa))
typedef __int128 wide;

struct one {
	int a;
};
struct two {
	long a, b;
};
struct three {
	long a, b, c;
};
struct nine {
	char c[9];
};
struct empty {
};
struct bits {
	unsigned a : 3, b : 7;
	int c : 20;
};
struct rows {
	int r[2][2];
};
struct flexible {
	int n;
	char data[];
};
struct member_aligned {
	long a __attribute__((aligned(16)));
	long b;
};
struct __attribute__((aligned(16))) type_aligned {
	long a, b;
};
struct __attribute__((packed)) packed {
	wide w;
};
union word {
	int i;
	long l;
};
union pair {
	long l[2];
	wide w;
};
enum colour { RED, BLUE = 77 };
enum __attribute__((packed)) small { LOW, HIGH = 200 };

static volatile long sink;

/* ---- Results ---- */

F struct three three_result(int k, int m)
{
	return (struct three){k, m, sink};
}
F struct three three_of_nothing(void)
{
	return (struct three){1, 2, sink};
}
F struct three three_of_three(struct three t, int m)
{
	return (struct three){t.a, m, sink};
}
F struct two two_result(int k, int m)
{
	return (struct two){k, m};
}
F struct one one_result(int k)
{
	return (struct one){k};
}
F wide wide_result(int k)
{
	return k;
}
F signed char narrow_result(long k)
{
	return k;
}
F bool bool_result(long k)
{
	return k;
}
F const char *text_result(const char *text)
{
	return text;
}
F void no_result(int k)
{
	sink = k;
}

/* ---- Structures ---- */

F int by_words(int a, struct one o, struct two t, int b)
{
	return a + o.a + t.b + b;
}
F int by_address(int a, struct three t, int b)
{
	return a + t.c + b;
}
F int of_nine(int a, struct nine n, int b)
{
	return a + n.c[8] + b;
}
F int of_nothing(int a, struct empty e, int b)
{
	return a + b;
}
F int of_bits(int a, struct bits f, int b)
{
	return a + f.b + b;
}
F int of_rows(int a, struct rows r, int b)
{
	return a + r.r[1][1] + b;
}
F int of_flexible(int a, struct flexible f, int b)
{
	return a + f.n + b;
}
F int of_unions(int a, union word u, union pair p, int b)
{
	return a + u.i + p.l[1] + b;
}

/* ---- 16 bytes, and their alignment ---- */

F int of_wide(int a, wide w, int b)
{
	return a + w + b;
}
F int of_member(int a, struct member_aligned t, int b)
{
	return a + t.a + b;
}
F int of_type(int a, struct type_aligned t, int b)
{
	return a + t.a + b;
}
F int of_packed(int a, struct packed t, int b)
{
	return a + t.w + b;
}

/* ---- More than the registers ---- */

F int of_ten(int a, int b, int c, int d, int e, int f, int g, int h, signed char i, long j)
{
	return a + b + c + d + e + f + g + h + i + j;
}
F int half(int a, int b, int c, int d, int e, int f, int g, struct two t, short h)
{
	return a + b + c + d + e + f + g + t.a + t.b + h;
}
F int half_wide(int a, int b, int c, int d, int e, int f, int g, wide w, short h)
{
	return a + b + c + d + e + f + g + w + h;
}
F int aligned_on_stack(int a, int b, int c, int d, int e, int f, int g, int h, int i, wide w, int j)
{
	return a + b + c + d + e + f + g + h + i + w + j;
}

/* ---- Narrow integers, enumerations, functions ---- */

F int narrow(bool a, signed char b, unsigned char c, short d, unsigned short e, int f, unsigned g)
{
	return a + b + c + d + e + f + g;
}
F int enums(enum colour c, enum small s)
{
	return c + s;
}
F int function(int (*fn)(long), int b)
{
	return fn(b);
}
F int variadic(const char *format, int n, ...)
{
	return format[0] + n;
}

/* ---- Copies that the compiler makes: it removes parameters ---- */

static __attribute__((noinline)) int constant(int a, int removed, long b)
{
	sink = a;
	return a + removed + b;
}
static __attribute__((noinline)) int scalars(int a, const struct three *s, long b)
{
	sink = b;
	return a + s->c + b;
}

static int (*volatile narrow_long)(long, long, long, long, long, long, long) = (void *)narrow;

/* The bits above a narrow integer are set, as a caller on arm64 may leave them. */
static void call_narrow(void)
{
	unsigned long dirt = 0x5a5a5a5a00000000;

	narrow_long(dirt | 0xa5a5a501, dirt | 0xa5a5a5fe, dirt | 0xa5a5a5fd, dirt | 0xa5a5fffc,
		    dirt | 0xa5a5fffb, dirt | 0xfffffffa, dirt | 0xfffffff9);
}

static int call_function(long n)
{
	return n;
}

int main(int argc, char **argv)
{
	struct three big = {11, 12, 13};

	sink = three_result(41, 42).a + three_of_nothing().b + three_of_three(big, 43).a;
	sink = two_result(44, 45).a + one_result(46).a + (long)wide_result(47);
	sink = narrow_result(0x12345680) + bool_result(48) + (text_result("text") != NULL);
	no_result(49);
	by_words(101, (struct one){102}, (struct two){103, 104}, 105);
	by_address(111, big, 112);
	of_nine(121, (struct nine){{1, 2, 3, 4, 5, 6, 7, 8, 9}}, 122);
	of_nothing(131, (struct empty){}, 132);
	of_bits(141, (struct bits){5, 100, -2}, 142);
	of_rows(151, (struct rows){{{1, 2}, {3, 4}}}, 152);
	of_flexible(161, (struct flexible){162}, 163);
	of_unions(171, (union word){.l = 172}, (union pair){{173, 174}}, 175);
	of_wide(201, (wide)202 << 64 | 203, 204);
	of_member(211, (struct member_aligned){212, 213}, 214);
	of_type(221, (struct type_aligned){222, 223}, 224);
	of_packed(231, (struct packed){(wide)232 << 64 | 233}, 234);
	of_ten(1, 2, 3, 4, 5, 6, 7, 8, -9, 10);
	half(1, 2, 3, 4, 5, 6, 7, (struct two){8, 9}, -10);
	half_wide(1, 2, 3, 4, 5, 6, 7, (wide)9 << 64 | 8, -10);
	aligned_on_stack(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
	call_narrow();
	enums(BLUE, HIGH);
	function(call_function, 301);
	variadic("%d", 311, 312);
	sink += constant(argc + 320, 5, argc + 330) + constant(argc + 320, 5, argc + 330);
	sink += scalars(argc + 340, &big, argc + 350) + scalars(argc + 340, &big, argc + 350);
	return 0;
}
