// needs: kern/shell/expand.c kern/shell/parse.c kern/base/glob.c kern/fs/file.c kern/fs/seq.c
// needs: kern/tests/file_host.c -Ikern/ftrace/tests/host
#include <gtest/gtest.h>
#include <string>
#include <vector>
#include "shell_host.h"

extern "C" {
extern bool host_no_memory;
struct node;
struct node *host_make(const char *path, int mode, const char *contents);
struct node *shell_cwd(void);
struct node *shell_cwd(void)
{
	return nullptr;
}
}

namespace {

using Words = std::vector<std::string>;

/* The words of the command @line, or {"error"}. */
Words expanded(std::string line)
{
	command_line c{};

	return shell_parse(line.c_str(), SEQUENCE, {0, 0}, &c) ? Words{"error"}
								: Words{c.argv, c.argv + c.argc};
}

class Expand : public testing::Test {
public:
	static void SetUpTestSuite()
	{
		for (const char *path : {"/b.txt", "/a.txt", "/.hidden", "/ev/sched/on/enable",
					 "/ev/sched/off/enable", "/ev/sched-x/on/enable",
					 "/ev/enable", "/a*b", "/back\\slash"})
			ASSERT_TRUE(host_make(path, 0644, ""));
	}
};

TEST_F(Expand, names_are_sorted_and_the_other_words_stay)
{
	EXPECT_EQ(expanded("ls -l *.txt x"), (Words{"ls", "-l", "a.txt", "b.txt", "x"}));
	EXPECT_EQ(expanded("ls ?.txt [!a].txt"), (Words{"ls", "a.txt", "b.txt", "b.txt"}));
}

TEST_F(Expand, a_glob_that_matches_nothing_stays)
{
	EXPECT_EQ(expanded("echo wl_* ev/*/none/enable [ab a.txt/* '*'?"),
		  (Words{"echo", "wl_*", "ev/*/none/enable", "[ab", "a.txt/*", "*?"}));
}

TEST_F(Expand, what_is_quoted_stays)
{
	EXPECT_EQ(expanded("echo '*.txt' a\\* *'.txt' a'*'*"),
		  (Words{"echo", "*.txt", "a*", "a.txt", "b.txt", "a**"}));
}

TEST_F(Expand, a_slash_divides_a_glob)
{
	EXPECT_EQ(expanded("cat ev/sched/*/enable"),
		  (Words{"cat", "ev/sched/off/enable", "ev/sched/on/enable"}));
	EXPECT_EQ(expanded("cat /ev/*/*/e*"),
		  (Words{"cat", "/ev/sched/off/enable", "/ev/sched/on/enable",
			 "/ev/sched-x/on/enable"}));
	EXPECT_EQ(expanded("ls e*"), (Words{"ls", "ev"})) << "* matches no slash";
}

TEST_F(Expand, a_slash_at_the_end_matches_directories)
{
	EXPECT_EQ(expanded("ls ev/*/"), (Words{"ls", "ev/sched/", "ev/sched-x/"}));
	EXPECT_EQ(expanded("ls ev//sched*//on"), (Words{"ls", "ev//sched//on", "ev//sched-x//on"}));
}

TEST_F(Expand, dots)
{
	EXPECT_EQ(expanded("ls *hidden .h*"), (Words{"ls", "*hidden", ".hidden"}));
	EXPECT_EQ(expanded("ls ev/*/../enable ./b*"),
		  (Words{"ls", "ev/sched/../enable", "ev/sched-x/../enable", "./b.txt",
			 "./back\\slash"}));
}

TEST_F(Expand, too_many_words)
{
	for (int i = 0; i < 490; i++)
		ASSERT_TRUE(host_make(("/many/" + std::to_string(i)).c_str(), 0644, ""));
	EXPECT_EQ(expanded("ls many/*").size(), 491u);
	EXPECT_EQ(expanded("ls 1 2 3 4 5 6 7 8 9 many/*").size(), 500u);
	EXPECT_EQ(expanded("ls many/* 2 3 4 5 6 7 8 9 10").size(), 500u);
	EXPECT_EQ(expanded("ls 1 2 3 4 5 6 7 8 9 10 many/*"), Words{"error"});
	EXPECT_EQ(expanded("ls many/* 2 3 4 5 6 7 8 9 10 11"), Words{"error"});
}

TEST_F(Expand, too_many_letters)
{
	std::string slashes(50, '/');
	EXPECT_EQ(expanded("ls many" + slashes + "[12]*").size(), 223u);
	EXPECT_EQ(expanded("ls many" + slashes + slashes + "[12]*"), Words{"error"});
}

TEST_F(Expand, too_many_parts)
{
	EXPECT_EQ(expanded("ls ./././././././././././a.*"),
		  (Words{"ls", "./././././././././././a.txt"}));
	EXPECT_EQ(expanded("ls ././././././././././././a.*"), Words{"error"});
}

TEST_F(Expand, too_long_a_path)
{
	std::string name(250, 'n'), path, glob = "n*";
	for (int i = 0; i < 10; i++)
		path += "/" + name;
	ASSERT_TRUE(host_make(path.c_str(), 0644, ""));
	for (int i = 0; i < 3; i++)
		glob += "/*";
	EXPECT_EQ(expanded("ls " + glob).size(), 2u);
	EXPECT_EQ(expanded("ls " + glob + "/*/*/*/*/*"), Words{"error"});
}

TEST_F(Expand, no_memory)
{
	host_no_memory = true;
	Words words = expanded("ls *");
	host_no_memory = false;
	EXPECT_EQ(words, (Words{"ls", "*"}));
}

} // namespace
