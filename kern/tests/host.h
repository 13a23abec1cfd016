/*
 * The kernel's C-library-like functions under names of their own, so that a
 * host test can compare them with the library's. On with -DKERNEL_NAMES.
 */
#ifdef KERNEL_NAMES
#define memcpy k_memcpy
#define memmove k_memmove
#define memset k_memset
#define memcmp k_memcmp
#define memchr k_memchr
#define strlen k_strlen
#define strnlen k_strnlen
#define strcmp k_strcmp
#define strncmp k_strncmp
#define strchr k_strchr
#define strlcpy k_strlcpy
#define vsnprintf k_vsnprintf
#define snprintf k_snprintf
#define scnprintf k_scnprintf
#define fdt_next_node k_fdt_next_node
#endif
