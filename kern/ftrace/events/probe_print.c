/* An event of a probe as text, and its format file, as in Linux 6.12. */
#include "ksyms.h"
#include "static_event.h"
#include "string.h"

static void print_integer(struct seq *s, const struct probe_type *type, const u8 *field)
{
	unsigned spare = 64 - 8 * type->size;
	u64 value = 0;

	memcpy(&value, field, type->size);
	switch (type->print) {
	case 'd':
		seq_printf(s, "%lld", (long long)(value << spare) >> spare);
		break;
	case 'x':
		seq_printf(s, "0x%llx", (unsigned long long)value);
		break;
	case 'c':
		seq_printf(s, "'%c'", (char)value);
		break;
	case 'S':
		if (ksym_lookup(value, NULL, NULL))
			seq_printf(s, "%pS", (void *)value);
		else
			seq_printf(s, "0x%llx", (unsigned long long)value);
		break;
	default:
		seq_printf(s, "%llu", (unsigned long long)value);
	}
}

static void print_value(struct seq *s, const struct probe_type *type, const u8 *event,
			const u8 *field)
{
	u32 where;

	if (type->print != 's')
		return print_integer(s, type, field);
	memcpy(&where, field, sizeof(where));
	if (where >> 16)
		seq_printf(s, "\"%s\"", (const char *)event + (where & 0xffff));
	else
		seq_printf(s, "(fault)");
}

static void print_arg(struct seq *s, const struct probe_arg *arg, const u8 *event)
{
	const u8 *field = event + arg->offset;

	seq_printf(s, " %s=%s", arg->name, arg->count ? "{" : "");
	for (unsigned i = 0; i < MAX(arg->count, 1); i++, field += arg->type->size) {
		seq_printf(s, "%s", i ? "," : "");
		print_value(s, arg->type, event, field);
	}
	seq_printf(s, "%s", arg->count ? "}" : "");
}

/* Its fields are aligned in memory, but not in the buffer. */
static void print_static(const struct trace_line *l, const struct trace_probe_event *e)
{
	u64 event[STATIC_EVENT_MAX / 8] = {0};

	memcpy(event, l->ent, MIN(l->ev->len, sizeof(event)));
	seq_printf(l->s, "%s: ", e->def->event);
	e->fixed->print(l->s, event);
	seq_printf(l->s, "\n");
}

static void print_event(const struct trace_line *l, const struct trace_probe_event *e)
{
	const struct probe_def *def = e->def;
	const u8 *event = (const u8 *)l->ent;
	u64 ip[2];

	memcpy(ip, event + sizeof(*l->ent), sizeof(ip));
	seq_printf(l->s, "%s: (", def->event);
	trace_print_symbol(l->s, l->options | TRACE_ITER_SYM_OFFSET,
			   def->is_return ? ip[1] : ip[0]);
	if (def->is_return) {
		seq_printf(l->s, " <- ");
		trace_print_symbol(l->s, l->options & ~TRACE_ITER_SYM_OFFSET, ip[0]);
	}
	seq_printf(l->s, ")");
	for (unsigned i = 0; i < def->arg_count; i++)
		print_arg(l->s, &def->arg[i], event);
	seq_printf(l->s, "\n");
}

static bool print_probe(const struct trace_line *l)
{
	const struct trace_probe_event *e;

	mutex_lock(&events_by_id_lock);
	for (e = events_by_id; e && e->id != l->ent->type; e = e->next)
		;
	if (e && e->fixed)
		print_static(l, e);
	else if (e)
		print_event(l, e);
	mutex_unlock(&events_by_id_lock);
	return e;
}
PRINT_HOOK(print_probe);

/* ---- format ---- */

static void show_field(struct seq *s, const char *type, const char *name, u32 offset, unsigned size,
		       bool is_signed)
{
	seq_printf(s, "\tfield:%s %s;\toffset:%u;\tsize:%u;\tsigned:%d;\n", type, name, offset,
		   size, is_signed);
}

static void show_arg(struct seq *s, const struct probe_arg *arg)
{
	/* Linux has the number of a string array's members there */
	bool in_type = arg->type->print == 's';
	char type[32], name[PROBE_ARG_NAME + 8], members[8] = "";

	if (arg->count)
		snprintf(members, sizeof(members), "[%u]", arg->count);
	snprintf(type, sizeof(type), "%s%s", arg->type->field, in_type ? members : "");
	snprintf(name, sizeof(name), "%s%s", arg->name, in_type ? "" : members);
	show_field(s, type, name, arg->offset, arg->type->size * MAX(arg->count, 1),
		   arg->type->is_signed);
}

static void show_arg_format(struct seq *s, const struct probe_arg *arg)
{
	seq_printf(s, " %s=%s", arg->name, arg->count ? "{" : "");
	for (unsigned i = 0; i < MAX(arg->count, 1); i++)
		seq_printf(s, "%s%s", i ? "," : "", arg->type->format);
	seq_printf(s, "%s", arg->count ? "}" : "");
}

static void show_arg_value(struct seq *s, const struct probe_arg *arg)
{
	const char *string = arg->type->print == 's' ? "__get_str(" : "REC->",
		   *end = arg->type->print == 's' ? ")" : "";

	if (!arg->count)
		seq_printf(s, ", %s%s%s", string, arg->name, end);
	for (unsigned i = 0; i < arg->count; i++)
		seq_printf(s, ", %s%s[%u]%s", string, arg->name, i, end);
}

static void show_print_format(struct seq *s, const struct probe_def *def)
{
	seq_printf(s, "\nprint fmt: \"%s", def->is_return ? "(%lx <- %lx)" : "(%lx)");
	for (unsigned i = 0; i < def->arg_count; i++)
		show_arg_format(s, &def->arg[i]);
	seq_printf(s, "\", %s",
		   def->is_return ? "REC->__probe_func, REC->__probe_ret_ip" : "REC->__probe_ip");
	for (unsigned i = 0; i < def->arg_count; i++)
		show_arg_value(s, &def->arg[i]);
	seq_printf(s, "\n");
}

/* Return: where the next field is. */
static u32 show_fields(struct seq *s, const char *prefix, const struct trace_field *f, u32 offset)
{
	char name[32];

	for (; f->type; offset += f++->size) {
		snprintf(name, sizeof(name), "%s%s", prefix, f->name);
		show_field(s, f->type, name, offset, f->size, f->is_signed);
	}
	return offset;
}

static void show_probe_format(struct seq *s, const struct probe_def *def, u32 offset)
{
	show_field(s, "unsigned long", def->is_return ? "__probe_func" : "__probe_ip", offset, 8,
		   false);
	if (def->is_return)
		show_field(s, "unsigned long", "__probe_ret_ip", offset + 8, 8, false);
	for (unsigned i = 0; i < def->arg_count; i++)
		show_arg(s, &def->arg[i]);
	show_print_format(s, def);
}

int probe_format_show(struct seq *s, u64 item)
{
	static const struct trace_field common[] = {TRACE_COMMON_FIELDS(TRACE_FIELD){NULL}};
	const struct trace_probe_event *e = ((struct trace_event_file *)s->arg)->event;
	u32 offset;

	seq_printf(s, "name: %s\nID: %u\nformat:\n", e->def->event, e->id);
	offset = show_fields(s, "common_", common, 0);
	seq_printf(s, "\n");
	if (e->fixed) {
		show_fields(s, "", e->def->fields, offset);
		seq_printf(s, "\nprint fmt: %s\n", e->fixed->print_fmt);
	} else {
		show_probe_format(s, e->def, offset);
	}
	return 1;
}
