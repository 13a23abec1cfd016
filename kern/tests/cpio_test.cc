// needs: kern/fs/cpio.c kern/base/string.c -DKERNEL_NAMES -Ikern/tests -Ikern/ftrace/tests/host
/* The initrd's reader, on archives that cpio(1) made, and on what is left of them. */
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "said.h"

extern "C" int cpio_unpack(const void *archive, size_t size);

/* struct node of file.h, as far as cpio.c goes. C++ cannot read that header. */
struct fake_node {
	const char *name;
	uint16_t mode;
	const void *ops;
	void *data;
	uint64_t size;
	bool owned;
	void *parent, *child, *sibling;
};

static std::map<std::string, fake_node> tree;
extern "C" fake_node *file_make(const char *path, uint16_t mode, const void *ops, void *data)
{
	return &(tree[path] = {path, mode, ops, data, 0, false, nullptr, nullptr, nullptr});
}

using Bytes = std::vector<uint8_t>;

static Bytes make_archive()
{
	char dir[] = "/tmp/cpio_test.XXXXXX";
	std::string d = mkdtemp(dir);
	auto run = [](const std::string &c) { EXPECT_EQ(0, system(c.c_str())) << c; };
	run("mkdir -p " + d + "/in/data/deep && printf 'hello\\n' > " + d +
	    "/in/data/hello && : > " + d + "/in/empty && head -c 4099 /dev/zero > " + d +
	    "/in/data/deep/zeros && chmod 755 " + d + "/in/data && chmod 640 " + d + "/in/empty");
	run("cd " + d + "/in && find . | LC_ALL=C sort | cpio --quiet -o -H newc > ../a.cpio");
	std::ifstream in(d + "/a.cpio", std::ios::binary);
	Bytes b((std::istreambuf_iterator<char>(in)), {});
	run("rm -r " + d);
	return b;
}

static const Bytes &archive()
{
	static Bytes b = make_archive();
	return b;
}

/* Unpacked from memory that ends where the archive does; each node's bytes are read. */
static int unpack(const Bytes &b)
{
	std::unique_ptr<uint8_t[]> copy(new uint8_t[b.size()]);
	std::copy(b.begin(), b.end(), copy.get());
	tree.clear();
	said.clear();
	int err = cpio_unpack(copy.get(), b.size());
	for (auto &[path, node] : tree)
		if (node.size)
			(void)std::string((char *)node.data, node.size);
	return err;
}

TEST(cpio, unpacks_files_and_directories)
{
	ASSERT_EQ(0, cpio_unpack(archive().data(), archive().size()));
	EXPECT_EQ(5u, tree.size());
	EXPECT_EQ("hello\n",
		  std::string((char *)tree["/data/hello"].data, tree["/data/hello"].size));
	EXPECT_EQ(4099u, tree["/data/deep/zeros"].size);
	EXPECT_EQ(0u, tree["/empty"].size);
	EXPECT_EQ(0640, tree["/empty"].mode);
	EXPECT_EQ(040755, tree["/data"].mode);
	EXPECT_EQ("", said);
}

TEST(cpio, an_archive_cut_short_keeps_what_was_whole_and_says_so)
{
	size_t end = archive().size();
	while (std::string((char *)&archive()[end - 10], 10) != "TRAILER!!!")
		end--;
	for (size_t size = 1; size < end; size += size < 700 ? 1 : 13) {
		ASSERT_NE(0, unpack(Bytes(archive().begin(), archive().begin() + size))) << size;
		ASSERT_NE("", said) << size;
		ASSERT_LE(tree.size(), 5u);
	}
}

TEST(cpio, padding_behind_the_trailer_is_ignored)
{
	Bytes b = archive();
	b.resize(b.size() + 5000);
	EXPECT_EQ(0, unpack(b));
}

TEST(cpio, something_else_is_not_an_archive)
{
	EXPECT_NE(0, unpack(Bytes(2000, 'x')));
	EXPECT_NE(std::string::npos, said.find("not a cpio archive")) << said;
}

TEST(cpio, a_mutated_archive_is_never_read_outside)
{
	srand(4);
	for (int round = 0; round < 20000; round++) {
		Bytes b = archive();
		for (int n = rand() % 4 + 1; n--;)
			b[rand() % std::min<size_t>(b.size(), 900)] = "0fF9\0xZ\xff"[rand() % 8];
		unpack(b);
	}
}
