// needs: kern/ftrace/core/hash.c kern/ftrace/tests/fake_kernel.c kern/ftrace/core/table.c
// needs: kern/ftrace/core/set.c kern/ftrace/core/ftrace.c -Ikern/ftrace/tests/host
// needs: -Ikern/ftrace/tests/host/riscv64 -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
/* Hashes of functions, compared with std::set. */
#include "fake_kernel.h"
#include <set>
extern "C" {
#include "hash.h"
}

TEST(hash, has_what_was_added_and_nothing_else)
{
	srand(3);
	for (u32 size : {0u, 1u, 2u, 7u, 8u, 100u, 5000u}) {
		std::set<u32> truth;
		struct ftrace_hash *hash = ftrace_hash_new(size);
		ASSERT_NE(nullptr, hash);
		for (u32 i = 0; i < size; i++) {
			u32 offset = 4 + rand() % 40000 * 4;
			ftrace_hash_add(hash, offset);
			truth.insert(offset);
		}
		EXPECT_EQ(truth.size(), hash->count);
		for (u32 offset = 4; offset < 160100; offset += 4)
			ASSERT_EQ(truth.count(offset) != 0, ftrace_hash_has(hash, offset));
		ftrace_hash_free(hash);
	}
}

TEST(hash, none_has_nothing_and_is_never_freed)
{
	auto *none = const_cast<ftrace_hash *>(&ftrace_hash_none);
	for (u32 offset = 4; offset < 160100; offset += 4)
		ASSERT_FALSE(ftrace_hash_has(none, offset));
	ftrace_hash_free(none); /* ASan: it was not allocated */
	EXPECT_EQ(0u, ftrace_hash_none.count);
	struct ftrace_filter filter = {}; /* no hash: every function */
	EXPECT_TRUE(ftrace_filter_test(&filter, KERNEL_BASE + 4));
	filter.filter_hash = none;
	EXPECT_FALSE(ftrace_filter_test(&filter, KERNEL_BASE + 4));
}

TEST(hash, colliding_offsets_are_all_found)
{
	struct ftrace_hash *hash = ftrace_hash_new(4);
	u32 slot = hash_slot(hash, 4);
	std::vector<u32> colliding;
	for (u32 offset = 4; colliding.size() < 4; offset += 4)
		if (hash_slot(hash, offset) == slot)
			colliding.push_back(offset);
	for (u32 offset : colliding)
		ftrace_hash_add(hash, offset);
	for (u32 offset : colliding)
		EXPECT_TRUE(ftrace_hash_has(hash, offset));
	ftrace_hash_free(hash);
}
