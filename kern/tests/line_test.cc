// needs: kern/shell/line.c
#include <gtest/gtest.h>
#include <cstring>
#include <memory>
#include <random>
#include <string>

extern "C" {
#include "console.h"
#include "line.h"
#include "print.h"
}

namespace {

/* A terminal of one endless row: what the user sees after everything written. */
struct Screen {
	std::string row;
	size_t at = 0;
	bool bad = false;

	void put(char c)
	{
		if (c == '\b') {
			bad |= at == 0;
			at -= at > 0;
		} else if (c == '\n') {
			row.clear();
			at = 0;
		} else if (c != '\a') {
			if (at == row.size())
				row += ' ';
			row[at++] = c;
		}
	}
	std::string shown() const { return row.substr(0, row.find_last_not_of(' ') + 1); }
};
Screen screen;
int bells;

void draw(const char *s, size_t n)
{
	for (; n--; s++) {
		screen.put(*s);
		bells += *s == '\a';
	}
}

class Line : public testing::Test {
protected:
	std::unique_ptr<line> l{new line{}};

	void SetUp() override
	{
		screen = {};
		bells = 0;
		l->prompt = "$";
		l->write = draw;
		line_begin(l.get());
	}
	line_result feed(const std::string &keys)
	{
		line_result r = LINE_MORE;
		for (unsigned char c : keys)
			r = line_feed(l.get(), c);
		return r;
	}
	/* Type, check the screen against the text, press Enter, begin anew. */
	std::string typed(const std::string &keys)
	{
		feed(keys);
		EXPECT_EQ(screen.shown(), std::string("$") + l->text) << keys;
		EXPECT_EQ(screen.at, 1 + l->cursor) << keys;
		EXPECT_EQ(feed("\r"), LINE_DONE) << keys;
		std::string text = l->text;
		line_remember(l.get());
		line_begin(l.get());
		return text;
	}
};

const std::string left = "\033[D", right = "\033[C", up = "\033[A", down = "\033[B";

TEST_F(Line, edits_anywhere)
{
	EXPECT_EQ(typed("echo"), "echo");
	EXPECT_EQ(typed("eco" + left + "h"), "echo");
	EXPECT_EQ(typed("echo\x7f\bCD"), "ecCD");
	EXPECT_EQ(typed("bc\x01" "a\x05" "d"), "abcd");
	EXPECT_EQ(typed("abc\033[Hx\033[Fy\033OHz"), "zxabcy");
	EXPECT_EQ(typed("abc\001\033[3~\004"), "c");
	EXPECT_EQ(typed("abcd" + left + left + "\x0b"), "ab");
	EXPECT_EQ(typed("abcd" + left + left + "\x15"), "cd");
	EXPECT_EQ(typed("one two  \x17" "x"), "one x");
	EXPECT_EQ(typed(left + "a" + right + right + "b\033[1;5D"), "ab");
}

TEST_F(Line, remembers)
{
	typed("one");
	typed("two");
	typed("two");
	EXPECT_EQ(typed(up), "two");
	EXPECT_EQ(typed(up + up), "one");
	EXPECT_EQ(typed(up + up + up + up + down), "two");
	EXPECT_EQ(typed("draft" + up + down), "draft");
	EXPECT_EQ(typed("draft" + up + up + down + down + "!"), "draft!");
	for (int i = 0; i < 3 * LINE_HISTORY; i++)
		typed("line " + std::to_string(i));
	std::string keys;
	for (int i = 0; i < 5 * LINE_HISTORY; i++)
		keys += up;
	EXPECT_EQ(typed(keys), "line " + std::to_string(2 * LINE_HISTORY));
}

TEST_F(Line, return_and_newline_are_one_enter)
{
	EXPECT_EQ(feed("a\r"), LINE_DONE);
	line_begin(l.get());
	EXPECT_EQ(feed("\n"), LINE_MORE);
	EXPECT_EQ(feed("b\n"), LINE_DONE);
	EXPECT_STREQ(l->text, "b");
}

TEST_F(Line, has_a_limit)
{
	for (int n : {LINE_MAX - 2, LINE_MAX - 1})
		EXPECT_EQ(typed(std::string(n, 'x')).size(), n);
	feed(std::string(LINE_MAX - 1, 'x'));
	EXPECT_EQ(bells, 0);
	EXPECT_EQ(feed("y\r"), LINE_TOO_LONG);
	line_begin(l.get());
	EXPECT_EQ(typed("ok"), "ok");
}

/* Whatever the rest of such a line holds, it is discarded, and it prints nothing. */
TEST_F(Line, refuses_what_is_too_long)
{
	for (std::string rest :
	     {std::string(22000, 'y'), std::string("\0\xc3\xa4\xff", 4),
	      "\033[1" + std::string(2000, '5'), std::string("\033[C\033[1;5C\tz\033")}) {
		feed(std::string(LINE_MAX - 1, 'x') + "y");
		bells = 0;
		EXPECT_EQ(feed(rest), LINE_MORE);
		EXPECT_EQ(feed("z\n"), LINE_TOO_LONG);
		EXPECT_EQ(bells, 0) << "the first one says it";
		line_begin(l.get());
		EXPECT_EQ(typed("ok"), "ok");
	}
	feed(std::string(LINE_MAX, 'x'));
	EXPECT_EQ(feed("yy\x03"), LINE_CANCELLED);
	line_begin(l.get());
	EXPECT_EQ(typed("ok"), "ok");
}

TEST_F(Line, refuses_a_line_of_which_bytes_were_lost)
{
	feed("ech");
	line_feed(l.get(), INPUT_LOST | 'x');
	EXPECT_EQ(feed("y\r"), LINE_DAMAGED);
	line_feed(l.get(), INPUT_LOST | '\n');
	line_begin(l.get());
	EXPECT_EQ(typed("ok"), "ok") << "the newline was the return's second half";
	EXPECT_EQ(line_feed(l.get(), INPUT_LOST | '\r'), LINE_DAMAGED);
	line_begin(l.get());
	EXPECT_EQ(line_feed(l.get(), INPUT_LOST | 3), LINE_CANCELLED);
	line_begin(l.get());
	line_feed(l.get(), INPUT_LOST | 'x');
	EXPECT_EQ(typed("\x15ok"), "ok") << "it was deleted";
}

TEST_F(Line, a_line_that_was_deleted_is_not_refused)
{
	const std::string half = std::string(LINE_MAX + 1, 'x') + "\xff";

	for (const char *wipes : {"\x15", "\001\x0b", "\x17"})
		EXPECT_EQ(typed(half + wipes + "ok"), "ok");
	EXPECT_EQ(typed(half + std::string(LINE_MAX, '\b') + "ok"), "ok");
	EXPECT_EQ(typed(half + up), "ok");
	EXPECT_EQ(feed(half + "\b\r"), LINE_TOO_LONG);
	line_begin(l.get());
	EXPECT_EQ(typed(half + up + down), ""); /* not the half of it that there was */
}

TEST_F(Line, refuses_noise_and_cancels)
{
	EXPECT_EQ(feed(std::string("a\xff\x00z\r", 5)), LINE_NOISE);
	EXPECT_EQ(l->noise, 2u);
	line_begin(l.get());
	EXPECT_EQ(feed("abc\x03"), LINE_CANCELLED);
	line_begin(l.get());
	EXPECT_EQ(typed("ok"), "ok");
	EXPECT_EQ(typed("\033[999999999999999;;;~ok\033\033x"), "okx");
}

TEST_F(Line, survives_any_bytes)
{
	std::mt19937 random(1);
	const std::string likely = left + right + up + down + "\001\005\013\025\027\177\004ab c";

	for (int i = 0; i < 300000; i++) {
		int c = random() % 4 ? likely[random() % likely.size()] : random() % 256;
		line_result r = line_feed(l.get(), c);

		ASSERT_LT(l->len, unsigned(LINE_MAX));
		ASSERT_LE(l->cursor, l->len);
		ASSERT_EQ(strlen(l->text), l->len);
		if (r == LINE_MORE)
			continue;
		line_remember(l.get());
		line_begin(l.get());
	}
	EXPECT_FALSE(screen.bad);
}

} // namespace
