// needs: kern/ftrace/events/probe_parse.c kern/base/string.c kern/base/print.c -DKERNEL_NAMES
// needs: -Ikern/ftrace/tests/host -Ikern/tests
/*
 * Lines of kprobe_events: what is understood, and each error of Linux's probe parser with its
 * column.
 */
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

#include "host.h"
extern "C" {
#include "memory.h"
#include "errno.h"
#include "probe_parse.h"
#include "probe_parse_host.h"
}

namespace
{

struct Parse : testing::Test {
	probe_def *def = nullptr;
	probe_error error{};
	std::string line;

	~Parse() override { forget(); }
	void forget()
	{
		free(def);
		free(error.command);
		def = nullptr;
		error.command = nullptr;
	}
	int parse(const std::string &text)
	{
		forget();
		line = text;
		return probe_parse(line.data(), &probe_host_names, &def, &error);
	}
	std::string described()
	{
		std::string text(probe_describe(nullptr, 0, def), 0);

		probe_describe(text.data(), text.size() + 1, def);
		return std::string(def->group) + "/" + def->event + text;
	}
	const probe_arg &arg(const std::string &text)
	{
		EXPECT_EQ(parse("p vfs_read " + text), 0)
			<< text << ": " << (error.text ? error.text : "");
		return def->arg[0];
	}
	/* The ^ in @text is where the error must be. */
	void refuses(std::string text, const char *why)
	{
		size_t at = text.find('^');

		text.erase(at, 1);
		EXPECT_LT(parse(text), 0) << text;
		EXPECT_STREQ(error.text, why) << text;
		EXPECT_EQ(error.column, at) << text;
		EXPECT_EQ(error.command ? error.command : "", text);
		EXPECT_EQ(def, nullptr);
	}
};

TEST_F(Parse, names_are_made_as_on_linux)
{
	struct {
		const char *line, *made;
	} lines[] = {
		{"p vfs_read", "kprobes/p_vfs_read_0 vfs_read"},
		{"p:one vfs_read+8", "kprobes/one vfs_read+8"},
		{"p:mine/ vfs_read+0x10", "mine/p_vfs_read_16 vfs_read+16"},
		{"p:mine/two vfs_read", "mine/two vfs_read"},
		{"p:my-group.two vfs_read", "my-group/two vfs_read"},
		{"p part.isra.0", "kprobes/p_part_isra_0_0 part.isra.0"},
		{"p 0x1234", "kprobes/p_0x1234 0x0000000000001234"},
		{"r vfs_read $retval", "kprobes/r_vfs_read_0 vfs_read arg1=$retval"},
		{"p vfs_read%return", "kprobes/r_vfs_read_0 vfs_read"},
		{"f vfs_read", "fprobes/vfs_read__entry vfs_read"},
		{"f vfs_read%return", "fprobes/vfs_read__exit vfs_read%return"},
		{"f vfs_read ret=$retval", "fprobes/vfs_read__exit vfs_read%return ret=$retval"},
		{"p:a/b  ramfs:ram_read   x=$arg1\t$comm", "a/b ramfs:ram_read x=$arg1 arg2=$comm"},
		{"p vfs_read $arg3 $arg1:u8 n=$arg2",
		 "kprobes/p_vfs_read_0 vfs_read count=count file=file:u8 n=$arg2"},
		{"p plain $arg9", "kprobes/p_plain_0 plain arg1=$arg9"},
		{"p large m=$arg2:u8 $arg1 $arg2",
		 "kprobes/p_large_0 large m=$arg2:u8 k=k arg3=$arg2"},
		{"p variadic $arg* x=$arg3",
		 "kprobes/p_variadic_0 variadic format=format number=number x=$arg3"},
		{"p nothing $arg1", "kprobes/p_nothing_0 nothing arg1=$arg1"},
		{"p vfs_read $arg*", "kprobes/p_vfs_read_0 vfs_read file=file buf=buf count=count"},
	};

	for (const auto &l : lines) {
		EXPECT_EQ(parse(l.line), 0) << l.line << ": " << (error.text ? error.text : "");
		if (def)
			EXPECT_EQ(described(), l.made);
	}
}

TEST_F(Parse, fetches_become_a_base_and_reads)
{
	EXPECT_EQ(arg("n=$arg3").base, PROBE_ARG);
	EXPECT_EQ(arg("n=$arg3").param, 2u);
	EXPECT_EQ(arg("$arg3").param, 2u);
	EXPECT_STREQ(arg("$arg3").type->name, "u64");
	EXPECT_EQ(arg("$stack12").param, 12u);
	EXPECT_EQ(arg("%x8").param, 8u);
	EXPECT_EQ(parse("p vfs_read+4 %x9"), 0);
	EXPECT_EQ(parse("r vfs_read %x7"), 0);
	EXPECT_EQ(arg("\\-3").param, -3ul);
	EXPECT_EQ(arg("\\0xffffffffffffffff").param, -1ul);
	EXPECT_STREQ(arg("\\\"hello\"").text, "hello");
	EXPECT_EQ(arg("@vfs_read+4").param, 0x1004u);
	EXPECT_EQ(arg("@0x8000").derefs, 1);
	const probe_arg &a = arg("-8(+0x10(+u4($arg1))):u16[3]");
	EXPECT_EQ(a.derefs, 3);
	EXPECT_EQ(a.deref[0], 4);
	EXPECT_EQ(a.deref[1], 16);
	EXPECT_EQ(a.deref[2], -8);
	EXPECT_EQ(a.count, 3);
	EXPECT_EQ(a.type->size, 2);
	const probe_arg &b = arg("$arg1:b3@4/16");
	EXPECT_EQ(b.width, 3);
	EXPECT_EQ(b.shift, 4);
	EXPECT_EQ(b.type->size, 2);
}

TEST_F(Parse, a_parameter_has_its_register_and_its_type)
{
	EXPECT_STREQ(arg("count").type->name, "u64");
	EXPECT_EQ(arg("count").param, 2u);
	EXPECT_STREQ(arg("file").type->name, "x64");
	EXPECT_STREQ(arg("count:u8").type->name, "u8");
	EXPECT_STREQ(arg("+0(buf):string").type->name, "string");
	EXPECT_EQ(parse("r vfs_read count $retval"), 0);
	EXPECT_TRUE(def->keeps_args);
}

TEST_F(Parse, an_argument_is_where_it_is_passed)
{
	struct {
		const char *line;
		probe_base base;
		unsigned long param;
		const char *type;
	} cases[] = {
		{"p large k", PROBE_ARG, 1, "s32"},
		{"p large $arg1", PROBE_ARG, 1, "s32"},
		{"r large x=$arg1", PROBE_ARG, 1, "x64"},
		{"p large x=$arg2:u8", PROBE_ARG, 2, "u8"}, /* it has no name */
		{"p large x=$arg3", PROBE_ARG, 4, "x64"},
		{"p structs x=$arg1", PROBE_ARG, 0, "x64"}, /* its first word */
		{"p structs low", PROBE_STACK, 0, "s8"},
		{"p part.isra.0 more", PROBE_ARG, 2, "u8"},
		{"p part.isra.0 x=$arg3", PROBE_ARG, 2, "x64"},
		{"p variadic x=$arg4", PROBE_ARG, 3, "x64"}, /* after the named ones */
		{"p plain $arg9", PROBE_STACK, 0, "x64"},
		{"f many i", PROBE_STACK, 0, "s16"},
		{"p many j", PROBE_STACK, 1, "s64"},
		{"r vfs_read $retval", PROBE_RETVAL, 0, "s64"},
		{"r variadic x=$retval", PROBE_RETVAL, 0, "u8"},
		{"r variadic $retval:x32", PROBE_RETVAL, 0, "x32"},
		{"r plain $retval", PROBE_RETVAL, 0, "x64"},
		{"r many $retval", PROBE_RETVAL, 0, "x64"}, /* a structure */
	};

	for (const auto &c : cases) {
		ASSERT_EQ(parse(c.line), 0) << c.line << ": " << error.text;
		EXPECT_EQ(def->arg[0].base, c.base) << c.line;
		EXPECT_EQ(def->arg[0].param, c.param) << c.line;
		EXPECT_STREQ(def->arg[0].type->name, c.type) << c.line;
	}
}

TEST_F(Parse, fields_follow_each_other_without_gaps)
{
	/* a register is no string */
	ASSERT_EQ(parse("r vfs_read a=$retval:u8 b=$retval:string c=$comm d=$retval") == 0, false);
	ASSERT_EQ(parse("r vfs_read a=$retval:u8 b=$comm c=+0($retval):u16[3] d=$retval"), 0);
	EXPECT_EQ(def->arg[0].offset, 24u);
	EXPECT_EQ(def->arg[1].offset, 25u);
	EXPECT_EQ(def->arg[2].offset, 29u);
	EXPECT_EQ(def->arg[3].offset, 35u);
	EXPECT_EQ(def->size, 43u);
}

/* The lines of Linux's own test of this (kprobe_syntax_errors), and more. */
TEST_F(Parse, errors_are_those_of_linux)
{
	std::string sixty_five(65, 'a');
	struct {
		std::string line;
		const char *why;
	} lines[] = {
		{"p^100 vfs_read", "Maxactive is only for function exit"},
		{"r^1a111 vfs_read", "Invalid maxactive number"},
		{"r^0 vfs_read", "Invalid maxactive number"},
		{"r^100000 vfs_read", "Maxactive is too big"},
		{"f^5 vfs_read", "Maxactive is only for function exit"},
		{"p ^non_exist_func", "Invalid probed address or symbol"},
		{"p ^hoge-fuga", "Invalid probed address or symbol"},
		{"p ^hoge+1000-1000", "Invalid probed address or symbol"},
		{"f ^non_exist_func", "Invalid probed address or symbol"},
		{"p ^twice", "The symbol is not unique"},
		{"p ^/bin/bash:0x4245c0", "A file has no probes here: there are no uprobes"},
		{"p:up ^/bin/bash:0x40%return", "A file has no probes here: there are no uprobes"},
		{"r ^vfs_read+10", "Retprobe address must be an function entry"},
		{"p vfs_read^%hoge", "Invalid probed address suffix"},
		{"p:^/bar vfs_read", "Group name is not specified"},
		{"p:^" + sixty_five + "/bar vfs_read", "Group name is too long"},
		{"p:^foo*1/bar vfs_read", "Group name must follow the same rules as C identifiers"},
		{"p:^ vfs_read", "Event name is not specified"},
		{"p:foo/^" + sixty_five + " vfs_read", "Event name is too long"},
		{"p:foo/^bar.1 vfs_read", "Event name must follow the same rules as C identifiers"},
		{"p vfs_read ^$retval", "$retval is not available on probe"},
		{"p vfs_read ^$stack10000", "Invalid stack number"},
		{"p vfs_read ^$arg10000", "Invalid argument number"},
		{"p vfs_read ^$arg0", "Invalid argument number"},
		{"p vfs_read ^$arg4", "This variable is not found at this probe point"},
		{"p vfs_read ^$arg4294967297", "Invalid argument number"},
		{"p vfs_read ^$arg1x", "Invalid $-valiable specified"},
		{"p vfs_read+8 ^$arg1", "$arg* can be used only on function entry or exit"},
		{"p vfs_read+8 x=^$arg1", "Invalid $-valiable specified"},
		{"r nothing ^$retval", "This function returns 'void' type"},
		{"p nothing ^file", "No BTF entry for this probe point"},
		{"p nothing ^$arg*", "BTF is not available or not supported"},
		{"p vfs_read ^file:string", "This type does not fit for string."},
		{"p vfs_read +0(+8(%x1)^x)", "Invalid fetch argument"},
		{"p vfs_read +0(%x1)^+10", "Invalid fetch argument"},
		{"p vfs_read ^$none_var", "Invalid $-valiable specified"},
		{"f vfs_read ^%x1", "Invalid $-valiable specified"},
		{"p vfs_read ^%none_reg", "Invalid register name"},
		{"p vfs_read ^%x9", "Invalid register name"},
		{"r vfs_read ^%x9", "Invalid register name"},
		{"r vfs_read ^%x8", "Invalid register name"},
		{"p vfs_read%return ^%x8", "Invalid register name"},
		{"p vfs_read ^@12345678abcde", "Invalid memory address"},
		{"p vfs_read ^@+10", "File offset is not available with kprobe"},
		{"p ^vfs_read @nosuch", "Invalid probed address or symbol"},
		{"p vfs_read arg1=\\^x", "Invalid immediate value"},
		{"p vfs_read arg1=\\\"abcd^", "String is not closed with '\"'"},
		{"p vfs_read ^+0@0)", "Dereference needs a brace"},
		{"p vfs_read ^+0ab1(@0)", "Invalid dereference offset"},
		{"p vfs_read +0(+0(@0^)", "Dereference brace is not closed"},
		{"p vfs_read +0(^$comm)", "$comm can not be dereferenced"},
		{"p vfs_read ^&1", "Invalid fetch argument"},
		{"p vfs_read +0(^+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(+0(@0))))))))))))))",
		 "Dereference is too much nested"},
		{"p vfs_read +0(@11):u8[10^", "Array is not closed"},
		{"p vfs_read +0(@11):u8[10]^a", "Array has wrong suffix"},
		{"p vfs_read +0(@11):u8[^10a]", "Invalid array size"},
		{"p vfs_read +0(@11):u8[^256]", "Array number is too big"},
		{"p vfs_read @11:^unknown_type", "Unknown type is specified"},
		{"p vfs_read $stack0:^string", "String accepts only memory argument"},
		{"p vfs_read @11:^b10@a/16", "Invalid bitfield"},
		{"p vfs_read @11:^b10@10/16", "Invalid bitfield"},
		{"p vfs_read @11:^b10@1/17", "Unknown type is specified"},
		{"p vfs_read $comm:^u8", "$comm and immediate-string only accepts string type"},
		{"p vfs_read ^arg123456789012345678901234567890=@11", "Argument name is too long"},
		{"p vfs_read ^=@11", "Argument name is not specified"},
		{"p vfs_read ^var.1=@11",
		 "Argument name must follow the same rules as C identifiers"},
		{"p vfs_read var1=@11 ^var1=@12", "This argument name is already used"},
		{"p vfs_read ^common_pid=@12", "This argument name is already used"},
		{"p vfs_read ^" + sixty_five, "Argument expression is too long"},
		{"p vfs_read arg1=^", "No argument expression"},
		{"p vfs_read args=^$arg*",
		 "$arg* must be an independent parameter without name etc."},
		{"p vfs_read +0(^$arg*)",
		 "$arg* must be an independent parameter without name etc."},
		{"p vfs_read $arg* ^$arg*", "$arg* can be used only once in the parameters"},
		{"p vfs_read+8 ^$arg*", "$arg* can be used only on function entry or exit"},
		{"p plain ^$arg*", "BTF is not available or not supported"},
		{"p plain ^hoge", "No BTF entry for this probe point"},
		{"p vfs_read+8 ^file", "BTF is not available or not supported"},
		{"p vfs_read ^hoge", "This variable is not found at this probe point"},
		{"p structs ^pair", "Non pointer structure/union argument is not supported."},
		{"p many ^empty", "Non pointer structure/union argument is not supported."},
		{"p many ^$arg*", "Non pointer structure/union argument is not supported."},
		{"p large ^wide", "An integer of 16 bytes is not supported"},
		{"r large ^$retval",
		 "This function returns a structure in memory, not in a register"},
		{"r part.isra.0 ^$retval",
		 "It is not known whether this function has kept its result"},
		{"p part.isra.0 ^gone", "The place of this argument is not known"},
		{"p part.isra.0 ^$arg2", "The place of this argument is not known"},
		{"p part.isra.0 x=^$arg2", "The place of this argument is not known"},
		{"p part.isra.0 x=^$arg4", "The place of this argument is not known"},
		{"p many x=^$arg10", "The place of this argument is not known"},
		{"r many ^j", "This argument is on the stack, so only a probe at the entry has it"},
		{"f plain%return ^$arg9",
		 "This argument is on the stack, so only a probe at the entry has it"},
	};

	for (const auto &l : lines)
		refuses(l.line, l.why);
}

TEST_F(Parse, too_deep_and_too_many)
{
	std::string many = "p vfs_read", deep = "@vfs_read";

	for (int i = 0; i < 129; i++)
		many += " a" + std::to_string(i) + "=$stack";
	EXPECT_EQ(parse(many), -E2BIG);
	EXPECT_STREQ(error.text, "Too many arguments are specified");
	EXPECT_EQ(error.column, 11u);
	for (int i = 0; i < 14; i++)
		deep = "-(" + deep + ")";
	EXPECT_EQ(parse("p vfs_read " + deep), -EINVAL);
}

TEST_F(Parse, what_is_no_probe_has_no_entry_in_the_log)
{
	for (const char *text : {"p", "x vfs_read", "pvfs_read x", "r", "nonsense"}) {
		EXPECT_EQ(parse(text), -EINVAL) << text;
		EXPECT_EQ(error.text, nullptr) << text;
	}
	EXPECT_EQ(parse("  \t "), -ENODEV);
}

} // namespace
