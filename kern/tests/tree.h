/* Device trees for host tests, by dtc. */
#ifndef TESTS_TREE_H
#define TESTS_TREE_H

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

using Blob = std::vector<uint8_t>;

static Blob compile(const std::string &source)
{
	char dir[] = "/tmp/tree.XXXXXX";
	std::string base = mkdtemp(dir);

	std::ofstream(base + "/t.dts") << source;
	EXPECT_EQ(
		0,
		system(("dtc -q -I dts -O dtb -o " + base + "/t.dtb " + base + "/t.dts").c_str()));
	std::ifstream in(base + "/t.dtb", std::ios::binary);
	Blob blob((std::istreambuf_iterator<char>(in)), {});
	EXPECT_EQ(0, system(("rm -r " + base).c_str()));
	return blob;
}

#endif
