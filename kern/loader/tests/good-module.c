/*
 * The module of the tests of the reader and linker of modules: calls, data, tables,
 * strings, cold text. WEAK: symbols too that may be missing; addresses from the GOT.
 */
extern int printk(const char *fmt, ...);
extern int far_function(int);
extern int far_variable;

int counter = 5;
static char buffer[100];
static const int table[] = {1, 2, 3};
const char *const names[] = {"first", "second", 0};
int (*function)(int) = far_function;
static long differences[2] = {(long)buffer, (long)&buffer[99]};

static __attribute__((noinline)) int local(int x)
{
	counter += x;
	return buffer[x] + far_variable + (int)differences[x & 1];
}

__attribute__((cold)) int rare(int x)
{
	return local(x) + 1;
}

int choose(int x)
{
	switch (x) {
	case 0:
		return far_function(1);
	case 1:
		return local(5);
	case 2:
		return 77;
	case 3:
		return printk(names[x & 1]);
	case 4:
		return rare(3);
	case 5:
		return 3;
	case 6:
		return far_function(100);
	}
	return table[x & 1];
}

int init_module(void)
{
	printk("counter %d\n", counter);
	if (__builtin_expect(counter == 1000, 0))
		rare(0);
	return function(2);
}

#ifdef WEAK
extern int absent_function(int) __attribute__((weak));
extern int absent_variable __attribute__((weak));

int weak(void)
{
	if (absent_function)
		absent_function(3);
#ifdef __riscv
	__asm__ volatile("1: auipc t0, %%got_pcrel_hi(far_variable)\n"
			 "ld t0, %%pcrel_lo(1b)(t0)\n"
			 "sw t0, 0(t0)" : : : "t0", "memory");
#endif
	return &absent_variable ? absent_variable : 0;
}
#endif
