/*
 * rare: actions of function_graph users and of traced functions that the workload never performs.
 *
 * 1. A handler calls a traced function itself.
 * 2. The handlers walk the stack, and so does another op of the same function; a handler walks it
 *    after a tail call; a walk asks for a thread without a shadow stack, for an fp that two frames
 *    have, and for one that no frame has (lab 6).
 * 3. A user reserves entry data of all sizes, until the shadow stack is full; two users share one
 *    filter (lab 6).
 * 4. A registration is refused.
 * 5. Functions are left without a return, as by longjmp(), until the shadow stack is full (lab 5).
 * 6. The same, and a function returns with an sp that belongs to no frame. Graph tracing is off
 *    for good after that.
 *
 * `rare leave` does another thing alone: two CPUs unregister one user (lab 6).
 *
 * The program checks nothing. It passes data to rare_walk(), rare_data(), rare_room(),
 * rare_refused(), rare_answer(), rare_stack() and rare_left() in registers, for an observer of the
 * processor.
 */
#include "app.h"

APP("[leave]",
    "rare uses of function_graph, for grading; graph tracing is off for good afterwards");

#if STAGE >= 5
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "irq.h"
#include "lib/pattern.h"
#include "shadow.h"
#include "ftrace_internal.h"
#include "unwind.h"

static struct ftrace_filter filter;
static struct fgraph_ops user;

static void rare_gone(struct ftrace_graph_ent *trace, struct fgraph_ops *gops);

static int begin(trace_func_graph_ent_t entry, trace_func_graph_ret_t ret, const char *names)
{
	int err;

	user = (struct fgraph_ops){.entryfunc = entry,
				   .retfunc = ret,
				   .filter = &filter,
				   .gonefunc = rare_gone,
				   .idx = -1};
	err = ftrace_filter_edit(&filter, names, strlen(names), true, false);
	return err ? err : register_ftrace_graph(&user);
}

static void end(void)
{
	unregister_ftrace_graph(&user);
	ftrace_filter_free(&filter);
}

/*
 * ---- 1. Both handlers call a traced function: that call must not be reported to any handler. ----
 */

/* only one nested call each, so that a tracer without recursion protection also ends */
static bool calls;

__attribute__((noipa)) static void rare_inner(void)
{
	barrier();
}

__attribute__((noipa)) static void rare_outer(void)
{
	barrier();
}

static notrace void call_inner(void)
{
	if (!calls)
		return;
	calls = false;
	rare_inner();
	calls = true;
}

__attribute__((noipa)) static notrace int
rare_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *regs)
{
	call_inner();
	return 1;
}

__attribute__((noipa)) static notrace void
rare_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops, struct ftrace_regs *regs)
{
	call_inner();
}

__attribute__((noipa)) static notrace void rare_gone(struct ftrace_graph_ent *trace,
						     struct fgraph_ops *gops)
{
	barrier();
}

static int handlers_call(void)
{
	int err = begin(rare_entry, rare_return, "rare_[io]*");

	calls = true;
	if (!err)
		rare_outer();
	calls = false;
	end();
	return err;
}

/* ---- 2. ---- */

/*
 * @entry: the kernel's stack walk, entry n. @link: return address n in the frame records. 0: there
 * is none.
 */
__attribute__((noipa)) static notrace void rare_walk(long n, unsigned long entry,
						     unsigned long link)
{
	barrier();
}

static notrace void walk_stack(void)
{
	unsigned long entries[12] = {0}, fp = (unsigned long)__builtin_frame_address(0),
		      flags = irq_save();
	struct unwind u;

	unwind_start_here(&u);
	unwind_save(&u, entries, ARRAY_SIZE(entries));
	for (long n = 0; n < ARRAY_SIZE(entries); n++) {
		const unsigned long *record = (void *)(fp - FRAME_RECORD);
		bool inside = fp % 8 == 0 && fp >= u.low + FRAME_RECORD &&
			      fp <= u.high - 16 + FRAME_RECORD;

		rare_walk(n, entries[n], inside ? record[1] : 0);
		fp = inside ? record[0] : 0;
	}
	irq_restore(flags);
}

