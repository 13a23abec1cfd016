/* The filter of an event: a tree of at most FILTER_NODES comparisons and operators. */
#include "event_filter.h"

#include "errno.h"
#include "event_type.h"
#include "ftrace.h"
#include "memory.h"
#include "string.h"
#include "thread.h"
#include "ftrace_internal.h"

#define FILTER_NODES 32
#define FILTER_DEPTH 16 /* of parentheses and '!' */
#define FILTER_TEXT 1024

enum op { OP_AND, OP_OR, OP_NOT, OP_EQ, OP_NE, OP_LE, OP_GE, OP_LT, OP_GT, OP_BITS, OP_GLOB };
static const char *const op_text[] = {
	[OP_EQ] = "==", [OP_NE] = "!=", [OP_LE] = "<=",	 [OP_GE] = ">=",
	[OP_LT] = "<",	[OP_GT] = ">",	[OP_BITS] = "&", [OP_GLOB] = "~"};

/*
 * Where a field is: in the event, as a number, as where a text is in it, as an array of characters,
 * or as the address of a text that stays; or the running thread's pid or name.
 */
enum place { IN_EVENT, IN_EVENT_STRING, IN_EVENT_ARRAY, AT_ADDRESS, PID, COMM };

struct filter_node {
	enum op op;
	u8 left, right; /* of OP_AND and OP_OR; left: of OP_NOT */
	enum place place;
	u32 offset;
	u8 size;
	bool is_signed;
	u64 value;
	const char *string; /* to compare with: in @strings of the filter */
};

struct event_filter {
	u8 top, count;
	struct filter_node node[FILTER_NODES];
	char text[FILTER_TEXT];	   /* as written */
	char strings[FILTER_TEXT]; /* the text, cut into strings */
};

struct filter_parser {
	struct event_filter *filter;
	const struct probe_def *def;
	unsigned at, depth;
	const char *error;
	unsigned column;
};

/* ---- Parsing: each function returns the number of its node, or -EINVAL ---- */

static int wrong(struct filter_parser *p, unsigned column, const char *error)
{
	if (!p->error) {
		p->error = error;
		p->column = column;
	}
	return -EINVAL;
}

static const char *rest(struct filter_parser *p)
{
	while (p->filter->text[p->at] == ' ' || p->filter->text[p->at] == '\t')
		p->at++;
	return p->filter->text + p->at;
}

static bool skip(struct filter_parser *p, const char *what)
{
	if (strncmp(rest(p), what, strlen(what)))
		return false;
	p->at += strlen(what);
	return true;
}

