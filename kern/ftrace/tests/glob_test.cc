// needs: kern/base/glob.c -Ikern/ftrace/tests/host
/* Globs, compared with the C library's fnmatch(3). */
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <string>

extern "C" bool glob_match(const char *pattern, size_t len, const char *name);

static bool match(const std::string &pattern, const char *name)
{
	return glob_match(pattern.data(), pattern.size(), name);
}

TEST(glob, exact_name_matches_itself_alone)
{
	EXPECT_TRUE(match("schedule", "schedule"));
	EXPECT_FALSE(match("schedule", "schedule_tail"));
	EXPECT_FALSE(match("schedule", "do_schedule"));
	EXPECT_FALSE(match("", "a"));
}

TEST(glob, star_matches_anywhere)
{
	EXPECT_TRUE(match("*", "anything"));
	EXPECT_TRUE(match("mutex_*", "mutex_lock"));
	EXPECT_TRUE(match("*_lock", "mutex_lock"));
	EXPECT_TRUE(match("*tex*", "mutex_lock"));
	EXPECT_TRUE(match("m*x*k", "mutex_lock"));
	EXPECT_FALSE(match("mutex_*", "spin_lock"));
}

TEST(glob, a_bracket_without_its_end_is_itself)
{
	EXPECT_TRUE(match("a[b", "a[b"));
	EXPECT_FALSE(match("a[b", "ab"));
}

TEST(glob, pattern_may_contain_what_memory_follows)
{
	EXPECT_TRUE(glob_match("abcdef", 3, "abc"));
}

TEST(glob, agrees_with_fnmatch)
{
	const char in_pattern[] = "ab*?[]!-", in_name[] = "ab-";
	srand(7);
	for (int i = 0; i < 200000; i++) {
		std::string pattern, name;
		for (int n = rand() % 7; n--;)
			pattern += in_pattern[rand() % (sizeof(in_pattern) - 1)];
		for (int n = rand() % 6; n--;)
			name += in_name[rand() % (sizeof(in_name) - 1)];
		/* glibc and shells differ on unclosed brackets and on reversed or dashed ranges. */
		if (pattern.find('[') != std::string::npos)
			if (pattern.find('-') != std::string::npos ||
			    pattern.rfind('[') != pattern.find('[') ||
			    pattern.find(']', pattern.find('[') +
						      (pattern.find("[!") == pattern.find('[')
							       ? 3
							       : 2)) == std::string::npos)
				continue;
		ASSERT_EQ(!fnmatch(pattern.c_str(), name.c_str(), 0), match(pattern, name.c_str()))
			<< "'" << pattern << "' and '" << name << "'";
	}
}