static notrace int walk_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			      struct ftrace_regs *regs)
{
	walk_stack();
	return 1;
}

static notrace void walk_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				struct ftrace_regs *regs)
{
	walk_stack();
}

static notrace void walk_op(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			    struct ftrace_regs *regs)
{
	walk_stack();
}

static notrace int say_yes(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			   struct ftrace_regs *regs)
{
	return 1;
}

static bool walked;

static notrace void walk_first_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				      struct ftrace_regs *regs)
{
	if (!walked)
		walk_stack();
	walked = true;
}

/* Ends in a tail call of rare_outer. */
void rare_jump(void);

static int handler_walks_after_a_tail_call(void)
{
	int err = begin(say_yes, walk_first_return, "rare_[jo]u*");

	walked = false;
	if (!err)
		rare_jump();
	end();
	return err;
}

/* This op is registered first, so it is called after function_graph's op. */
static int handlers_walk(void)
{
	static struct ftrace_ops older = {.func = walk_op, .slot = -1};
	int err = ftrace_set_filter(&older, "rare_outer", 10, true, false)
			  ?: register_ftrace_function(&older);

	err = err ?: begin(walk_entry, walk_return, "rare_outer");
	if (!err)
		rare_outer();
	end();
	unregister_ftrace_function(&older);
	ftrace_filter_free(&older.filter);
	return err ?: handler_walks_after_a_tail_call();
}

#if STAGE >= 6
enum answered { REPLACED, ANOTHER, BEYOND, OF_TWO, OF_NONE };

__attribute__((noipa)) static notrace void rare_answer(enum answered what, unsigned long got,
						       unsigned long wanted)
{
	barrier();
}

/* No user is registered, so this thread has no shadow stack. */
static int walk_without_a_stack(void)
{
	unsigned long replaced = (unsigned long)return_to_handler,
		      another = (unsigned long)rare_outer;

	rare_answer(ANOTHER, ftrace_graph_ret_addr(current, another, 0), another);
	rare_answer(REPLACED, ftrace_graph_ret_addr(current, replaced, 0), replaced);
	return 0;
}

/* Below the newest frame there is for a moment another one with the same fp. */
static notrace void walk_of_two_frames(void)
{
	struct shadow_frame *top = shadow_of(current)->top, *below = top->below,
			    older = {.ret = (unsigned long)rare_inner, .fp = top->fp};
	unsigned long replaced = (unsigned long)return_to_handler, flags = irq_save();

	top->below = &older;
	rare_answer(OF_TWO, ftrace_graph_ret_addr(current, replaced, top->fp), top->ret);
	rare_answer(OF_NONE, ftrace_graph_ret_addr(current, replaced, 1), replaced);
	top->below = below;
	irq_restore(flags);
}
#endif

/* ---- 3. ---- */

#if STAGE >= 6
/*
 * So that this file's debug information says how the structure is laid out: the grader takes it
 * from no file that is handed in, or handed out as an object.
 */
const struct fgraph_single *const rare_single = &fgraph_single;

static int requested;
static void *reserved;

__attribute__((noipa)) static notrace void rare_data(long requested, void *reserved, void *found,
						     long size)
{
	barrier();
}

static notrace int keep(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			struct ftrace_regs *regs)
{
	reserved = fgraph_reserve_data(gops->idx, requested);
	return 1;
}

static notrace void find(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			 struct ftrace_regs *regs)
{
	int size = 0;
	void *found = fgraph_retrieve_data(gops->idx, &size);

	rare_data(requested, reserved, found, size);
	rare_answer(BEYOND, (unsigned long)fgraph_retrieve_parent_data(gops->idx, NULL, 2), 0);
	walk_of_two_frames();
}

static int data_of_all_sizes(void)
{
	static const int sizes[] = {1, 7, 8, 9, 100, 255, 256, 257, 0, -1};
	int err = begin(keep, find, "rare_outer");

	for (unsigned i = 0; i < ARRAY_SIZE(sizes) && !err; i++) {
		requested = sizes[i];
		rare_outer();
	}
	end();
	return err;
}

/* @left: free bytes of the shadow stack. @counted: by how much this request increased `overrun`. */
__attribute__((noipa)) static notrace void rare_room(long requested, unsigned long left,
						     void *reserved, unsigned long counted)
{
	barrier();
}