static bool in_word(char c)
{
	return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static int add_node(struct filter_parser *p, struct filter_node node)
{
	struct event_filter *f = p->filter;

	if (f->count >= FILTER_NODES)
		return wrong(p, p->at, "Too many terms in predicate expression");
	f->node[f->count] = node;
	return f->count++;
}

static bool is_text(const struct filter_node *n)
{
	return n->place != IN_EVENT && n->place != PID;
}

/* A field of a static event. */
static bool find_fixed(const struct trace_field *f, const char *name, struct filter_node *node)
{
	u32 offset = sizeof(struct trace_entry);
	size_t n = strlen(name);

	for (; f->type; offset += f++->size) {
		bool array = f->name[n] == '[';

		if (strncmp(f->name, name, n) || (f->name[n] && !array))
			continue;
		*node = (struct filter_node){.offset = offset,
					     .size = f->size,
					     .is_signed = f->is_signed};
		node->place = array			       ? IN_EVENT_ARRAY
			      : !strncmp(f->type, "__data", 6) ? IN_EVENT_STRING
			      : !strcmp(f->type, "const char *") ? AT_ADDRESS
								 : IN_EVENT;
		return true;
	}
	return false;
}

/* A field of an event of probes. */
static bool find_probed(const struct probe_def *def, const char *name, struct filter_node *node)
{
	static const char *const fixed[][2] = {{"__probe_ip", NULL},
					       {"__probe_func", "__probe_ret_ip"}};

	for (int i = 0; i < 2; i++)
		if (fixed[def->is_return][i] && !strcmp(name, fixed[def->is_return][i])) {
			*node = (struct filter_node){.offset = 8 + 8 * i, .size = 8};
			return true;
		}
	for (unsigned i = 0; i < def->arg_count; i++) {
		const struct probe_arg *arg = &def->arg[i];
		bool string = arg->type->print == 's';

		if (strcmp(arg->name, name) || arg->count)
			continue;
		*node = (struct filter_node){.place = string ? IN_EVENT_STRING : IN_EVENT,
					     .offset = arg->offset,
					     .size = arg->type->size,
					     .is_signed = arg->type->is_signed};
		return true;
	}
	return false;
}

static bool find_field(const struct probe_def *def, const char *name, struct filter_node *node)
{
	if (def->fields ? find_fixed(def->fields, name, node) : find_probed(def, name, node))
		return true;
	*node = (struct filter_node){
		.place = strcmp(name, "common_pid") ? COMM : PID, .size = 4, .is_signed = true};
	return node->place == PID || !strcmp(name, "comm") || !strcmp(name, "COMM");
}

static int parse_field(struct filter_parser *p, struct filter_node *node)
{
	const char *text = rest(p);
	unsigned start = p->at;
	char name[PROBE_ARG_NAME];
	size_t n = 0;

	while (in_word(text[n]))
		n++;
	p->at += n;
	if (!n || n >= sizeof(name))
		return wrong(p, start, n ? "Field not found" : "Meaningless filter expression");
	strlcpy(name, text, n + 1);
	return find_field(p->def, name, node) ? 0 : wrong(p, start, "Field not found");
}

static int parse_operator(struct filter_parser *p, struct filter_node *node)
{
	bool string = is_text(node);

	rest(p);
	for (node->op = OP_EQ; node->op <= OP_GLOB; node->op++) {
		unsigned start = p->at;

		if (!skip(p, op_text[node->op]))
			continue;
		if (string ? node->op > OP_NE && node->op != OP_GLOB : node->op == OP_GLOB)
			return wrong(p, start, "Illegal operation for field type");
		return 0;
	}
	return wrong(p, p->at, "Invalid operator");
}

/* A string in quotes, or a word. */
static int parse_string(struct filter_parser *p, struct filter_node *node)
{
	const char *text = rest(p);
	bool quoted = *text == '"' || *text == '\'';
	unsigned start = p->at + quoted;
	size_t n = 0;

	while (text[quoted + n] && (quoted ? text[quoted + n] != *text
					   : in_word(text[n]) || strchr("*?[]-.!/", text[n])))
		n++;
	if (quoted && !text[1 + n])
		return wrong(p, p->at, "Missing matching quote");
	if (!n && !quoted)
		return wrong(p, p->at, "Invalid value (did you forget quotes)?");
	p->at = start + n + quoted;
	memcpy(p->filter->strings + start, p->filter->text + start, n);
	/* overwrites a quote or an operator, which is part of no string */
	p->filter->strings[start + n] = 0;
	node->string = p->filter->strings + start;
	return 0;
}

/* @value in the field's type. */
static u64 cast(const struct filter_node *n, u64 value)
{
	unsigned spare = 64 - 8 * n->size;

	return n->is_signed ? (u64)((s64)(value << spare) >> spare) : value << spare >> spare;
}

/*
 * As on Linux the number is read as 64 bits, with a sign if the field has one, and cast to the
 * field's type.
 */
static int parse_number(struct filter_parser *p, struct filter_node *node)
{
	const char *text = rest(p);
	char number[32];
	size_t n = *text == '-';
	long value = 0;
	int err;

	if (*text == '"' || *text == '\'')
		return wrong(p, p->at, "Expecting numeric field");
	while (n < sizeof(number) - 1 && in_word(text[n]))
		n++;
	strlcpy(number, text, n + 1);
	err = node->is_signed ? kstrtos64(number, 0, &value) : kstrtou64(number, 0, &node->value);
	if (err)
		return wrong(p, p->at,
			     n ? "Illegal integer value"
			       : "Invalid value (did you forget quotes)?");
	p->at += n;
	node->value = cast(node, node->is_signed ? (u64)value : node->value);
	return 0;
}

static int parse_comparison(struct filter_parser *p)
{
	struct filter_node node = {.op = OP_EQ};
	int err = parse_field(p, &node) ?: parse_operator(p, &node);

	if (!err)
		err = is_text(&node) ? parse_string(p, &node) : parse_number(p, &node);
	return err ?: add_node(p, node);
}

static int parse_or(struct filter_parser *p);

static int parse_term(struct filter_parser *p)
{
	unsigned start;
	int inner;

	rest(p);
	start = p->at;
	if (++p->depth > FILTER_DEPTH)
		return wrong(p, start, "Too many '('");
	if (skip(p, "!")) {
		inner = parse_term(p);
		inner = inner < 0 ? inner
				  : add_node(p, (struct filter_node){.op = OP_NOT, .left = inner});
	} else if (skip(p, "(")) {
		inner = parse_or(p);
		if (inner >= 0 && !skip(p, ")"))
			inner = wrong(p, start, "Too many '('");
	} else {
		inner = parse_comparison(p);
	}
	p->depth--;
	return inner;
}

static int parse_pair(struct filter_parser *p, enum op op, const char *word,
		      int (*parse)(struct filter_parser *p))
{
	int left = parse(p);

	while (left >= 0 && skip(p, word)) {
		int right = parse(p);

		left = right < 0 ? right
				 : add_node(p, (struct filter_node){
						       .op = op, .left = left, .right = right});
	}
	return left;
}

static int parse_and(struct filter_parser *p)
{
	return parse_pair(p, OP_AND, "&&", parse_term);
}

static int parse_or(struct filter_parser *p)
{
	return parse_pair(p, OP_OR, "||", parse_and);
}

int event_filter_parse(const char *text, const struct probe_def *def, struct event_filter **filter,
		       const char **error, unsigned *column)
{
	struct filter_parser p = {kzalloc(sizeof(struct event_filter)), def};
	int top;

	*filter = p.filter;
	if (!p.filter)
		return -ENOMEM;
	if (strlcpy(p.filter->text, text, FILTER_TEXT) >= FILTER_TEXT)
		top = wrong(&p, 0, "Operand too long");
	else
		top = parse_or(&p);
	if (top >= 0 && *rest(&p))
		top = wrong(&p, p.at, *rest(&p) == ')' ? "Too few '('" : "Invalid operator");
	*error = p.error;
	*column = p.column;
	if (top < 0) {
		kfree(p.filter);
		*filter = NULL;
		return top;
	}
	p.filter->top = top;
	return 0;
}

const char *event_filter_text(const struct event_filter *filter)
{
	return filter->text;
}

/* ---- Matching ---- */

static bool match_string(const struct filter_node *n, const u8 *event)
{
	const char *string = current->comm;
	u32 where;

	if (n->place == IN_EVENT_STRING) {
		memcpy(&where, event + n->offset, sizeof(where));
		string = where >> 16 ? (const char *)event + (where & 0xffff) : "";
	} else if (n->place == IN_EVENT_ARRAY) {
		string = (const char *)event + n->offset;
	} else if (n->place == AT_ADDRESS) {
		memcpy(&string, event + n->offset, sizeof(string));
	}
	if (n->op == OP_GLOB)
		return glob_match(n->string, strlen(n->string), string);
	return !strcmp(n->string, string) == (n->op == OP_EQ);
}

static u64 get_value(const struct filter_node *n, const u8 *event)
{
	u64 value = 0;

	if (n->place == PID)
		return current->pid;
	memcpy(&value, event + n->offset, n->size);
	return cast(n, value);
}

static bool match_number(const struct filter_node *n, u64 a)
{
	u64 b = n->value, sign = n->is_signed ? 1ul << 63 : 0;

	switch (n->op) {
	case OP_EQ:
		return a == b;
	case OP_NE:
		return a != b;
	case OP_BITS:
		return a & b;
	case OP_LT:
		return (a ^ sign) < (b ^ sign);
	case OP_LE:
		return (a ^ sign) <= (b ^ sign);
	case OP_GT:
		return (a ^ sign) > (b ^ sign);
	default:
		return (a ^ sign) >= (b ^ sign);
	}
}

/* Recursive, at most FILTER_NODES deep: each call is for another node of the tree. */
static bool match(const struct event_filter *f, unsigned number, const u8 *event)
{
	const struct filter_node *n = &f->node[number];

	switch (n->op) {
	case OP_AND:
		return match(f, n->left, event) && match(f, n->right, event);
	case OP_OR:
		return match(f, n->left, event) || match(f, n->right, event);
	case OP_NOT:
		return !match(f, n->left, event);
	default:
		return n->string ? match_string(n, event) : match_number(n, get_value(n, event));
	}
}

bool event_filter_match(const struct event_filter *filter, const u8 *event)
{
	return match(filter, filter->top, event);
}
