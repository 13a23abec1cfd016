/*
 * The parser of probe_parse.h. The errors, their order and their columns are those of
 * Linux 6.12. Words are cut in place, so a column is the distance to the start of its word.
 */
#include "probe_parse.h"

#include "errno.h"
#include "memory.h"
#include "print.h"
#include "string.h"
#include "trace_args.h"

#define MAXACTIVE_MAX 4096
#define STACK_WORDS_MAX 2048 /* Linux's: 16 KiB */

struct parser {
	const struct probe_names *names;
	struct probe_error *error;
	char **words;
	unsigned count;
	unsigned word; /* the word that is parsed; columns count from its start */
	struct probe_def *def;
	unsigned long function; /* its address; 0: not known yet, or only an address was given */
	bool at_entry;
};

/* ---- Words and characters ---- */

static bool is_letter(char c)
{
	return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

bool probe_good_name(const char *name, char more)
{
	if (!is_letter(*name))
		return false;
	while (*++name)
		if (!is_letter(*name) && !is_digit(*name) && *name != more)
			return false;
	return true;
}

static char *last_of(char *s, char c)
{
	char *found = NULL;

	for (; *s; s++)
		if (*s == c)
			found = s;
	return found;
}

static char *find(const char *s, const char *what)
{
	for (; *s; s++)
		if (!strncmp(s, what, strlen(what)))
			return (char *)s;
	return NULL;
}

unsigned probe_split(char *line, char **words, unsigned max)
{
	unsigned count = 0;

	for (;;) {
		while (is_blank(*line))
			*line++ = 0;
		if (!*line || count > max)
			return count;
		words[count++] = line;
		while (*line && !is_blank(*line))
			line++;
	}
}

/* ---- Errors ---- */

static void join(struct probe_error *e, char **words, unsigned count)
{
	size_t size = 1, at = 0;

	for (unsigned i = 0; i < count; i++)
		size += strlen(words[i]) + 1;
	e->command = kmalloc(size);
	for (unsigned i = 0; e->command && i < count; i++)
		at += scnprintf(e->command + at, size - at, "%s%s", i ? " " : "", words[i]);
}

void probe_error_at(struct probe_error *e, unsigned word, unsigned column, const char *text)
{
	const char *at = e->command, *space = at;

	e->text = text;
	while (word-- && space) {
		space = strchr(at, ' ');
		at = space ? space + 1 : at;
	}
	/* after the last word */
	e->column = space ? at - e->command + column : strlen(e->command) + 1;
}

static int fail_in(struct parser *p, unsigned word, unsigned column, const char *text)
{
	probe_error_at(p->error, word, column, text);
	return -EINVAL;
}

static int fail(struct parser *p, unsigned column, const char *text)
{
	return fail_in(p, p->word, column, text);
}

/* ---- Types ---- */

#define INTEGERS(bits, size)                                                                  \
	{"u" #bits, "u" #bits, "%u", size, false, 'u'}, \
	{"s" #bits, "s" #bits, "%d", size, true, 'd'}, \
	{"x" #bits, "u" #bits, "0x%x", size, false, 'x'}
static const struct probe_type types[] = {
	{"x64", "u64", "0x%Lx", 8, false, 'x'}, /* the first is used if there is none */
	{"u64", "u64", "%Lu", 8, false, 'u'},
	{"s64", "s64", "%Ld", 8, true, 'd'},
	INTEGERS(8, 1), INTEGERS(16, 2), INTEGERS(32, 4),
	{"char", "u8", "'%c'", 1, false, 'c'},
	{"symbol", "u64", "%pS", 8, false, 'S'},
	{"string", "__data_loc char[]", "\\\"%s\\\"", 4, true, 's'},
};

static const struct probe_type *find_type(const char *name)
{
	for (const struct probe_type *t = types; name && t < types + ARRAY_SIZE(types); t++)
		if (!strcmp(t->name, name))
			return t;
	return name ? NULL : types;
}

/* b<width>@<shift>/<size>: the unsigned type of that size; NULL: there is none. */
static const struct probe_type *bit_field_type(const char *type)
{
	const char *slash = strchr(type, '/');
	char name[8] = "u";

	return slash && strlcpy(name + 1, slash + 1, sizeof(name) - 1) < sizeof(name) - 1
		       ? find_type(name)
		       : NULL;
}

static bool parse_bit_field(char *type, struct probe_arg *arg)
{
	char *at = strchr(type, '@'), *slash = strchr(type, '/');
	u64 width, shift;

	if (!at || at > slash)
		return false;
	*at = *slash = 0;
	if (kstrtou64(type + 1, 0, &width) || kstrtou64(at + 1, 0, &shift) || !width ||
	    width > 64 || shift > 64)
		return false;
	arg->width = width;
	arg->shift = shift;
	return width + shift <= 8 * arg->type->size;
}

/* ---- What is fetched ---- */

static int add_read(struct parser *p, struct probe_arg *arg, long offset, unsigned column)
{
	if (arg->derefs >= PROBE_DEREFS_MAX)
		return fail(p, column, "Dereference is too much nested");
	arg->deref[arg->derefs++] = offset;
	return 0;
}

static void set_base(struct probe_arg *arg, enum probe_base base, unsigned long param)
{
	arg->base = base;
	arg->param = param;
}

/* As trace_args.h has them; "": not known. */
static const char *parameters(const struct parser *p)
{
	return p->function ? p->names->parameters(p->function) : "";
}

static int fail_unknown(struct parser *p, unsigned column)
{
	return fail(p, column, "The place of this argument is not known");
}

/* The argument in @place (trace_args.h). */
static int set_argument(struct parser *p, struct probe_arg *arg, unsigned place, unsigned column)
{
	bool on_stack = place >= TRACE_ARG_REGISTERS;

	if (!p->at_entry && !p->def->is_return)
		return fail(p, column, "Invalid $-valiable specified"); /* as Linux spells it */
	if (on_stack && p->def->is_return)
		return fail(p, column,
			    "This argument is on the stack, so only a probe at the entry has it");
	set_base(arg, on_stack ? PROBE_STACK : PROBE_ARG,
		 place - (on_stack ? TRACE_ARG_REGISTERS : 0));
	p->def->keeps_args |= p->def->is_return;
	return 0;
}

/* Argument @n, counted from 1. Each argument after the last parameter is taken to be one word. */
static int set_nth_argument(struct parser *p, struct probe_arg *arg, unsigned n, unsigned column)
{
	const char *at = trace_first_param(parameters(p));
	struct trace_param param = {0};
	bool lost = false;

	for (; n && trace_next_param(&at, &param); n--)
		lost |= param.kind == '?';
	if (n ? lost : !param.words)
		return fail_unknown(p, column);
	return set_argument(p, arg, n ? param.place + param.words + n - 1 : param.place, column);
}

/* NULL: the kind is no integer and no address. */
static const struct probe_type *type_of_kind(char kind)
{
	static const char kinds[] = "bhilBHILp";
	static const char *const type[] = {"s8",  "s16", "s32", "s64", "u8",
					   "u16", "u32", "u64", "x64"};
	const char *found = strchr(kinds, kind);

	return found ? find_type(type[found - kinds]) : NULL;
}

/* Without a known type the value is the result register: of a structure its first eight bytes. */
static int parse_retval(struct parser *p, struct probe_arg *arg, unsigned column)
{
	char kind = trace_params_result(parameters(p));

	set_base(arg, PROBE_RETVAL, 0);
	if (!p->def->is_return)
		return fail(p, column, "$retval is not available on probe");
	if (kind == 'v')
		return fail(p, column, "This function returns 'void' type");
	if (kind == 'm')
		return fail(p, column,
			    "This function returns a structure in memory, not in a register");
	if (kind == '?' && *parameters(p))
		return fail(p, column, "It is not known whether this function has kept its result");
	arg->type = type_of_kind(kind);
	return 0;
}

static int parse_variable(struct parser *p, const char *name, struct probe_arg *arg,
			  unsigned column)
{
	u64 n;

	if (!strcmp(name, "retval"))
		return parse_retval(p, arg, column);
	if (!strcmp(name, "comm") || !strcmp(name, "COMM")) {
		set_base(arg, PROBE_COMM, 0);
		return 0;
	}
	if (!strcmp(name, "stack")) {
		set_base(arg, PROBE_STACKP, 0);
		return 0;
	}
	if (!strncmp(name, "stack", 5) && is_digit(name[5]) && !kstrtou64(name + 5, 10, &n)) {
		set_base(arg, PROBE_STACK, n);
		return n <= STACK_WORDS_MAX ? 0 : fail(p, column, "Invalid stack number");
	}
	if (!strncmp(name, "arg", 3) && !kstrtou64(name + 3, 10, &n)) {
		if (!n || n > STACK_WORDS_MAX)
			return fail(p, column, "Invalid argument number");
		return set_nth_argument(p, arg, n, column);
	}
	return fail(p, column, "Invalid $-valiable specified");
}

/* The parameter @name: its place, and in arg->type the type of its kind. */
static int parse_parameter(struct parser *p, const char *name, struct probe_arg *arg,
			   unsigned column)
{
	static const char wide[] = "An integer of 16 bytes is not supported";
	static const char structure[] = "Non pointer structure/union argument is not supported.";
	const char *at = trace_first_param(parameters(p));
	struct trace_param param = {0};

	if (!p->at_entry && !p->def->is_return)
		return fail(p, column, "BTF is not available or not supported");
	if (!*at)
		return fail(p, column, "No BTF entry for this probe point");
	while (trace_next_param(&at, &param)) {
		if (param.length != strlen(name) || strncmp(param.name, name, param.length))
			continue;
		if (param.kind == '?')
			return fail_unknown(p, column);
		arg->type = type_of_kind(param.kind);
		if (!arg->type)
			return fail(p, column, strchr("qQ", param.kind) ? wide : structure);
		return set_argument(p, arg, param.place, column);
	}
	return fail(p, column, "This variable is not found at this probe point");
}

/* @number or @function[+offset]: read the memory there. */
static int parse_memory(struct parser *p, char *text, struct probe_arg *arg, unsigned column)
{
	unsigned long addr = 0;
	long offset = 0;
	char *sign;
	u64 n;

	if (*text == '+')
		return fail(p, column, "File offset is not available with kprobe");
	if (is_digit(*text)) {
		if (kstrtou64(text, 0, &n))
			return fail(p, column, "Invalid memory address");
		set_base(arg, PROBE_IMM, n);
		return add_read(p, arg, 0, column);
	}
	sign = strchr(text, '+') ?: strchr(text, '-');
	if (sign && kstrtos64(sign, 0, &offset))
		return fail(p, column, "Invalid memory address");
	if (sign)
		*sign = 0;
	if (!p->names->functions(text, &addr)) {
		/* Linux finds it when it registers the probe */
		fail_in(p, 1, 0, "Invalid probed address or symbol");
		return -ENOENT;
	}
	set_base(arg, PROBE_IMM, addr + offset);
	return add_read(p, arg, 0, column);
}

static int parse_immediate(struct parser *p, char *text, struct probe_arg *arg, unsigned column)
{
	size_t n = strlen(text);
	long value;
	u64 number;

	if (*text == '"') {
		if (n < 2 || text[n - 1] != '"')
			return fail(p, column + n + 1, "String is not closed with '\"'");
		set_base(arg, PROBE_TEXT, 0);
		memcpy(arg->text, text + 1, n - 2); /* all zero before */
		return 0;
	}
	if (!kstrtou64(text, 0, &number)) {
		set_base(arg, PROBE_IMM, number);
		return 0;
	}
	if (kstrtos64(text, 0, &value))
		return fail(p, column + 1, "Invalid immediate value");
	set_base(arg, PROBE_IMM, value);
	return 0;
}

static int parse_fetch(struct parser *p, char *text, struct probe_arg *arg, unsigned column);

/*
 * +off(FETCH) or -off(FETCH). A `u` after the sign means user memory, which this kernel does not
 * have: it is ignored.
 */
static int parse_read(struct parser *p, char *text, struct probe_arg *arg, unsigned column)
{
	char *open, *close, sign = *text;
	long offset;
	int err;

	if (text[1] == 'u')
		*++text = sign;
	open = strchr(text, '(');
	if (!open)
		return fail(p, column, "Dereference needs a brace");
	*open = 0;
	if (kstrtos64(text, 0, &offset))
		return fail(p, column, "Invalid dereference offset");
	column += open + 1 - text;
	close = last_of(open + 1, ')');
	if (!close)
		return fail(p, column + strlen(open + 1), "Dereference brace is not closed");
	if (close[1])
		return fail(p, column + (close - open), "Invalid fetch argument");
	*close = 0;
	err = parse_fetch(p, open + 1, arg, column);
	if (err)
		return err;
	arg->type = NULL; /* the parameter's type is not that of what it points to */
	if (arg->base == PROBE_COMM || arg->base == PROBE_TEXT)
		return fail(p, column, "$comm can not be dereferenced");
	return add_read(p, arg, offset, column);
}

/* Recursive; the length of an argument, 63 characters, limits the depth. */
static int parse_fetch(struct parser *p, char *text, struct probe_arg *arg, unsigned column)
{
	int n;

	switch (*text) {
	case '$':
		return parse_variable(p, text + 1, arg, column);
	case '%':
		if (p->def->kind == 'f')
			return fail(p, column, "Invalid $-valiable specified");
		n = p->names->reg(text + 1, p->def->is_return ? PROBE_AT_RETURN
					    : p->at_entry     ? PROBE_AT_ENTRY
							      : PROBE_IN_BODY);
		set_base(arg, PROBE_REG, n);
		return n >= 0 ? 0 : fail(p, column, "Invalid register name");
	case '@':
		return parse_memory(p, text + 1, arg, column);
	case '+':
	case '-':
		return parse_read(p, text, arg, column);
	case '\\':
		return parse_immediate(p, text + 1, arg, column);
	}
	return is_letter(*text) ? parse_parameter(p, text, arg, column)
				: fail(p, column, "Invalid fetch argument");
}

/* ---- An argument ---- */

/* Cut "[N]" off @type, and set arg->count to N. @at: the column of @type. */
static int parse_array(struct parser *p, char *type, struct probe_arg *arg, unsigned at)
{
	char *open = strchr(type, '['), *close;
	u64 n;

	if (!open)
		return 0;
	*open++ = 0;
	at += open - type;
	close = strchr(open, ']');
	if (!close)
		return fail(p, at + strlen(open), "Array is not closed");
	if (close[1])
		return fail(p, at + (close + 1 - open), "Array has wrong suffix");
	*close = 0;
	if (kstrtou64(open, 0, &n) || !n || n > UINT32_MAX)
		return fail(p, at, "Invalid array size");
	arg->count = MIN(n, PROBE_ARRAY_MAX + 1);
	return n > PROBE_ARRAY_MAX ? fail(p, at, "Array number is too big") : 0;
}

/* @type: the text after the colon, or NULL. */
static int parse_type(struct parser *p, char *type, const char *fetch, struct probe_arg *arg,
		      unsigned at)
{
	bool text =
		!strcmp(fetch, "$comm") || !strcmp(fetch, "$COMM") || !strncmp(fetch, "\\\"", 2);

	if (text && (arg->count || (type && strcmp(type, "string"))))
		return fail(p, at, "$comm and immediate-string only accepts string type");
	if (!type && !text)
		return 0;
	arg->type = type && *type == 'b' ? bit_field_type(type) : find_type(text ? "string" : type);
	if (!arg->type)
		return fail(p, at, "Unknown type is specified");
	return !type || *type != 'b' || parse_bit_field(type, arg)
		       ? 0
		       : fail(p, at, "Invalid bitfield");
}

/* Does what is fetched suit the type? @at: the type's column. */
static int check_type(struct parser *p, const struct probe_arg *arg, unsigned at)
{
	bool text = arg->base == PROBE_COMM || arg->base == PROBE_TEXT;
	bool string = arg->type->print == 's';

	if ((string && !text && !arg->derefs && arg->base != PROBE_IMM) ||
	    (arg->count && !arg->derefs))
		return fail(p, at, "String accepts only memory argument");
	return 0;
}

static int parse_body(struct parser *p, char *body, struct probe_arg *arg, unsigned column)
{
	const struct probe_type *wanted;
	char *type;
	unsigned at = column;
	int err;

	if (strlen(body) > PROBE_BODY_MAX)
		return fail(p, column, "Argument expression is too long");
	if (!*body)
		return fail(p, column, "No argument expression");
	strlcpy(arg->body, body, sizeof(arg->body));
	type = strchr(body, ':');
	if (type) {
		*type++ = 0;
		at += type - body;
	}
	err = type ? parse_array(p, type, arg, at) : 0;
	err = err ?: parse_type(p, type, body, arg, at);
	wanted = arg->type;
	err = err ?: parse_fetch(p, body, arg, column);
	if (err)
		return err;
	if (wanted && wanted->print == 's' && arg->type && arg->type != wanted)
		/* the parameter's type */
		return fail(p, column, "This type does not fit for string.");
	arg->type = wanted ?: arg->type ?: types;
	return check_type(p, arg, at);
}

static bool is_used(const struct probe_def *def, const char *name)
{
	static const char *const taken[] = {
		"common_type", "common_flags", "common_preempt_count", "common_pid",
		"common_tgid", "__probe_ip",   "__probe_ret_ip",       "__probe_func"};

	for (unsigned i = 0; i < ARRAY_SIZE(taken); i++)
		if (!strcmp(taken[i], name))
			return true;
	for (unsigned i = 0; i < def->arg_count; i++)
		if (!strcmp(def->arg[i].name, name))
			return true;
	return false;
}

/* A name that is not given is that of the parameter, or argN. */
static void make_name(struct probe_arg *arg, const char *body, unsigned number)
{
	const char *end = strchr(body, ':') ?: body + strlen(body);

	if (end - body < PROBE_ARG_NAME)
		memcpy(arg->name, body, end - body); /* all zero before */
	if (!probe_good_name(arg->name, '_'))
		snprintf(arg->name, sizeof(arg->name), "arg%u", number);
}

static int parse_arg(struct parser *p, char *word)
{
	struct probe_def *def = p->def;
	struct probe_arg *arg = &def->arg[def->arg_count];
	char *equals = strchr(word, '='), *body = equals ? equals + 1 : word;
	int err;

	if (equals == word)
		return fail(p, 0, "Argument name is not specified");
	if (equals && equals - word >= PROBE_ARG_NAME)
		return fail(p, 0, "Argument name is too long");
	if (equals)
		memcpy(arg->name, word, equals - word);
	else
		make_name(arg, word, def->arg_count + 1);
	if (!probe_good_name(arg->name, '_'))
		return fail(p, 0, "Argument name must follow the same rules as C identifiers");
	if (is_used(def, arg->name))
		return fail(p, 0, "This argument name is already used");
	err = parse_body(p, body, arg, body - word);
	if (err)
		return err;
	arg->offset = def->size;
	def->size += arg->type->size * (arg->count ?: 1);
	def->arg_count++;
	return 0;
}

/* Parameter @n, counted from 1. False: there is none, or the parameters are not known. */
static bool nth_parameter(const struct parser *p, unsigned n, struct trace_param *param)
{
	const char *at = trace_first_param(parameters(p));

	*param = (struct trace_param){0};
	while (n && trace_next_param(&at, param))
		n--;
	return !n;
}

/* Parameter @n by its name, or by its number if it has none, and @type. */
static int parse_nth(struct parser *p, unsigned n, const struct trace_param *param,
		     const char *type)
{
	char text[PROBE_ARG_NAME + PROBE_BODY_MAX];

	if (param->length)
		snprintf(text, sizeof(text), "%.*s%s", param->length, param->name, type);
	else
		snprintf(text, sizeof(text), "$arg%u%s", n, type);
	return parse_arg(p, text);
}

/* Make room for @more arguments than there are words. */
static int make_room(struct parser *p, unsigned more)
{
	size_t size = sizeof(*p->def) + (p->count - 2) * sizeof(p->def->arg[0]);
	struct probe_def *def = kzalloc(size + more * sizeof(def->arg[0]));

	if (!def)
		return -ENOMEM;
	memcpy(def, p->def, size);
	kfree(p->def);
	p->def = def;
	return 0;
}

static int parse_all_args(struct parser *p)
{
	struct trace_param param;
	unsigned count = 0;
	int err;

	while (nth_parameter(p, count + 1, &param))
		count++;
	if (!count)
		return fail(p, 0, "BTF is not available or not supported");
	err = make_room(p, count);
	for (unsigned n = 1; !err && nth_parameter(p, n, &param); n++) {
		if (p->def->arg_count >= PROBE_ARGS_MAX)
			return fail(p, 0, "$arg* failed because the argument list is too long");
		err = parse_nth(p, n, &param, "");
	}
	return err;
}

/* $argN without a name is parameter N by its name, if the function's parameters are known. */
static int parse_word(struct parser *p, char *word)
{
	struct trace_param param;
	char *type = word + 4;
	unsigned n = 0;

	if (strncmp(word, "$arg", 4) || !nth_parameter(p, 1, &param))
		return parse_arg(p, word);
	while (is_digit(*type) && n <= STACK_WORDS_MAX)
		n = 10 * n + *type++ - '0';
	if (!n || n > STACK_WORDS_MAX || (*type && *type != ':'))
		return parse_arg(p, word);
	if (!nth_parameter(p, n, &param))
		return fail(p, 0, "This variable is not found at this probe point");
	return param.length && param.kind != '?' ? parse_nth(p, n, &param, type)
						 : parse_arg(p, word);
}

/* Where is $arg*? *index: its word, or 0. */
static int find_all_args(struct parser *p, unsigned *index)
{
	*index = 0;
	for (p->word = 2; p->word < p->count; p->word++) {
		char *word = p->words[p->word], *found = find(word, "$arg*");

		if (found && (found != word || word[5]))
			return fail(p, found - word,
				    "$arg* must be an independent parameter without name etc.");
		if (!strncmp(word, "$arg", 4) && !p->at_entry && !p->def->is_return)
			return fail(p, 0, "$arg* can be used only on function entry or exit");
		if (found && *index)
			return fail(p, 0, "$arg* can be used only once in the parameters");
		*index = found ? p->word : *index;
	}
	return 0;
}

static int parse_args(struct parser *p)
{
	unsigned all;
	int err = find_all_args(p, &all);

	for (p->word = 2; !err && p->word < p->count; p->word++) {
		if (p->def->arg_count >= PROBE_ARGS_MAX)
			return fail(p, 0, "Too many arguments are specified");
		err = p->word == all ? parse_all_args(p) : parse_word(p, p->words[p->word]);
	}
	return err;
}

/* ---- What is probed ---- */

static int parse_maxactive(struct parser *p, char *text, const char *end)
{
	char digits[PROBE_EVENT_NAME];
	u64 n;

	if (!is_digit(*text))
		return 0;
	if (p->def->kind == 'p')
		return fail(p, 1, "Maxactive is only for function exit");
	snprintf(digits, sizeof(digits), "%.*s", (int)(end - text), text);
	if (end - text >= PROBE_EVENT_NAME || kstrtou64(digits, 0, &n) || !n || n > UINT32_MAX)
		return fail(p, 1, "Invalid maxactive number");
	if (n > MAXACTIVE_MAX)
		return fail(p, 1, "Maxactive is too big");
	p->def->maxactive = n;
	return 0;
}

/* FUNCTION%return; and an fprobe with $retval is at the return anyway. */
static int parse_suffix(struct parser *p, char *symbol)
{
	char *percent = strchr(symbol, '%');

	if (percent && strcmp(percent, "%return"))
		return fail(p, percent - symbol, "Invalid probed address suffix");
	if (percent)
		*percent = 0;
	p->def->is_return |= percent != NULL;
	for (unsigned i = 2; p->def->kind == 'f' && i < p->count; i++) {
		const char *found = find(p->words[i], "$retval");

		p->def->is_return |= found && !is_letter(found[7]) && !is_digit(found[7]);
	}
	return 0;
}

/* Find the function. A function of a module that is not loaded may become known later. */
static int find_function(struct parser *p)
{
	const char *symbol = p->def->symbol, *colon = strchr(symbol, ':');
	unsigned n = p->names->functions(symbol, &p->function);

	if (!n && p->def->kind == 'f') {
		fail(p, 0, "Invalid probed address or symbol");
		return -ENOENT;
	}
	if (!n && colon && memchr(symbol, '/', colon - symbol))
		return fail(p, 0, "A file has no probes here: there are no uprobes");
	if (!n && !colon)
		return fail(p, 0, "Invalid probed address or symbol");
	return n > 1 ? fail(p, 0, "The symbol is not unique") : 0;
}

static int parse_place(struct parser *p, char *word)
{
	struct probe_def *def = p->def;
	long offset = 0;
	char *sign;
	u64 addr;
	int err;

	p->word = 1;
	if (def->kind != 'f' && !kstrtou64(word, 0, &addr)) {
		def->addr = addr;
		return 0;
	}
	err = parse_suffix(p, word);
	if (err)
		return err;
	sign = def->kind == 'f' ? NULL : strchr(word, '+') ?: strchr(word, '-');
	if (sign && (kstrtos64(sign, 0, &offset) || offset < 0 || offset > UINT32_MAX))
		return fail(p, 0, "Invalid probed address or symbol");
	if (sign)
		*sign = 0;
	if (!*word || strlcpy(def->symbol, word, sizeof(def->symbol)) >= sizeof(def->symbol))
		return fail(p, 0, "Invalid probed address or symbol");
	def->offset = offset;
	err = find_function(p);
	if (!err && offset && def->is_return)
		err = fail(p, 0, "Retprobe address must be an function entry");
	p->at_entry = !offset && !def->is_return;
	return err;
}

/* ---- Its name ---- */

static int parse_group(struct parser *p, const char *group, const char *slash, unsigned column)
{
	struct probe_def *def = p->def;

	if (slash == group)
		return fail(p, column, "Group name is not specified");
	if (slash - group + 1 > PROBE_EVENT_NAME)
		return fail(p, column, "Group name is too long");
	snprintf(def->group, sizeof(def->group), "%.*s", (int)(slash - group), group);
	return probe_good_name(def->group, '-')
		       ? 0
		       : fail(p, column, "Group name must follow the same rules as C identifiers");
}

/* [GROUP/][EVENT], or with a dot */
static int parse_name(struct parser *p, const char *name, unsigned column)
{
	const char *slash = strchr(name, '/') ?: strchr(name, '.');
	int err = slash ? parse_group(p, name, slash, column) : 0;

	if (err)
		return err;
	if (slash) {
		column += slash + 1 - name;
		name = slash + 1;
	}
	if (!*name)
		return slash ? 0 : fail(p, column, "Event name is not specified");
	if (strlcpy(p->def->event, name, sizeof(p->def->event)) >= sizeof(p->def->event))
		return fail(p, column, "Event name is too long");
	return probe_good_name(name, '_')
		       ? 0
		       : fail(p, column, "Event name must follow the same rules as C identifiers");
}

static void make_event_name(struct probe_def *def)
{
	size_t size = sizeof(def->event);

	if (!*def->group)
		strlcpy(def->group, def->kind == 'f' ? "fprobes" : "kprobes", sizeof(def->group));
	if (*def->event)
		return;
	if (def->kind == 'f')
		snprintf(def->event, size, "%s__%s", def->symbol,
			 def->is_return ? "exit" : "entry");
	else if (*def->symbol)
		snprintf(def->event, size, "%c_%s_%u", def->is_return ? 'r' : 'p', def->symbol,
			 def->offset);
	else
		snprintf(def->event, size, "%c_0x%lx", def->is_return ? 'r' : 'p', def->addr);
	for (char *c = def->event; *c; c++)
		if (!is_letter(*c) && !is_digit(*c))
			*c = '_';
}

/* ---- A line ---- */

static int parse_words(struct parser *p)
{
	struct probe_def *def = p->def;
	char *first = p->words[0], *colon = strchr(first, ':');
	int err = parse_maxactive(p, first + 1, colon ?: first + strlen(first));

	err = err ?: parse_place(p, p->words[1]);
	p->word = 0;
	if (!err && def->kind == 'f' && def->maxactive && !def->is_return)
		err = fail(p, 1, "Maxactive is only for function exit");
	if (!err && colon)
		err = parse_name(p, colon + 1, colon + 1 - first);
	make_event_name(def);
	/* the common fields, and one or two addresses */
	def->size = sizeof(u64) * (def->is_return ? 3 : 2);
	return err ?: parse_args(p);
}

/* Kinds that only Linux has. The errors are its own for what does not exist. */
static int refuse_kind(struct parser *p, char kind)
{
	if (kind == 's')
		return fail_in(p, 0, 0, "There are no synthetic events");
	if (kind == 't')
		return fail_in(p, 1, 0, "Tracepoint is not found");
	fail_in(p, 1, 0, "Attached event does not exist");
	return -ENODEV;
}

static int parse_line(struct parser *p, char **words)
{
	static const char kinds[] = "prftes";
	static const char *const subsystems[] = {"trace_kprobe", "trace_kprobe", "trace_fprobe",
						 "trace_fprobe", "event_probe", "synthetic_events"};
	const char *kind = strchr(kinds, *words[0]);
	struct probe_def *def;
	int err;

	if (p->count < 2 || !kind ||
	    (words[0][1] && words[0][1] != ':' && !is_digit(words[0][1])))
		return -EINVAL;
	p->error->subsystem = subsystems[kind - kinds];
	join(p->error, words, p->count);
	if (!p->error->command)
		return -ENOMEM;
	if (kind - kinds > 2)
		return refuse_kind(p, *kind);
	if (p->count - 2 > PROBE_ARGS_MAX) {
		fail_in(p, 2, 0, "Too many arguments are specified");
		return -E2BIG;
	}
	def = p->def = kzalloc(sizeof(*def) + (p->count - 2) * sizeof(def->arg[0]));
	if (!def)
		return -ENOMEM;
	def->kind = *words[0];
	def->is_return = def->kind == 'r';
	err = parse_words(p);
	if (err)
		kfree(p->def); /* it may have moved: make_room() */
	return err;
}

int probe_parse(char *line, const struct probe_names *names, struct probe_def **def,
		struct probe_error *error)
{
	char **words = kmalloc((PROBE_ARGS_MAX + 4) * sizeof(*words));
	struct parser p = {names, error, words};
	int err = -ENOMEM;

	*error = (struct probe_error){NULL};
	if (words) {
		p.count = probe_split(line, words, PROBE_ARGS_MAX + 2);
		err = p.count ? parse_line(&p, words) : -ENODEV;
	}
	kfree(words);
	*def = err ? NULL : p.def;
	return err;
}

int probe_describe(char *buf, size_t size, const struct probe_def *def)
{
	int n;

	if (!*def->symbol)
		n = snprintf(buf, size, " 0x%016lx", def->addr);
	else if (def->offset)
		n = snprintf(buf, size, " %s+%u", def->symbol, def->offset);
	else
		n = snprintf(buf, size, " %s%s", def->symbol,
			     def->kind == 'f' && def->is_return ? "%return" : "");
	for (unsigned i = 0; i < def->arg_count; i++)
		n += snprintf(buf ? buf + MIN((size_t)n, size) : NULL, size - MIN((size_t)n, size),
			      " %s=%s", def->arg[i].name, def->arg[i].body);
	return n;
}