static notrace unsigned long reserve(struct fgraph_ops *gops, long requested)
{
	struct shadow_stack *s = shadow_of(current);
	unsigned long left = (char *)s + SHADOW_SIZE - (char *)s->free, overrun = s->overrun;
	void *got = fgraph_reserve_data(gops->idx, requested);

	rare_room(requested, left, got, s->overrun - overrun);
	return (char *)s + SHADOW_SIZE - (char *)s->free;
}

/* Fill the shadow stack: request one word too many, then exactly the rest, then one more word. */
static notrace int fill(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			struct ftrace_regs *regs)
{
	unsigned long left = reserve(gops, 128);

	for (int tries = 0; left > 256 && tries < SHADOW_SIZE / 128; tries++)
		left = reserve(gops, 128);
	left = reserve(gops, left);
	reserve(gops, left - 8);
	reserve(gops, 8);
	return 1;
}

static notrace void filled(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			   struct ftrace_regs *regs)
{
}

static int all_there_is_room_for(void)
{
	int err = begin(fill, filled, "rare_outer");

	if (!err)
		rare_outer();
	end();
	return err;
}

__attribute__((noipa)) static void rare_shared(void)
{
	barrier();
}

/* Two users with one filter: the second user unregisters, then the filter gets another function. */
static int filter_of_two(void)
{
	static struct fgraph_ops second;
	int err = begin(rare_entry, rare_return, "rare_outer");

	second = user;
	second.idx = -1;
	err = err ?: register_ftrace_graph(&second) ?: unregister_ftrace_graph(&second);
	if (!err) {
		ftrace_filter_edit(&filter, "rare_shared", 11, true, false);
		rare_shared();
	}
	end();
	return err;
}

__attribute__((noipa)) static notrace void rare_left(long err)
{
	barrier();
}

static struct fgraph_ops next;

/* The thread that comes first gives the slot to another user. */
static int leaves(void *unused)
{
	int err = unregister_ftrace_graph(&user);

	if (!err) {
		next = (struct fgraph_ops){.entryfunc = rare_entry,
					   .retfunc = rare_return,
					   .filter = &filter,
					   .idx = -1};
		register_ftrace_graph(&next);
	}
	rare_left(err);
	return 0;
}

/* The harness holds one of the two before it gets ftrace_lock. */
static int leave_twice(void)
{
	thread_t other;
	int err = begin(rare_entry, rare_return, "rare_shared")
			  ?: thread_create_on(&other, cpu_count() - 1, leaves, NULL);

	if (!err) {
		leaves(NULL);
		thread_join(other);
		rare_shared();
		unregister_ftrace_graph(&next);
	}
	end();
	return err;
}
#endif

/* ---- 4. ---- */

enum refused { WITHOUT_A_STUB, TWICE, AFTER_THE_END, DISABLED };

__attribute__((noipa)) static notrace void rare_refused(enum refused what, long err,
							struct shadow_stack *mine)
{
	barrier();
}

/* Ops take all stubs, then function_graph is registered, which needs one more. */
static int no_stub_left(void)
{
	static struct ftrace_ops ops[FTRACE_OPS_MAX];
	unsigned count = 0;

	for (; count < ARRAY_SIZE(ops); count++) {
		ops[count] = (struct ftrace_ops){.func = ftrace_stub, .slot = -1};
		if (ftrace_set_filter(&ops[count], "rare_inner", 10, true, false) ||
		    register_ftrace_function(&ops[count]))
			break;
	}
	rare_refused(WITHOUT_A_STUB, begin(rare_entry, rare_return, "rare_outer"),
		     shadow_of(current));
	end();
	while (count-- > 0) {
		unregister_ftrace_function(&ops[count]);
		ftrace_filter_free(&ops[count].filter);
	}
	return 0;
}

static int registered_twice(void)
{
	int err = begin(rare_entry, rare_return, "rare_outer");

	if (!err)
		rare_refused(TWICE, register_ftrace_graph(&user), NULL);
	end();
	return err;
}

