/*
 * Split a line into words, in place: removing quotes and backslashes makes the text
 * shorter. Unsupported syntax of other shells is refused with a message; it is never
 * taken as part of a word.
 */
#include "errno.h"
#include "shell.h"
#include "string.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool ends_word(char c)
{
	return !c || is_blank(c) || c == '>' || c == '&' || c == '|' || c == '<' || c == ';';
}

/* Copy the quoted text at *in to *out; false when the closing quote is missing. */
static bool copy_quoted(char **in, char **out)
{
	char quote = *(*in)++;

	while (**in && **in != quote) {
		if (quote == '"' && **in == '\\' && (*in)[1] && strchr("\"\\$`", (*in)[1]))
			(*in)++;
		*(*out)++ = *(*in)++;
	}
	if (!**in)
		return false;
	(*in)++;
	return true;
}

/*
 * The position in the line. `at` is the original character at `p`: the NUL that
 * ends a word may have overwritten it.
 */
struct cursor {
	char *p;
	char at;
};

static void advance(struct cursor *in)
{
	in->at = *++in->p;
}

static void skip_blanks(struct cursor *in)
{
	while (is_blank(in->at))
		advance(in);
}

static char *take_word(struct cursor *in, const char **error)
{
	char *word = in->p, *out = word, *p = word;

	while (!ends_word(*p)) {
		if (*p == '\'' || *p == '"') {
			if (!copy_quoted(&p, &out)) {
				*error = "a quote is not closed";
				return NULL;
			}
			continue;
		}
		if (*p == '\\' && p[1])
			p++;
		*out++ = *p++;
	}
	in->p = p;
	in->at = *p;
	*out = 0;
	return word;
}

static int refuse(struct command_line *c, const char *why)
{
	c->error = why;
	return -EINVAL;
}

static int take_redirection(struct cursor *in, struct command_line *c)
{
	if (c->out)
		return refuse(c, "only one redirection is possible");
	advance(in);
	if (in->at == '>') {
		c->append = true;
		advance(in);
	}
	skip_blanks(in);
	if (ends_word(in->at))
		return refuse(c, "a redirection needs the name of a file");
	c->out = take_word(in, &c->error);
	return c->out ? 0 : -EINVAL;
}

static int take_operator(struct cursor *in, struct command_line *c)
{
	if (in->at == '|')
		return refuse(c, "there are no pipes: write to a file in /tmp and read that");
	if (in->at == '<')
		return refuse(c, "input cannot be redirected: commands take the name of a file");
	if (in->at == ';')
		return refuse(c, "';' needs a command before it");
	if (!c->argc)
		return refuse(c, "'&' needs a command before it");
	advance(in);
	skip_blanks(in);
	if (in->at && in->at != '#')
		return refuse(c, "'&' belongs at the end of a command");
	c->background = true;
	return 0;
}

/* Is @word the `2` of `2>`? Not if it was quoted: then the cursor is not at the word's end. */
static bool is_descriptor(const char *word, const struct cursor *in)
{
	while (*word >= '0' && *word <= '9')
		word++;
	return in->at == '>' && word == in->p;
}

static int take_argument(struct cursor *in, struct command_line *c)
{
	char *word;

	if (c->argc == ARRAY_SIZE(c->argv) - 1)
		return refuse(c, "there are more than 63 words");
	word = take_word(in, &c->error);
	if (!word)
		return -EINVAL;
	if (is_descriptor(word, in))
		return refuse(
			c,
			"only the output can be redirected: write '>' without a number before it");
	c->argv[c->argc++] = word;
	return 0;
}

int shell_parse(char *line, struct command_line *c)
{
	struct cursor in = {line, *line};
	int err = 0;

	memset(c, 0, sizeof(*c));
	while (!err && !c->background) {
		skip_blanks(&in);
		if (!in.at || in.at == '#')
			break;
		if (in.at == '>')
			err = take_redirection(&in, c);
		else if (ends_word(in.at))
			err = take_operator(&in, c);
		else
			err = take_argument(&in, c);
	}
	return err;
}

char *shell_split(char *line)
{
	char quote = 0;

	for (char *p = line; *p; p++) {
		if (quote) {
			if (*p == '\\' && quote == '"' && p[1])
				p++;
			else if (*p == quote)
				quote = 0;
		} else if (*p == '\\' && p[1]) {
			p++;
		} else if (*p == '\'' || *p == '"') {
			quote = *p;
		} else if (*p == '#' && (p == line || is_blank(p[-1]))) {
			return NULL;
		} else if (*p == ';') {
			*p = 0;
			return p + 1;
		}
	}
	return NULL;
}
