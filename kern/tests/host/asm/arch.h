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
struct cpu;
struct thread *get_current(void);
struct cpu *this_cpu(void);
static inline unsigned long irq_save(void)
{
	return 0;
}
static inline void irq_restore(unsigned long flags)
{
}
static inline void irq_enable(void)
{
}
static inline void irq_disable(void)
{
}
static inline void cpu_idle_wait(void)
{
}
#define smp_mb()
#define io_mb()

/*
 * Each instruction of a driver is told to the test, with its operands, and not executed; named
 * registers are ordinary variables.
 */
#ifdef HOST_INSN
int host_insn(const char *text);
#define volatile(...) ("" : : "r"(host_insn(#__VA_ARGS__)))
#define __asm__(...)
unsigned long host_register(const char *name);
#define sysreg_read(name) host_register(#name)
#define sysreg_write(name, value) host_insn(#name)
#define csr_read(name) host_register(#name)
#define csr_write(name, value) host_insn(#name)
#define csr_set csr_write
#define csr_clear csr_write
#define isb()
#define dsb(domain)
static inline u64 read64(const volatile void *addr)
{
	return host_read32(addr);
}
static inline void write64(u64 value, volatile void *addr)
{
	host_write(value, addr, 8);
}
#define SIE_TIMER 0
#define SBI_TIME 0
#define SBI_IPI 0
#define ICC_SRE_SRE 1
struct sbi_result {
	long error;
	unsigned long value;
};
struct sbi_result sbi_call(unsigned long ext, unsigned long fid, unsigned long a0, unsigned long a1,
			   unsigned long a2, unsigned long a3);
long sbi_call_harts(unsigned long ext, unsigned long fid, unsigned long mask);
long psci_call(unsigned long function, unsigned long arg1, unsigned long arg2, unsigned long arg3);
void handle_external(void);
extern unsigned timer_irq;
int bcm2836_init(const void *fdt);
void bcm2836_init_cpu(void);
int bcm2836_map(int controller, const u32 cell[3], unsigned *irq);
void bcm2836_enable(unsigned irq);
void bcm2836_handle(void);
void bcm2836_send_ipi(unsigned long mask);
int plic_context(const void *fdt, int node, u64 hwid);
int aia_init(const void *fdt, int *hart_list);
void aia_init_cpu(int index);
int aia_map(int controller, const u32 cell[3], unsigned *irq);
void aia_enable(unsigned irq, int index);
void aia_handle(int index);
#endif