#if STAGE >= 6
/* No site is written for a second user of the same function, so only the flag refuses it. */
static int registered_while_disabled(void)
{
	static struct fgraph_ops second;
	int err = begin(rare_entry, rare_return, "rare_outer");

	second = user;
	second.idx = -1;
	ftrace_disabled = true;
	if (!err)
		rare_refused(DISABLED, register_ftrace_graph(&second), NULL);
	ftrace_disabled = false;
	unregister_ftrace_graph(&second);
	end();
	return err;
}
#endif

/* ---- 5. and 6. ---- */

/*
 * rare_leave calls rare_away, which continues there without a return.
 *
 * rare_a calls rare_b, and so on to rare_e. Then
 *	rare_e changes the users (lab 6) and continues in rare_c, so rare_e and rare_d never
 *	return. rare_c returns to rare_home_c;
 *	rare_b calls rare_f, which returns to rare_home_f with an sp that belongs to no frame;
 *	rare_b calls rare_g, which returns;
 *	rare_b continues in rare_a, so rare_b never returns. rare_a returns to rare_home_a.
 * A return to any other place ends at rare_lost. The return values are 3, 6 and 1.
 */
unsigned long rare_sp[3] __used; /* of rare_chain, rare_a and rare_c */
void rare_leave(void), rare_chain(void), rare_look(void), rare_change(void);

/* KEEP and BACK: sp to and from rare_sp[n]. OFF: change sp to a value that no frame has. */
#ifdef __riscv
#define KEEP(n) "	lla t2, rare_sp + 8 * " n "\n	sd sp, 0(t2)\n"
#define BACK(n) "	lla t2, rare_sp + 8 * " n "\n	ld sp, 0(t2)\n"
#define OFF "	addi sp, sp, -16\n"
#define VALUE(n) "	li a0, " n "\n"
#else
#define KEEP(n) \
	"	adrp x10, rare_sp\n	mov x9, sp\n	str x9, [x10, #:lo12:rare_sp + 8 * " n "]\n"
#define BACK(n) \
	"	adrp x10, rare_sp\n	ldr x9, [x10, #:lo12:rare_sp + 8 * " n "]\n" \
	"	mov sp, x9\n"
#define OFF "	sub sp, sp, #16\n"
#define VALUE(n) "	mov x0, #" n "\n"
#endif
#define END(name) "	.size " name ", . - " name "\n"

__asm__(
"	.text\n	.balign 8\n"
#if STAGE == 5
"	.type rare_leave, %function\nrare_leave:\n"
ENTER
CALL "rare_away\n"
"rare_landed:\n"
LEAVE
END("rare_leave")
TRACED("rare_away")
JUMP "rare_landed\n"
END("rare_away")
#endif
"	.type rare_chain, %function\nrare_chain:\n"
ENTER KEEP("0")
CALL "rare_a\n"
"rare_home_a:\n"
CALL "rare_look\n"
"rare_lost:\n"
BACK("0") LEAVE
END("rare_chain")
TRACED("rare_a")
ENTER KEEP("1")
CALL "rare_b\n"
JUMP "rare_lost\n"
"rare_on_a:\n"
BACK("1") VALUE("1") LEAVE
END("rare_a")
TRACED("rare_b")
ENTER
CALL "rare_c\n"
"rare_home_c:\n"
CALL "rare_look\n"
CALL "rare_f\n"
"rare_home_f:\n"
CALL "rare_look\n"
CALL "rare_g\n"
JUMP "rare_on_a\n"
END("rare_b")
TRACED("rare_c")
ENTER KEEP("2")
CALL "rare_d\n"
JUMP "rare_lost\n"
"rare_on_c:\n"
BACK("2") VALUE("3") LEAVE
END("rare_c")
TRACED("rare_d")
ENTER
CALL "rare_e\n"
JUMP "rare_lost\n"
END("rare_d")
TRACED("rare_e")
ENTER
CALL "rare_change\n"
JUMP "rare_on_c\n"
END("rare_e")
TRACED("rare_f")
VALUE("6") OFF
"	ret\n"
END("rare_f")
TRACED("rare_g")
"	ret\n"
END("rare_g")
TRACED("rare_jump")
JUMP "rare_outer\n"
END("rare_jump"));

