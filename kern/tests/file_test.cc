// needs: kern/fs/file.c kern/fs/seq.c kern/tests/file_host.c -Ikern/ftrace/tests/host
#include <gtest/gtest.h>
#include <cstring>
#include <map>
#include <random>
#include <string>

extern "C" {
struct node;
struct file;
struct seq;
int file_open(node *cwd, const char *path, int flags, file **f);
ssize_t file_read(file *f, void *buf, size_t n);
ssize_t file_write(file *f, const void *buf, size_t n);
int file_close(file *f);
node *file_lookup(node *cwd, const char *path);
node *file_root(void);
void file_path(node *n, char *buf, size_t size);
int file_remove(node *cwd, const char *path);
int file_mkdir(node *cwd, const char *path);
int file_chdir(node **cwd, const char *path);
int file_unmake(node *n);
int file_link(const char *path, node *dir);
struct file_range {
	unsigned long start, size;
	file_range *next;
};
int file_ops_going(file_range *r);
bool file_ops_forget(file_range *r);
void file_ops_end(file_range *r);
/* file_host.c */
extern const char host_items_ops[], host_dir_ops[];
extern int (*host_in_special)(void);
node *host_make(const char *path, int mode, const char *contents);
node *host_make_special(const char *path, int items);
int host_make_special_dir(const char *path);
int host_make_closed_dir(const char *path);
extern bool host_no_memory;
}

