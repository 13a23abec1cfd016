/*
 * A function's parameters: where each argument is when the function is called.
 *
 * kern/ftrace/tools/mksyms.py takes them from DWARF and writes them after the function's name:
 *
 *	schedule\0000v mutex_lock\0001vpm, memcpy\0003ppd,ps,Ln,
 *
 *	number of the registers that carry arguments: a digit
 *	kind of the result
 *	kind, place and name of each parameter, and a comma
 *
 * Kinds:
 *	p	an address; of a structure of more than 16 bytes the address of a copy
 *	b h i l q, B H I L Q	a signed, an unsigned integer of 1, 2, 4, 8, 16 bytes
 *	s S, u U	a structure, a union: of at most 8, of at most 16 bytes
 *	e	a structure or union of no bytes, which is not passed
 *	?	it is not known where it is, or what it is
 *	v m	of a result only: none; a structure of more than 16 bytes, returned in memory
 *
 * A place is the number of a word: 0 to 7 are the argument registers, from 8 on the words of the
 * stack at the entry. It is written as a decimal number, if it is not the place after the last
 * parameter's: on riscv64 the first register has the address for a result of kind m. q, Q, S and U
 * are in two words.
 *
 * Registers and stack words are 8 bytes wide. The bits above a narrow integer are undefined on
 * arm64 (AAPCS64, 6.8.2); on riscv64 the caller extends it (psABI, 2.1). Readers cut it off at its
 * size.
 */
#ifndef FTRACE_TRACE_ARGS_H
#define FTRACE_TRACE_ARGS_H

#include "string.h"

#define TRACE_ARG_REGISTERS 8

struct trace_param {
	char kind;
	unsigned place, words; /* words 0: nothing is passed, or the place is not known */
	const char *name;
	int length; /* of the name; it may be 0 */
};

/* The parameters of @func; "": not known, as in assembly and in modules. Any context. */
const char *trace_args_parameters(unsigned long func);

static inline unsigned trace_params_registers(const char *parameters)
{
	return *parameters & 15;
}

/* 'v', for example; '?': not known. */
static inline char trace_params_result(const char *parameters)
{
	return *parameters ? parameters[1] : '?';
}

/* The parameters, for trace_next_param(). */
static inline const char *trace_first_param(const char *parameters)
{
	return *parameters ? parameters + 2 : parameters;
}

/* Store the parameter at @at in @p (at first all zero), and advance. False: there is none. */
static inline bool trace_next_param(const char **at, struct trace_param *p)
{
	const char *text = *at;

	if (!*text)
		return false;
	p->place += p->words;
	p->kind = *text++;
	p->words = strchr("e?", p->kind) ? 0 : strchr("qQSU", p->kind) ? 2 : 1;
	if (*text >= '0' && *text <= '9')
		for (p->place = 0; *text >= '0' && *text <= '9'; text++)
			p->place = 10 * p->place + *text - '0';
	p->name = text;
	p->length = strchr(text, ',') - text;
	*at = text + p->length + 1;
	return true;
}

#endif