__attribute__((noipa)) static notrace void rare_stack(struct shadow_frame *top, unsigned long *free,
						      unsigned long depth, unsigned long overrun)
{
	barrier();
}

notrace void rare_look(void)
{
	struct shadow_stack *s = shadow_of(current);

	rare_stack(s->top, s->free, s->depth, s->overrun);
}

#if STAGE >= 6
/*
 * Other users of rare_a to rare_f. OLDER is registered before `user`, WITHOUT has no gone handler,
 * and LATER gets FORMER's slot in rare_e.
 */
enum other { OLDER, WITHOUT, SAYS_NO, FORMER, LATER };
static struct fgraph_ops others[LATER + 1];

static notrace int say_no(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			  struct ftrace_regs *regs)
{
	return 0;
}

static notrace int another(enum other which)
{
	others[which] = (struct fgraph_ops){.entryfunc = which == SAYS_NO ? say_no : say_yes,
					    .retfunc = filled,
					    .filter = &filter,
					    .gonefunc = which == WITHOUT ? NULL : rare_gone,
					    .idx = -1};
	return register_ftrace_graph(&others[which]);
}

notrace void rare_change(void)
{
	unregister_ftrace_graph(&others[FORMER]);
	another(LATER);
}
#else
notrace void rare_change(void)
{
}
#endif

/*
 * @leaves leaves functions without a return. The shadow stack is restored afterwards, so that
 * errors here affect no other code.
 */
static notrace void restored_after(void (*leaves)(void))
{
	struct shadow_stack *s = shadow_of(current);
	struct shadow_frame *top = s->top;
	unsigned long *free = s->free, depth = s->depth;

	leaves();
	s->top = top;
	s->free = free;
	s->depth = depth;
}

#if STAGE == 5
static notrace void leave_many(void)
{
	for (unsigned i = 0; i <= SHADOW_SIZE / sizeof(struct shadow_frame); i++)
		rare_leave();
}

/* A call drops the frames of the calls before it. Without a gone handler it does so, too. */
static int left_until_it_is_full(void)
{
	int err = begin(rare_entry, rare_return, "rare_away");

	if (!err)
		restored_after(leave_many);
	end();
	err = err ?: begin(say_yes, rare_return, "rare_away");
	user.gonefunc = NULL;
	if (!err)
		restored_after(leave_many);
	end();
	return err;
}
#endif

static notrace void leave_the_chain(void)
{
	rare_look();
	rare_chain();
}

static int leave(void)
{
	int err;

#if STAGE >= 6
	ftrace_filter_edit(&filter, "rare_?", 6, true, false);
	another(OLDER);
#endif
	err = begin(rare_entry, rare_return, "rare_?");
#if STAGE >= 6
	err = err ?: another(WITHOUT) ?: another(SAYS_NO) ?: another(FORMER);
#endif
	if (!err)
		restored_after(leave_the_chain);
#if STAGE >= 6
	for (enum other which = OLDER; which <= LATER; which++)
		unregister_ftrace_graph(&others[which]);
#endif
	end();
	if (!err) {
		rare_refused(AFTER_THE_END, begin(rare_entry, rare_return, "rare_outer"), NULL);
		end();
	}
	return err;
}

int main(int argc, char **argv)
{
	static struct mutex alone;
	int err;

	mutex_lock(&alone);
#if STAGE >= 6
	if (argc > 1) {
		err = leave_twice();
		mutex_unlock(&alone);
		return err ? complain(argv[0], argv[1], -err) : 0;
	}
#endif
	err = handlers_call() ?: handlers_walk();
#if STAGE >= 6
	err = err ?: walk_without_a_stack() ?: data_of_all_sizes();
	err = err ?: all_there_is_room_for() ?: filter_of_two();
#endif
	err = err ?: no_stub_left() ?: registered_twice();
#if STAGE >= 6
	err = err ?: registered_while_disabled();
#else
	err = err ?: left_until_it_is_full();
#endif
	err = err ?: leave();
	mutex_unlock(&alone);
	return err ? complain(argv[0], "register_ftrace_graph", -err) : 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: this kernel has no function_graph\n", argv[0]);
	return 1;
}
#endif
