// needs: kern/ftrace/trace/trace_args.c kern/base/print.c -Ikern/ftrace/tests/host
/* A function's arguments as text: every kind that kern/ftrace/tools/mksyms.py knows. */
#include "fake_output.h"

namespace
{

struct Args : Output {
	/* @parameters: as the build writes them after the name. */
	std::string print(const char *parameters, std::vector<uint64_t> values)
	{
		static std::string symbol;
		std::vector<uint32_t> words;

		symbol = std::string("some_function") + '\0' + parameters;
		fake_symbols = {{0x1000, 0x20, symbol.c_str()}};
		for (auto v : values) {
			words.push_back(v);
			words.push_back(v >> 32);
		}
		text.clear();
		EXPECT_EQ(trace_args_count(0x1008), values.size());
		trace_print_args(&s, 0x1008, (const u32(*)[2])words.data());
		return text;
	}
};

TEST_F(Args, none)
{
	EXPECT_EQ(print("", {}), "");
	EXPECT_EQ(print("0v", {}), "");
	EXPECT_EQ(print("0m", {}), "");
	fake_symbols.clear();
	EXPECT_EQ(trace_args_count(0x1008), 0u);
}

TEST_F(Args, an_address_as_linux_prints_it)
{
	EXPECT_EQ(print("1vpsem,", {0xffff8880100bea78}), "sem=0xffff8880100bea78");
	EXPECT_EQ(print("2ipto,pfrom,", {0, 0x10}), "to=0x0, from=0x10");
}

TEST_F(Args, an_integer_is_as_wide_as_its_type_whatever_the_register_holds)
{
	EXPECT_EQ(print("4iba,hb,ic,ld,", {0x12ff, 0x12345ffff, 0xdead0000fffffffe, ~0ull}),
		  "a=-1, b=-1, c=-2, d=-1");
	EXPECT_EQ(print("4iBa,Hb,Ic,Ld,", {0x12ff, 0x12345ffff, 0xdead0000fffffffe, 7}),
		  "a=255, b=65535, c=4294967294, d=7");
	EXPECT_EQ(print("1iLa,", {0x8000000000000000}), "a=-9223372036854775808")
		<< "Linux 6.15: all are signed longs";
	EXPECT_EQ(print("5iqa,Qb,ic,", {1, 2, 3, ~0ull, 5}),
		  "a=0x20000000000000001, b=0xffffffffffffffff0000000000000003, c=5");
}

TEST_F(Args, structures)
{
	EXPECT_EQ(print("3isa,Sb,", {1, 2, 3}), "a=(STRUCT)[0x1], b=(STRUCT)[0x2:0x3]");
	EXPECT_EQ(print("3iua,Ub,", {1, 2, 3}), "a=(UNION)[0x1], b=(UNION)[0x2:0x3]");
	EXPECT_EQ(print("2iia,eb,ic,", {1, 2}), "a=1, b=(STRUCT)[], c=2");
}

TEST_F(Args, where_they_are)
{
	EXPECT_EQ(print("3mi1k,im,", {0x1234, 41, 42}), "k=41, m=42")
		<< "after the address for the result";
	EXPECT_EQ(print("5iia,q2wide,ib,", {1, 99, 3, 4, 5}), "a=1, wide=0x40000000000000003, b=5")
		<< "an even register";
	EXPECT_EQ(print("4??p,I2n,pparam,", {1, 2, 3, 4}), "p=?, n=3, param=0x4") << "a clone";
	EXPECT_EQ(print("1?pp,?count,", {1}), "p=0x1, count=?");
	EXPECT_EQ(print("1vi0,", {7}), "=7") << "a parameter without a name";
}

TEST_F(Args, on_the_stack_as_linux_prints_them)
{
	EXPECT_EQ(print("8iia,ib,ic,id,ie,if,ig,ih,ii,ij,", {1, 2, 3, 4, 5, 6, 7, 8}),
		  "a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, ...");
	EXPECT_EQ(print("8iia,ib,ic,id,ie,if,ig,Sh,ii,", {1, 2, 3, 4, 5, 6, 7, 8}),
		  "a=1, b=2, c=3, d=4, e=5, f=6, g=7, ...")
		<< "half in a register";
	EXPECT_EQ(print("7iia,ib,ic,id,ie,if,ig,S8h,ii,", {1, 2, 3, 4, 5, 6, 7}),
		  "a=1, b=2, c=3, d=4, e=5, f=6, g=7, ...");
}

} // namespace
