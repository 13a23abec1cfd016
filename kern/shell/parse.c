/*
 * Splits a line into commands, and a command into words. Syntax of other shells that this
 * one does not have is refused with a message; it is never taken as part of a word.
 */
#include "errno.h"
#include "parse.h"
#include "print.h"
#include "string.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool ends_word(char c)
{
	return !c || is_blank(c) || c == '>' || c == '&' || c == '|' || c == '<' || c == ';';
}

static int refuse(struct command_line *c, const char *why)
{
	c->error = why;
	return -EINVAL;
}

static void skip_blanks(struct command_line *c)
{
	while (is_blank(*c->rest))
		c->rest++;
}

static void put_letter(struct command_line *c, bool quoted)
{
	if (strchr("*?[\\", *c->rest))
		c->special |= quoted ? 2 : 1;
	c->text[c->len++] = *c->rest++;
}

/* $? and $!; any other $ is a letter. Return: there was one. */
static bool put_value(struct command_line *c)
{
	int value = c->rest[1] == '?' ? c->values.status : c->values.background;

	if (c->rest[0] != '$' || !(c->rest[1] == '?' || (c->rest[1] == '!' && value)))
		return false;
	c->len += scnprintf(c->text + c->len, VALUE_MAX, "%d", value);
	c->rest += 2;
	return true;
}

/* Copy the quoted text; false when the closing quote is missing. */
static bool copy_quoted(struct command_line *c)
{
	char quote = *c->rest++;

	while (*c->rest && *c->rest != quote) {
		if (quote == '"' && put_value(c))
			continue;
		if (quote == '"' && *c->rest == '\\' && c->rest[1] && strchr("\"\\$`", c->rest[1]))
			c->rest++;
		put_letter(c, true);
	}
	if (!*c->rest)
		return false;
	c->rest++;
	return true;
}

/* Return: NULL if the word is refused. */
static char *take_word(struct command_line *c)
{
	char *word = c->text + c->len;

	while (!ends_word(*c->rest)) {
		if (*c->rest == '\'' || *c->rest == '"') {
			if (!copy_quoted(c)) {
				refuse(c, "a quote is not closed");
				return NULL;
			}
		} else if (!put_value(c)) {
			bool quoted = *c->rest == '\\';

			c->rest += quoted && c->rest[1];
			put_letter(c, quoted);
		}
	}
	c->text[c->len++] = 0;
	return word;
}

static int take_redirection(struct command_line *c)
{
	char **name = *c->rest == '<' ? &c->in : &c->out;

	if (*name)
		return refuse(c, "only one redirection is possible");
	if (*c->rest == '>' && c->rest[1] == '>') {
		c->append = true;
		c->rest++;
	}
	c->rest++;
	skip_blanks(c);
	if (ends_word(*c->rest))
		return refuse(c, "a redirection needs the name of a file");
	*name = take_word(c);
	return *name ? 0 : -EINVAL;
}

/* The `2` of `2>`. Not if it is quoted. */
static bool is_descriptor(const char *word)
{
	while (*word >= '0' && *word <= '9')
		word++;
	return *word == '>' || *word == '<';
}

/* The name of a command is no glob. */
static int take_argument(struct command_line *c)
{
	int files;

	if (is_descriptor(c->rest))
		return refuse(c, "a redirection has no number: write '>' or '<' without one");
	c->special = 0;
	c->argv[c->argc] = take_word(c);
	if (!c->argv[c->argc])
		return -EINVAL;
	files = c->argc && c->special == 1 ? shell_expand(c, c->argv[c->argc]) : 0;
	if (files < 0 || (!files && c->argc == WORDS_MAX))
		return refuse(c, "there are more than 500 words, or a glob has more than 12 parts");
	c->argc += !files;
	return 0;
}

static enum shell_operator take_operator(struct command_line *c)
{
	char first = *c->rest;
	bool twice = first && first != ';' && c->rest[1] == first;

	if (!first || first == '#')
		return LAST;
	c->rest += 1 + twice;
	if (first == ';')
		return SEQUENCE;
	if (first == '&')
		return twice ? AND : BACKGROUND;
	return twice ? OR : PIPE;
}

/* A command without words may be a redirection, which makes or empties a file. */
static int check_operators(struct command_line *c, enum shell_operator before)
{
	bool empty = !c->argc && !c->in && !c->out;

	if (!c->argc && (before == PIPE || c->next == PIPE))
		return refuse(c, "'|' needs a command before it and after it");
	if (empty && (before > PIPE || c->next > PIPE))
		return refuse(c, "'&&' and '||' need a command before and after them");
	if (!c->argc && (c->next == BACKGROUND || (empty && c->next == SEQUENCE)))
		return refuse(c, "'&' and ';' need a command before them");
	return 0;
}

int shell_parse(const char *line, enum shell_operator before, struct shell_values values,
		struct command_line *c)
{
	int err = 0;

	memset(c, 0, sizeof(*c));
	c->values = values;
	c->rest = line;
	for (skip_blanks(c); !err && *c->rest && *c->rest != '#'; skip_blanks(c)) {
		if (*c->rest == '>' || *c->rest == '<')
			err = take_redirection(c);
		else if (ends_word(*c->rest))
			break;
		else
			err = take_argument(c);
	}
	c->end = c->rest;
	c->next = err ? LAST : take_operator(c);
	if (c->next == BACKGROUND) {
		c->end = c->rest;
		skip_blanks(c);
		c->rest += *c->rest == ';'; /* `a & ; b` is `a & b` */
	}
	return err ?: check_operators(c, before);
}
