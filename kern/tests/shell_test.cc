// needs: kern/shell/parse.c -Ikern/ftrace/tests/host
#include <gtest/gtest.h>
#include <cstring>
#include <random>
#include <string>
#include <vector>
#include "shell_host.h"

extern "C" {
int files; /* that each glob matches: all have its name */
int shell_expand(struct command_line *c, const char *glob)
{
	for (int i = 0; i < files && c->argc < WORDS_MAX; i++)
		c->argv[c->argc++] = const_cast<char *>(glob);
	return files;
}
}

namespace {

struct Parsed {
	std::string text;
	command_line c{};
	int err;
	explicit Parsed(std::string line, shell_operator before = SEQUENCE,
			shell_values values = {0, 0})
		: text(std::move(line)), err(shell_parse(text.data(), before, values, &c))
	{
	}
	std::vector<std::string> words() const { return {c.argv, c.argv + c.argc}; }
	std::string rest() const { return c.rest; }
};
using Words = std::vector<std::string>;

TEST(Shell, splits_at_blanks)
{
	EXPECT_EQ(Parsed("  echo a\tb  ").words(), (Words{"echo", "a", "b"}));
	EXPECT_EQ(Parsed("").words(), Words{});
	EXPECT_EQ(Parsed("   \t ").words(), Words{});
}

TEST(Shell, quotes_keep_blanks_and_operators)
{
	EXPECT_EQ(Parsed("echo 'a  b' \"c > d\" e\\ f").words(),
		  (Words{"echo", "a  b", "c > d", "e f"}));
	EXPECT_EQ(Parsed("a'b'\"c\"d").words(), (Words{"abcd"}));
	EXPECT_EQ(Parsed("echo '' \"\"").words(), (Words{"echo", "", ""}));
	EXPECT_EQ(Parsed("echo \"a\\\"b\" 'a\\b' \"a\\b\"").words(),
		  (Words{"echo", "a\"b", "a\\b", "a\\b"}));
}

TEST(Shell, redirects)
{
	for (const char *line :
	     {"echo a > f", "echo a >f", "echo a>f", "> f echo a", "echo > f a"}) {
		Parsed p(line);
		ASSERT_EQ(p.err, 0) << line;
		EXPECT_EQ(p.words(), (Words{"echo", "a"})) << line;
		EXPECT_STREQ(p.c.out, "f") << line;
		EXPECT_FALSE(p.c.append) << line;
	}
	Parsed p("echo a>>'f g'&");
	EXPECT_STREQ(p.c.out, "f g");
	EXPECT_TRUE(p.c.append);
	EXPECT_EQ(p.c.next, BACKGROUND);
	EXPECT_EQ(p.words(), (Words{"echo", "a"}));
}

TEST(Shell, a_number_that_is_no_descriptor_is_a_word)
{
	for (const char *line : {"echo 2 >f", "echo '2'>f", "echo \\2>f"}) {
		Parsed p(line);
		EXPECT_EQ(p.err, 0) << line;
		EXPECT_EQ(p.words(), (Words{"echo", "2"})) << line;
	}
	EXPECT_EQ(Parsed("echo a2>f").words(), (Words{"echo", "a2"}));
}

TEST(Shell, a_glob_is_not_quoted)
{
	files = 2;
	Parsed p("*o !sched* [ab]? '*' a\\*b \"?\" '['* a? <'*'* >*");
	EXPECT_EQ(p.words(), (Words{"*o", "!sched*", "!sched*", "[ab]?", "[ab]?", "*", "a*b", "?",
				    "[*", "a?", "a?"}))
		<< "nor is the name of a command a glob";
	EXPECT_STREQ(p.c.in, "**");
	EXPECT_STREQ(p.c.out, "*");
	EXPECT_EQ(Parsed("a 'x'* \"\\\\\"*").words(), (Words{"a", "x*", "x*", "\\*"}));
	files = 0;
	EXPECT_EQ(Parsed("a * b").words(), (Words{"a", "*", "b"})) << "it matches nothing";
	files = -7;
	EXPECT_NE(Parsed("a * b").err, 0);
	files = 0;
}

TEST(Shell, values_stand_for_what_happened)
{
	EXPECT_EQ(Parsed("echo $? \"$?\" '$?' \\$? a$!b $x", SEQUENCE, {137, 4095}).words(),
		  (Words{"echo", "137", "137", "$?", "$?", "a4095b", "$x"}));
	EXPECT_EQ(Parsed("echo $! $").words(), (Words{"echo", "$!", "$"})) << "no job yet";
}

TEST(Shell, an_operator_ends_a_command)
{
	struct {
		const char *line;
		shell_operator next;
	} const all[] = {{"a x| b", PIPE},	{"a x & b", BACKGROUND}, {"a x&& b", AND},
			 {"a x ||b", OR},	{"a x; b", SEQUENCE},	 {"a x", LAST},
			 {"a x # | b", LAST}};
	for (auto &[line, next] : all) {
		Parsed p(line);
		EXPECT_EQ(p.err, 0) << line;
		EXPECT_EQ(p.words(), (Words{"a", "x"})) << line;
		EXPECT_EQ(p.c.next, next) << line;
		if (next != LAST)
			EXPECT_EQ(Parsed(p.rest(), next).words(), Words{"b"}) << line;
	}
	EXPECT_EQ(Parsed("a & ; b").rest(), " b");
}

TEST(Shell, an_operator_without_its_command_is_refused)
{
	for (const char *line : {"|", "| b", "&& b", "|| b", "&", ";", "; b", "> f | b", "> f &"})
		EXPECT_NE(Parsed(line).err, 0) << line;
	for (shell_operator before : {PIPE, AND, OR})
		for (const char *line : {"", "  ", "# b", "| b", "& b", "; b", "&& b"})
			EXPECT_NE(Parsed(line, before).err, 0) << before << line;
	EXPECT_NE(Parsed("> f", PIPE).err, 0);
	for (const char *line : {"", "# b", "> f", "< f"})
		EXPECT_EQ(Parsed(line, BACKGROUND).err, 0) << line;
	EXPECT_EQ(Parsed("> f", AND).err, 0);
}

TEST(Shell, redirects_input)
{
	Parsed p("a<'f g'>>h");
	EXPECT_EQ(p.err, 0);
	EXPECT_STREQ(p.c.in, "f g");
	EXPECT_STREQ(p.c.out, "h");
	EXPECT_TRUE(p.c.append);
	EXPECT_NE(Parsed("a < f < g").err, 0);
}

TEST(Shell, comments_begin_at_a_word)
{
	EXPECT_EQ(Parsed("echo a#b # c > d &").words(), (Words{"echo", "a#b"}));
	EXPECT_EQ(Parsed("sleep 1 & # later").c.next, BACKGROUND);
}

TEST(Shell, refuses_in_a_sentence)
{
	for (const char *line :
	     {"echo 'a", "echo \"a", "echo a >", "echo >> ", "echo > a > b", "a <", "&",
	      "> >f", ";", "echo > 'a", "cat x 2> f", "cat x 2>>f", "echo 1>f", "a 2>&1",
	      "10>f", "a > f 2>g"}) {
		Parsed p(line);
		EXPECT_NE(p.err, 0) << line;
		ASSERT_NE(p.c.error, nullptr) << line;
		EXPECT_GT(strlen(p.c.error), 10u) << line;
	}
	std::string many = "x";
	for (int i = 0; i < WORDS_MAX; i++)
		many += " x";
	EXPECT_NE(Parsed(many).err, 0);
	EXPECT_EQ(Parsed(many.substr(2)).words().size(), size_t{WORDS_MAX});
}

TEST(Shell, survives_any_line)
{
	std::mt19937 random(1);
	const std::string letters = "ab \t'\"\\>&|<;#$?!*[";

	for (int i = 0; i < 20000; i++) {
		std::string line;
		for (unsigned n = random() % (i % 10 ? 24 : LINE_MAX); n; n--)
			line += letters[random() % letters.size()];
		shell_operator before = SEQUENCE;
		do {
			Parsed p(line, before, {255, 4095});
			ASSERT_TRUE(p.err == 0 || p.c.error) << line;
			ASSERT_LT(p.c.len, sizeof(p.c.text)) << line;
			if (p.err)
				break;
			before = p.c.next;
			line = p.rest();
		} while (before != LAST);
	}
}

} // namespace
