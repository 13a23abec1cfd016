// needs: kern/shell/parse.c -Ikern/ftrace/tests/host
#include <gtest/gtest.h>
#include <cstring>
#include <random>
#include <string>
#include <vector>

/* Of shell.h, whose kernel types a C++ file does not take. */
extern "C" {
struct command_line {
	int argc;
	char *argv[64];
	char *out;
	bool append, background;
	const char *error;
};
int shell_parse(char *line, struct command_line *c);
char *shell_split(char *line);
}

namespace {

struct Parsed {
	std::string text;
	command_line c{};
	int err;
	explicit Parsed(std::string line) : text(std::move(line)), err(shell_parse(text.data(), &c))
	{
	}
	std::vector<std::string> words() const { return {c.argv, c.argv + c.argc}; }
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
	EXPECT_TRUE(p.c.background);
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

TEST(Shell, globs_and_bangs_are_letters)
{
	EXPECT_EQ(Parsed("echo !sched* [ab]?").words(), (Words{"echo", "!sched*", "[ab]?"}));
}

TEST(Shell, comments_begin_at_a_word)
{
	EXPECT_EQ(Parsed("echo a#b # c > d &").words(), (Words{"echo", "a#b"}));
	EXPECT_TRUE(Parsed("sleep 1 & # later").c.background);
}

TEST(Shell, refuses_in_a_sentence)
{
	for (const char *line :
	     {"echo 'a", "echo \"a", "echo a >", "echo >> ", "echo > a > b", "a | b", "a < b", "&",
	      "a & b", "> >f", ";", "echo > 'a", "cat x 2> f", "cat x 2>>f", "echo 1>f", "a 2>&1",
	      "10>f", "a > f 2>g"}) {
		Parsed p(line);
		EXPECT_NE(p.err, 0) << line;
		ASSERT_NE(p.c.error, nullptr) << line;
		EXPECT_GT(strlen(p.c.error), 10u) << line;
	}
	std::string many = "x";
	for (int i = 0; i < 63; i++)
		many += " x";
	EXPECT_NE(Parsed(many).err, 0);
	EXPECT_EQ(Parsed(many.substr(2)).words().size(), 63u);
}

TEST(Shell, splits_lists)
{
	std::string line = "echo 'a;b'; echo c\\;d ;e # f;g";
	char *second = shell_split(line.data());
	ASSERT_NE(second, nullptr);
	EXPECT_STREQ(line.c_str(), "echo 'a;b'");
	char *third = shell_split(second);
	EXPECT_STREQ(second, " echo c\\;d ");
	EXPECT_EQ(shell_split(third), nullptr);
}

TEST(Shell, survives_any_line)
{
	std::mt19937 random(1);
	const std::string letters = "ab \t'\"\\>&|<;#$";

	for (int i = 0; i < 200000; i++) {
		std::string line;
		for (unsigned n = random() % 24; n; n--)
			line += letters[random() % letters.size()];
		size_t size = line.size();
		Parsed p(line);
		EXPECT_TRUE(p.err == 0 || p.c.error) << line;
		for (int w = 0; w < p.c.argc; w++)
			if (p.c.argv[w])
				EXPECT_LE(strlen(p.c.argv[w]), size);
		std::string list = line;
		for (char *at = list.data(); at; at = shell_split(at))
			;
	}
}

} // namespace
