/* The arch.h contract for the host tests of drivers: the test is the device. */
#include "types.h"

struct context {
	unsigned long unused;
};
u8 host_read8(const volatile void *addr);
u32 host_read32(const volatile void *addr);
void host_write(u32 value, volatile void *addr, int bytes);
static inline u8 read8(const volatile void *addr)
{
	return host_read8(addr);
}
static inline u32 read32(const volatile void *addr)
{
	return host_read32(addr);
}
static inline void write8(u8 value, volatile void *addr)
{
	host_write(value, addr, 1);
}
static inline void write32(u32 value, volatile void *addr)
{
	host_write(value, addr, 4);
}
static inline u64 arch_counter(void)
{
	return 0;
}
static inline void cpu_relax(void)
{
}
struct thread *get_current(void);
