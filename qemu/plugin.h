/*
 * QEMU's plugin interface, as much of it as the observer uses: Debian ships no
 * header. Version 4 (QEMU 9.2 to 10.0), and what differs up to 7: from 6 on
 * reading a register gives a bool, from 7 on callbacks get a pointer instead
 * of the plugin's id, and a register's descriptor may have grown.
 */
#ifndef QEMU_PLUGIN_H
#define QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined PLUGIN_VERSION || PLUGIN_VERSION < 4
#error "PLUGIN_VERSION: the observer needs version 4 (QEMU 9.2) or later"
#endif

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
struct qemu_plugin_scoreboard;
struct qemu_plugin_register;

struct qemu_info {
	const char *target_name; /* there is more, that the observer does not need */
};
enum cb_flags { CB_NO_REGS, CB_R_REGS };
enum mem_rw { MEM_R = 1, MEM_W = 2, MEM_RW = 3 };
enum op { INLINE_ADD_U64, INLINE_STORE_U64 };
enum cond { COND_NEVER, COND_ALWAYS, COND_EQ, COND_NE, COND_LT, COND_LE, COND_GT, COND_GE };

typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} plugin_u64;

/* GLib's. */
typedef struct {
	uint8_t *data;
	unsigned len;
} GByteArray;
typedef struct {
	char *data;
	unsigned len;
} GArray;
unsigned g_array_get_element_size(GArray *);
GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *, unsigned);

struct register_descriptor {
	struct qemu_plugin_register *handle;
	const char *name, *feature;
};
struct mem_value {
	int type; /* 0: 8 bits, 1: 16, 2: 32, 3: 64, 4: 128 */
	union {
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
		struct {
			uint64_t low, high;
		} u128;
	} data;
};

#if PLUGIN_VERSION >= 7
#define PLUGIN_CALLBACK(type, argument) (type argument, void *unused)
#define PLUGIN_REGISTER(what, id, callback) what(id, callback, NULL)
#define PLUGIN_DATA , void *
#else
#define PLUGIN_CALLBACK(type, argument) (plugin_id unused, type argument)
#define PLUGIN_REGISTER(what, id, callback) what(id, callback)
#define PLUGIN_DATA
#endif
typedef void (*vcpu_cb)PLUGIN_CALLBACK(unsigned, vcpu);
typedef void (*trans_cb)PLUGIN_CALLBACK(struct qemu_plugin_tb *, tb);
typedef void (*exec_cb)(unsigned vcpu, void *);
typedef void (*mem_cb)(unsigned vcpu, uint32_t info, uint64_t addr, void *);

void qemu_plugin_register_vcpu_init_cb(plugin_id, vcpu_cb PLUGIN_DATA);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, trans_cb PLUGIN_DATA);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *, enum op, plugin_u64,
						       uint64_t);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *, exec_cb, enum cb_flags,
					       enum cond, plugin_u64, uint64_t, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, exec_cb, enum cb_flags,
					    void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, mem_cb, enum cb_flags, enum mem_rw,
				      void *);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);

bool qemu_plugin_mem_is_store(uint32_t info);
unsigned qemu_plugin_mem_size_shift(uint32_t info);
struct mem_value qemu_plugin_mem_get_value(uint32_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t addr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
uint64_t qemu_plugin_u64_get(plugin_u64, unsigned vcpu);
void qemu_plugin_u64_set(plugin_u64, unsigned vcpu, uint64_t);
GArray *qemu_plugin_get_registers(void);
#if PLUGIN_VERSION >= 6
bool
#else
int
#endif
qemu_plugin_read_register(struct qemu_plugin_register *, GByteArray *);
bool qemu_plugin_read_memory_vaddr(uint64_t, GByteArray *, size_t);

#endif
