// needs: kern/ftrace/trace/trace_args.c kern/print.c -Ikern/ftrace/tests/host
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
	fake_symbols.clear();
	EXPECT_EQ(trace_args_count(0x1008), 0u);
}

TEST_F(Args, of_a_function_that_returns_nothing)
{
	EXPECT_EQ(print("@", {}), "");
	EXPECT_EQ(print("Cia,Sb,", {1, 2, 3}), "a=1, b=(STRUCT)[0x2:0x3]");
	EXPECT_EQ(print("Hpa,pb,pc,pd,pe,pf,pg,ph,", {1, 2, 3, 4, 5, 6, 7, 8}), "a=0x1, b=0x2, c=0x3, d=0x4, e=0x5, f=0x6, g=0x7, h=0x8");
}

TEST_F(Args, an_address_as_linux_prints_it)
{
	EXPECT_EQ(print("1psem,", {0xffff8880100bea78}), "sem=0xffff8880100bea78");
	EXPECT_EQ(print("2pto,pfrom,", {0, 0x10}), "to=0x0, from=0x10");
}

TEST_F(Args, an_integer_is_as_wide_as_its_type_whatever_the_register_holds)
{
	EXPECT_EQ(print("4ba,hb,ic,ld,", {0x12ff, 0x12345ffff, 0xdead0000fffffffe, ~0ull}), "a=-1, b=-1, c=-2, d=-1");
	EXPECT_EQ(print("4Ba,Hb,Ic,Ld,", {0x12ff, 0x12345ffff, 0xdead0000fffffffe, 7}),
		  "a=255, b=65535, c=4294967294, d=7");
	EXPECT_EQ(print("1La,", {0x8000000000000000}), "a=-9223372036854775808") << "Linux 6.15: all are signed longs";
}

TEST_F(Args, structures_and_what_does_not_fit)
{
	EXPECT_EQ(print("3sa,Sb,", {1, 2, 3}), "a=(STRUCT)[0x1], b=(STRUCT)[0x2:0x3]");
	EXPECT_EQ(print("3ua,Ub,", {1, 2, 3}), "a=(UNION)[0x1], b=(UNION)[0x2:0x3]");
	EXPECT_EQ(print("8ia,ib,ic,id,ie,if,ig,ih,.,", {1, 2, 3, 4, 5, 6, 7, 8}),
		  "a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, ...");
}

} // namespace
