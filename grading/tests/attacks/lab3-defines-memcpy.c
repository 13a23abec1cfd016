/*
 * File: kern/ftrace/core/patch.c
 * State: build failure
 * Points: none
 * Says: it defines memcpy|conflicting|defin
 */
@solution
void *memcpy(void *to, const void *from, size_t n)
{
	return to;
}
