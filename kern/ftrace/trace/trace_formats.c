/* The binary format, for tools: events/header_page, header_event, and ftrace/<event>/format. */
#include "event_type.h"
#include "tracefs.h"

static int text_show(struct seq *s, u64 item)
{
	seq_printf(s, "%s", (const char *)s->arg);
	return 1;
}
TEXT_OPS(text_ops, text_show, NULL);

static const char header_page[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
				  "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
				  "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
				  "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
TRACEFS_INSTANCE_FILE(header_page, "events/header_page", 0444, &text_ops, (void *)header_page);

static const char header_event[] = "# compressed entry header\n"
				   "\ttype_len    :    5 bits\n"
				   "\ttime_delta  :   27 bits\n"
				   "\tarray       :   32 bits\n"
				   "\n"
				   "\tpadding     : type == 29\n"
				   "\ttime_extend : type == 30\n"
				   "\ttime_stamp : type == 31\n"
				   "\tdata max type_len  == 28\n";
TRACEFS_INSTANCE_FILE(header_event, "events/header_event", 0444, &text_ops, (void *)header_event);

static void print_fields(struct seq *s, const char *prefix, const struct trace_field *f,
			 unsigned offset)
{
	for (; f->type; offset += f++->size)
		if (f->name)
			seq_printf(s, "\tfield:%s %s%s;\toffset:%u;\tsize:%u;\tsigned:%d;\n",
				   f->type, prefix, f->name, offset, f->size, f->is_signed);
}

static int format_show(struct seq *s, u64 item)
{
	static const struct trace_field common[] = {TRACE_COMMON_FIELDS(TRACE_FIELD){NULL}};
	const struct trace_event_type *type = s->arg;

	seq_printf(s, "name: %s\nID: %u\nformat:\n", type->name, type->id);
	print_fields(s, "common_", common, 0);
	seq_printf(s, "\n");
	print_fields(s, "", type->fields, sizeof(struct trace_entry));
	seq_printf(s, "\nprint fmt: %s\n", type->print_fmt);
	return 1;
}
static int format_open(struct file *f)
{
	return seq_open(f, format_show, f->node->data);
}
const struct file_ops trace_format_ops = {format_open, seq_read, NULL, seq_release};
