/* A board's device tree as its boot loader hands it over, and what the kernel decides by it. */
#ifndef BOARD_TREE_TEST_H
#define BOARD_TREE_TEST_H

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "said.h"
#include "host.h"
extern "C" {
#include "board_host.h"
#include "memory.h"
extern unsigned long boot_fdt_pa;
}

/* An image of 1 MiB. */
asm(".globl image_start, image_end\nimage_start = 0x10000000\nimage_end = 0x10100000\n");

struct Decided {
	struct decisions d;
	char ram[800], taken[800], said[800];
};
static_assert(sizeof(Decided) <= PIPE_BUF, "it is written to a pipe in one piece");

static std::string text_of(const range_list &l)
{
	std::ostringstream text;

	for (unsigned i = 0; i < l.count; i++)
		text << (i ? " " : "") << std::hex << l.range[i].start << "-" << l.range[i].end;
	return text.str();
}

/* In a process of its own: the kernel decides once for each boot. */
static Decided decided(const std::vector<char> &tree, u64 boot_hwid, unsigned long image,
		       unsigned long fdt)
{
	Decided got{};
	int ends[2], status;

	EXPECT_EQ(0, pipe(ends));
	if (pid_t child = fork()) {
		close(ends[1]);
		EXPECT_EQ((ssize_t)sizeof(got), read(ends[0], &got, sizeof(got)));
		close(ends[0]);
		waitpid(child, &status, 0);
		EXPECT_EQ(0, status);
		return got;
	}
	kernel_pa = image;
	boot_fdt_pa = fdt;
	decide(tree.data(), boot_hwid, &got.d);
	text_of(ram).copy(got.ram, sizeof(got.ram) - 1);
	text_of(taken).copy(got.taken, sizeof(got.taken) - 1);
	said.copy(got.said, sizeof(got.said) - 1);
	_exit(write(ends[1], &got, sizeof(got)) != sizeof(got));
}

/*
 * The tree of kern/tests/board_trees.py, changed by these commands of fdtput's. Empty: it could not
 * be fetched.
 */
static std::vector<char> tree_of(const std::string &board, const std::vector<std::string> &changes)
{
	std::string source = "build/boards/" + board + ".dtb",
		    copy = "build/host/" + board + "." + std::to_string(getpid()) + ".dtb";
	std::vector<char> tree;

	if (!std::ifstream(source).good())
		return tree;
	EXPECT_EQ(0, system(("cp " + source + " " + copy).c_str()));
	for (const std::string &change : changes)
		EXPECT_EQ(0, system(("fdtput " + change.substr(0, change.find(' ')) + " " + copy +
				     change.substr(change.find(' ')))
					    .c_str()));
	std::ifstream in(copy, std::ios::binary);
	tree.assign((std::istreambuf_iterator<char>(in)), {});
	EXPECT_EQ(0, unlink(copy.c_str()));
	return tree;
}

/* The pages of a tree that lies there. */
static std::string pages(const std::vector<char> &tree, unsigned long at)
{
	std::ostringstream text;

	text << " " << std::hex << at << "-" << ((at + tree.size() + 4095) & ~4095ul);
	return text.str();
}

static std::string missing()
{
	std::ifstream in("build/boards/missing");
	std::string why((std::istreambuf_iterator<char>(in)), {});

	return why.empty() ? "make host-tests fetches the boards' device trees" : why;
}

#define TREE(name, board, ...) \
	std::vector<char> name = tree_of(board, {__VA_ARGS__}); \
	if (name.empty()) { \
		printf("skipped: the device tree of %s: %s\n", board, missing().c_str()); \
		GTEST_SKIP(); \
	}

#endif