namespace {

enum { RDONLY = 0, WRONLY = 1, RDWR = 2, CREAT = 0100, TRUNC = 01000, APPEND = 02000 };

int put(const char *path, const std::string &text, int flags = WRONLY | CREAT | TRUNC)
{
	file *f;
	int err = file_open(nullptr, path, flags, &f);
	if (err)
		return err;
	ssize_t n = file_write(f, text.data(), text.size());
	file_close(f);
	return n;
}

std::string get(const char *path, size_t chunk = 100)
{
	file *f;
	int err = file_open(nullptr, path, RDONLY, &f);
	if (err)
		return "error " + std::to_string(-err);
	std::string all, buf(chunk, 0);
	ssize_t n;
	while ((n = file_read(f, buf.data(), chunk)) > 0)
		all.append(buf, 0, n);
	file_close(f);
	return n ? "error " + std::to_string(-n) : all;
}

TEST(File, keeps_what_is_written)
{
	host_make("/tmp", 0040777, nullptr);
	EXPECT_EQ(put("/tmp/a", "one\n"), 4);
	EXPECT_EQ(put("/tmp/a", "two\n", WRONLY | CREAT | APPEND), 4);
	EXPECT_EQ(get("/tmp/a"), "one\ntwo\n");
	EXPECT_EQ(put("/tmp/a", "X", WRONLY), 1);
	EXPECT_EQ(get("/tmp/a", 3), "Xne\ntwo\n");
	EXPECT_EQ(put("/tmp/a", ""), 0);
	EXPECT_EQ(get("/tmp/a"), "");
	EXPECT_EQ(file_remove(nullptr, "/tmp/a"), 0);
	EXPECT_EQ(get("/tmp/a"), "error 2");
}

TEST(File, initrd_files_are_copied_when_written)
{
	static const char contents[] = "from the initrd";
	host_make("/data/f", 0644, contents);
	EXPECT_EQ(get("/data/f"), contents);
	EXPECT_EQ(put("/data/f", "!", WRONLY | APPEND), 1);
	EXPECT_EQ(get("/data/f"), std::string(contents) + "!");
	EXPECT_STREQ(contents, "from the initrd");
}

TEST(File, errors_are_linux_s)
{
	file *f;
	char byte = 0;
	host_make("/tmp", 0040777, nullptr);
	put("/tmp/f", "x");
	EXPECT_EQ(file_open(nullptr, "/tmp/nix", RDONLY, &f), -2);
	EXPECT_EQ(file_open(nullptr, "", RDONLY, &f), -2);
	EXPECT_EQ(file_open(nullptr, "/tmp/nix/f", WRONLY | CREAT, &f), -2);
	EXPECT_EQ(file_open(nullptr, "/tmp/f/g", WRONLY | CREAT, &f), -20);
	EXPECT_EQ(file_open(nullptr, "/tmp/f/", RDONLY, &f), -20);
	EXPECT_EQ(file_open(nullptr, "/tmp", WRONLY, &f), -21);
	EXPECT_EQ(file_open(nullptr, "/tmp", RDONLY | TRUNC, &f), -21)
		<< "a directory's data is its owner's";
	EXPECT_EQ(file_open(nullptr, "/tmp/new/", WRONLY | CREAT, &f), -21);
	EXPECT_EQ(file_open(nullptr, ("/tmp/" + std::string(300, 'x')).c_str(), WRONLY | CREAT, &f),
		  -36);
	EXPECT_EQ(file_mkdir(nullptr, "/tmp"), -17);
	EXPECT_EQ(file_mkdir(nullptr, "/tmp/d"), 0);
	put("/tmp/d/f", "x");
	EXPECT_EQ(file_remove(nullptr, "/tmp/d"), -39);
	EXPECT_EQ(file_remove(nullptr, "/"), -1);
	ASSERT_EQ(file_open(nullptr, "/tmp/d/f", RDONLY, &f), 0);
	EXPECT_EQ(file_write(f, "x", 1), -9);
	EXPECT_EQ(file_remove(nullptr, "/tmp/d/f"), -16);
	file_close(f);
	ASSERT_EQ(file_open(nullptr, "/tmp/d/f", WRONLY, &f), 0);
	EXPECT_EQ(file_read(f, &byte, 1), -9);
	file_close(f);
	EXPECT_EQ(file_remove(nullptr, "/tmp/d/f"), 0);
	EXPECT_EQ(file_remove(nullptr, "/tmp/d"), 0);
	ASSERT_EQ(file_open(nullptr, "/tmp", RDONLY, &f), 0);
	EXPECT_EQ(file_read(f, &byte, 1), -21);
	file_close(f);
}

TEST(File, grows_to_sixteen_megabytes)
{
	file *f;
	std::string mega(1 << 20, 'm');
	host_make("/tmp", 0040777, nullptr);
	ASSERT_EQ(file_open(nullptr, "/tmp/big", WRONLY | CREAT, &f), 0);
	for (int i = 0; i < 16; i++)
		ASSERT_EQ(file_write(f, mega.data(), mega.size()), ssize_t(mega.size()));
	EXPECT_EQ(file_write(f, "x", 1), -27);
	file_close(f);
	EXPECT_EQ(file_remove(nullptr, "/tmp/big"), 0);
}

TEST(File, says_when_there_is_no_memory)
{
	file *f;
	host_make("/tmp", 0040777, nullptr);
	ASSERT_EQ(file_open(nullptr, "/tmp/full", WRONLY | CREAT, &f), 0);
	host_no_memory = true;
	EXPECT_EQ(file_write(f, "x", 1), -28);
	EXPECT_EQ(file_mkdir(nullptr, "/tmp/none"), -12);
	host_no_memory = false;
	file_close(f);
}

TEST(File, paths_go_both_ways)
{
	char path[64];
	host_make("/a/b/c", 0644, "c");
	node *b = file_lookup(nullptr, "/a/b");
	ASSERT_NE(b, nullptr);
	file_path(b, path, sizeof(path));
	EXPECT_STREQ(path, "/a/b");
	file_path(file_root(), path, sizeof(path));
	EXPECT_STREQ(path, "/");
	EXPECT_EQ(file_lookup(b, "c"), file_lookup(nullptr, "//a/./b/../b//c"));
	EXPECT_EQ(file_lookup(b, "../../../.."), file_root());
	EXPECT_EQ(file_lookup(b, "."), b);
	EXPECT_EQ(host_make("/a/b/c", 0644, "again"), nullptr);
	EXPECT_EQ(host_make("/a/b/c/d", 0644, "below a file"), nullptr);
}

TEST(File, a_thread_stands_in_directories_only)
{
	node *cwd = nullptr;
	host_make("/stand/here/file", 0644, "");
	EXPECT_EQ(file_chdir(&cwd, "/stand/nowhere"), -2);
	EXPECT_EQ(file_chdir(&cwd, "/stand/here/file"), -20);
	EXPECT_EQ(cwd, nullptr);
	EXPECT_EQ(file_chdir(&cwd, "stand"), 0);
	EXPECT_EQ(file_chdir(&cwd, "here"), 0);
	EXPECT_EQ(cwd, file_lookup(nullptr, "/stand/here"));
}

TEST(File, special_directories_take_no_files)
{
	file *f;
	host_make_special("/sys/x/lines", 10);
	EXPECT_EQ(file_open(nullptr, "/sys/x/new", WRONLY | CREAT, &f), -13);
	EXPECT_EQ(file_remove(nullptr, "/sys/x/lines"), -1);
	EXPECT_EQ(put("/sys/x/lines", "x", WRONLY | TRUNC), -22);
}

TEST(Seq, items_come_out_whole_and_once)
{
	for (int items : {99, 100}) { /* item 98 has no text, item 99 has */
		std::string want, path = "/sys/x/" + std::to_string(items);
		host_make_special(path.c_str(), items);
		for (int i = 0; i < items; i++)
			if (i % 7)
				want += "item " + std::to_string(i) + std::string(i * 10, '.') +
					"\n";
		for (size_t chunk : {1u, 3u, 64u, 4096u, 1000000u})
			EXPECT_EQ(get(path.c_str(), chunk), want) << chunk;
	}
}

TEST(File, behaves_as_a_map_of_strings)
{
	std::mt19937 random(7);
	std::map<std::string, std::string> model;

	host_make("/tmp", 0040777, nullptr);
	for (int i = 0; i < 20000; i++) {
		std::string path = "/tmp/m" + std::to_string(random() % 8);
		std::string text(random() % 300, 'a' + random() % 26);
		switch (random() % 4) {
		case 0:
			EXPECT_EQ(put(path.c_str(), text), ssize_t(text.size()));
			model[path] = text;
			break;
		case 1:
			EXPECT_EQ(put(path.c_str(), text, WRONLY | CREAT | APPEND),
				  ssize_t(text.size()));
			model[path] += text;
			break;
		case 2:
			EXPECT_EQ(file_remove(nullptr, path.c_str()), model.erase(path) ? 0 : -2);
			break;
		default:
			EXPECT_EQ(get(path.c_str(), 1 + random() % 100),
				  model.count(path) ? model[path] : "error 2");
		}
	}
}

TEST(File, a_directory_may_make_and_remove_its_names_itself)
{
	file *f;

	ASSERT_EQ(host_make_special_dir("/sys/dirs"), 0);
	EXPECT_EQ(file_mkdir(nullptr, "/sys/dirs/a"), 0);
	EXPECT_EQ(file_mkdir(nullptr, "/sys/dirs/b/"), 0);
	EXPECT_EQ(file_mkdir(nullptr, "/sys/dirs/a"), -17);
	EXPECT_EQ(file_mkdir(nullptr, "/sys/dirs/none/x"), -2);
	EXPECT_EQ(file_mkdir(nullptr, "/sys/dirs/a/x"), -1);
	EXPECT_EQ(put("/sys/dirs/x", ""), -13);
	EXPECT_EQ(get("/sys/dirs/a/deep/er/items"), "");
	EXPECT_EQ(file_remove(nullptr, "/sys/dirs/a/deep/er/items"), -1);
	EXPECT_EQ(file_remove(nullptr, "/sys/dirs/a/deep"), -1);
	EXPECT_EQ(file_remove(nullptr, "/sys/dirs"), -1);
	ASSERT_EQ(file_open(nullptr, "/sys/dirs/a/deep/er/items", RDONLY, &f), 0);
	EXPECT_EQ(file_remove(nullptr, "/sys/dirs/a"), -16);
	EXPECT_EQ(file_remove(nullptr, "/sys/dirs/b"), 0);
	file_close(f);
	EXPECT_EQ(file_remove(nullptr, "/sys/dirs/a"), 0);
	EXPECT_EQ(file_remove(nullptr, "/sys/dirs/a"), -2);
	EXPECT_EQ(get("/sys/dirs/a/deep/er/items"), "error 2");
}

TEST(File, a_directory_with_ops_but_these_changes_no_names)
{
	ASSERT_EQ(host_make_closed_dir("/closed"), 0);
	EXPECT_EQ(file_mkdir(nullptr, "/closed/x"), -1);
	EXPECT_EQ(file_remove(nullptr, "/closed/name"), -1);
	EXPECT_NE(file_lookup(nullptr, "/closed/name"), nullptr);
}

file_range *range_of(const void *at)
{
	static std::map<const void *, file_range> ranges;
	file_range &r = ranges[at];

	r.start = (unsigned long)at;
	r.size = 1;
	return &r;
}

int going(const void *at)
{
	return file_ops_going(range_of(at));
}

void stays(const void *at)
{
	file_ops_end(range_of(at));
}

TEST(File, a_special_file_is_removed_when_it_is_not_open)
{
	node *n = host_make_special("/dev/unmade", 3);
	file *f;

	ASSERT_EQ(file_open(nullptr, "/dev/unmade", RDONLY, &f), 0);
	EXPECT_EQ(file_unmake(n), -16);
	EXPECT_EQ(file_unmake(file_lookup(nullptr, "/dev")), -39);
	file_close(f);
	EXPECT_EQ(file_unmake(n), 0);
	EXPECT_EQ(get("/dev/unmade"), "error 2");
	EXPECT_NE(host_make_special("/dev/unmade", 3), nullptr) << "the name is free again";
}

TEST(File, a_module_that_goes_has_no_open_file_and_gets_none)
{
	static const char contents[] = "of the module";
	file *f, *g;

	host_make_special("/dev/items", 3);
	host_make("/dev/data", 0644, contents);
	host_make("/dev/other", 0644, "x");
	ASSERT_EQ(file_open(nullptr, "/dev/items", RDONLY, &f), 0);
	EXPECT_EQ(going(host_items_ops), -16) << "one is open";
	EXPECT_EQ(file_open(nullptr, "/dev/items", RDONLY, &g), 0)
		<< "and another one can be opened after that";
	file_close(g);
	file_close(f);
	EXPECT_EQ(going(host_items_ops), 0);
	EXPECT_EQ(file_open(nullptr, "/dev/items", RDONLY, &f), -19);
	EXPECT_EQ(get("/dev/other"), "x");
	stays(host_items_ops);
	EXPECT_NE(get("/dev/items"), "error 19");
	ASSERT_EQ(file_open(nullptr, "/dev/data", RDONLY, &f), 0);
	EXPECT_EQ(going(contents), -16) << "contents in the module";
	file_close(f);
	EXPECT_EQ(going(contents), 0);
	EXPECT_EQ(get("/dev/data"), "error 19");
	stays(contents);
	EXPECT_EQ(put("/dev/data", "a copy"), 6);
	ASSERT_EQ(file_open(nullptr, "/dev/data", RDONLY, &f), 0);
	EXPECT_EQ(going(contents), 0) << "what was written is no longer the module's";
	stays(contents);
	file_close(f);
}

TEST(File, a_module_that_goes_makes_no_names)
{
	ASSERT_EQ(host_make_special_dir("/sys/gone"), 0);
	host_in_special = [] { return going(host_dir_ops) == -16 ? 0 : 1; };
	EXPECT_EQ(file_mkdir(nullptr, "/sys/gone/a"), 0) << "while it runs, the module cannot go";
	host_in_special = nullptr;
	EXPECT_EQ(going(host_dir_ops), 0);
	EXPECT_EQ(file_mkdir(nullptr, "/sys/gone/b"), -19);
	EXPECT_EQ(file_remove(nullptr, "/sys/gone/a"), -19);
	stays(host_dir_ops);
	EXPECT_EQ(file_remove(nullptr, "/sys/gone/a"), 0);
}

TEST(File, two_modules_go_at_the_same_time)
{
	static const char one[] = "one", two[] = "two";
	file *f;

	host_make("/dev/one", 0644, one);
	host_make("/dev/two", 0644, two);
	EXPECT_EQ(going(one), 0);
	EXPECT_EQ(going(two), 0);
	EXPECT_EQ(going(one), 0) << "a range that is going may be named again";
	EXPECT_EQ(get("/dev/one"), "error 19");
	EXPECT_EQ(get("/dev/two"), "error 19");
	stays(one);
	stays(one);
	EXPECT_EQ(get("/dev/one"), "one");
	EXPECT_EQ(get("/dev/two"), "error 19");
	ASSERT_EQ(file_open(nullptr, "/dev/one", RDONLY, &f), 0);
	EXPECT_TRUE(file_ops_forget(range_of(one))) << "it is open, and stays";
	EXPECT_EQ(get("/dev/one"), "error 19") << "but it is not opened again";
	file_close(f);
	EXPECT_FALSE(file_ops_forget(range_of(one)));
	EXPECT_EQ(get("/dev/one"), "error 2");
	EXPECT_EQ(get("/dev/two"), "error 19") << "the other one's file is not removed";
	stays(one);
	stays(two);
	EXPECT_EQ(get("/dev/two"), "two");
}

TEST(File, a_directory_with_a_second_name)
{
	char path[100];
	node *cwd = nullptr;

	host_make("/real/dir/file", 0644, "text");
	node *dir = file_lookup(nullptr, "/real/dir");
	ASSERT_EQ(file_link("/other/name", dir), 0);
	EXPECT_EQ(get("/other/name/file"), "text");
	EXPECT_EQ(put("/other/name/new", "more"), 4);
	EXPECT_EQ(get("/real/dir/new"), "more") << "it is one directory";
	EXPECT_EQ(file_chdir(&cwd, "/other/name"), 0);
	file_path(cwd, path, sizeof(path));
	EXPECT_STREQ(path, "/real/dir");
	EXPECT_EQ(file_lookup(nullptr, "/other/name/.."), file_lookup(nullptr, "/real"));
}

TEST(File, what_could_not_be_made_whole_is_not_there)
{
	ASSERT_EQ(host_make_special_dir("/sys/whole"), 0);
	host_no_memory = true;
	EXPECT_EQ(file_mkdir(nullptr, "/sys/whole/a"), -12);
	host_no_memory = false;
	EXPECT_EQ(file_lookup(nullptr, "/sys/whole/a"), nullptr);
}

TEST(File, no_half_line_is_read_when_there_is_no_memory_for_the_rest)
{
	char text[4096];
	file *f;
	host_make_special("/sys/half", 100);
	ASSERT_EQ(file_open(nullptr, "/sys/half", RDONLY, &f), 0);
	ASSERT_EQ(file_read(f, text, 5), 5);
	host_no_memory = true; /* an item of more than 256 bytes does not fit */
	ssize_t n = file_read(f, text, sizeof(text));
	ASSERT_GT(n, 0);
	EXPECT_EQ(text[n - 1], '\n');
	EXPECT_EQ(file_read(f, text, sizeof(text)), -12);
	EXPECT_EQ(file_read(f, text, sizeof(text)), -12);
	host_no_memory = false;
	file_close(f);
}

} // namespace
