/*
 * Tests the promises of patch.c for both architectures; the including test names
 * the assembler to compare with and the limits of a call (CALL_* below).
 */
#include "fake_kernel.h"
#include "asm-ftrace/hook.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

/* A word of text; a failure prints it as a hexadecimal number. */
struct word {
	u32 insn;
	bool operator==(word other) const { return insn == other.insn; }
	friend void PrintTo(word w, std::ostream *out)
	{
		char digits[9];
		snprintf(digits, sizeof(digits), "%08x", w.insn);
		*out << digits;
	}
};
#define EXPECT_WORD(want, found) EXPECT_EQ(word{want}, word{found})

/* Assemble @source with the cross assembler; the words of its .text. */
static std::vector<u32> assemble(const std::string &source)
{
	char dir[] = "/tmp/patch_testXXXXXX";
	if (!mkdtemp(dir))
		return {};
	std::string d = dir;
	std::ofstream(d + "/a.s") << source;
	std::string command = "cd " + d +
			      " && " CROSS "as " AS_FLAGS " -o a.o a.s && " CROSS
			      "objcopy -O binary -j .text a.o a.bin";
	EXPECT_EQ(0, system(command.c_str()));
	std::ifstream f(d + "/a.bin", std::ios::binary);
	std::vector<u32> words;
	for (u32 w; f.read((char *)&w, 4);)
		words.push_back(w);
	EXPECT_EQ(0, system(("rm -r " + d).c_str()));
	return words;
}

/* Each of these instructions is what the assembler makes of its line. */
static void expect_assembled(const std::string &source, const std::vector<u32> &ours)
{
	std::vector<u32> theirs = assemble(source);
	std::istringstream lines(source);
	std::string line;
	ASSERT_EQ(theirs.size(), ours.size());
	for (size_t i = 0; i < ours.size() && std::getline(lines, line); i++)
		ASSERT_EQ(word{theirs[i]}, word{ours[i]}) << "the assembler was given: " << line;
}

/* The words of a site before boot; the last word is the one at @ip. */
static std::vector<u32> compiler_leaves(unsigned long ip);

static std::vector<long> offsets_to_try()
{
	std::vector<long> v = {0, 4, -4, 8, -8};
	for (int bit = 2; (1l << bit) <= (long)INSN_REACH; bit++)
		for (long d : {-4l, 0l, 4l}) {
			v.push_back((1l << bit) + d);
			v.push_back(-(1l << bit) + d);
		}
	srand(1);
	for (int i = 0; i < 2000; i++)
		v.push_back(((long)rand() * 4 % (2 * (long)INSN_REACH)) - (long)INSN_REACH);
	return v;
}

TEST(patch, call_is_what_the_assembler_writes)
{
	std::string source;
	std::vector<u32> ours;
	for (long off : offsets_to_try()) {
		u32 insn;
		if (insn_call(0x40000000, 0x40000000 + off, HOOK_LINK, &insn))
			continue;
		ours.push_back(insn);
		source += ASSEMBLE_CALL + std::string(" . ") + (off < 0 ? "- " : "+ ") +
			  std::to_string(labs(off)) + "\n";
	}
	expect_assembled(source, ours);
}

TEST(patch, call_leaves_its_return_address_in_the_register_asked_for)
{
	std::string source;
	std::vector<u32> ours;
	for (unsigned link = 1; link < 31; link++) {
		u32 insn = 0;
		EXPECT_EQ(0, insn_call(0x40000000, 0x40000040, link, &insn));
		ours.push_back(insn);
#ifdef INSN_JAL
		source += "jal x" + std::to_string(link) + ", . + 0x40\n";
#else
		source += "bl . + 0x40\n";
#endif
	}
	expect_assembled(source, ours);
}

TEST(patch, nop_is_what_the_assembler_writes)
{
	expect_assembled("nop\n", {INSN_NOP});
}

TEST(patch, call_and_target_are_inverse)
{
	for (long off : offsets_to_try()) {
		u32 insn;
		unsigned long target;
		if (insn_call(0x40000000, 0x40000000 + off, HOOK_LINK, &insn))
			continue;
		ASSERT_TRUE(insn_call_target(0x40000000, insn, HOOK_LINK, &target));
		ASSERT_EQ(0x40000000 + off, (long)target);
	}
}

TEST(patch, last_word_in_reach_is_accepted_and_the_next_refused)
{
	unsigned long ip = 0x40000000;
	u32 insn;
	EXPECT_EQ(0, insn_call(ip, ip + INSN_REACH - 4, HOOK_LINK, &insn));
	EXPECT_EQ(-ERANGE, insn_call(ip, ip + INSN_REACH, HOOK_LINK, &insn));
	EXPECT_EQ(0, insn_call(ip, ip - INSN_REACH, HOOK_LINK, &insn));
	EXPECT_EQ(-ERANGE, insn_call(ip, ip - INSN_REACH - 4, HOOK_LINK, &insn));
	EXPECT_EQ(-ERANGE, insn_call(ip, 0, HOOK_LINK, &insn));
	EXPECT_EQ(-ERANGE, insn_call(ip, ~0ul << 31, HOOK_LINK, &insn));
}

TEST(patch, misaligned_is_refused)
{
	u32 insn;
	EXPECT_EQ(-EINVAL, insn_call(0x40000000, 0x40000002, HOOK_LINK, &insn));
	EXPECT_EQ(-EINVAL, insn_call(0x40000002, 0x40000006, HOOK_LINK, &insn));
	EXPECT_EQ(-EINVAL, insn_call(0x40000002, 0x40000004, HOOK_LINK, &insn));
	EXPECT_EQ(-EINVAL, insn_call(0x40000000, 0x40000000 + INSN_REACH - 2, HOOK_LINK, &insn));
}

TEST(patch, misaligned_and_out_of_reach_is_out_of_reach)
{
	unsigned long ip = 0x40000000;
	u32 insn;
	EXPECT_EQ(-ERANGE, insn_call(ip, ip + INSN_REACH + 2, HOOK_LINK, &insn));
	EXPECT_EQ(-ERANGE, insn_call(ip + 2, ip + 2 * INSN_REACH, HOOK_LINK, &insn));
	EXPECT_EQ(-ERANGE, insn_call(ip + 2, ip + 2 + 2 * INSN_REACH, HOOK_LINK, &insn));
}

TEST(patch, other_instructions_are_no_call)
{
	unsigned long target;
	for (u32 insn : assemble(ASSEMBLE_OTHERS))
		EXPECT_FALSE(insn_call_target(0x40000000, insn, HOOK_LINK, &target))
			<< std::hex << insn;
	EXPECT_FALSE(insn_call_target(0x40000000, 0, HOOK_LINK, &target));
	EXPECT_FALSE(insn_call_target(0x40000000, ~0u, HOOK_LINK, &target));
}

TEST(patch, an_error_leaves_the_word_alone)
{
	u32 insn = 0x12345678;
	EXPECT_EQ(-ERANGE, insn_call(0x40000000, 0x40000000 + INSN_REACH, HOOK_LINK, &insn));
	EXPECT_EQ(-EINVAL, insn_call(0x40000000, 0x40000002, HOOK_LINK, &insn));
	EXPECT_EQ(-EINVAL, insn_call(0x40000002, 0x40000004, HOOK_LINK, &insn));
	EXPECT_WORD(0x12345678u, insn);
}

struct site : testing::Test {
	struct dyn_ftrace *rec;
	unsigned long ip, stub = ftrace_stub_addr(FAKE_STUBS, 2);
	u32 call;

	void SetUp() override
	{
		fake_reset();
		rec = fake_record(0x1000 + HOOK_ENTRY_OFFSET, "f");
		ip = ftrace_ip(rec);
		fake_scribble(ip, INSN_NOP);
		ASSERT_EQ(0, insn_call(ip, stub, HOOK_LINK, &call));
	}
};

TEST_F(site, make_call_then_make_nop_restores_text)
{
	ftrace_batch_begin();
	EXPECT_EQ(0, ftrace_make_call(rec, stub));
	EXPECT_WORD(call, fake_word(ip));
	EXPECT_EQ(0, ftrace_make_nop(rec, stub));
	EXPECT_WORD(INSN_NOP, fake_word(ip));
	ftrace_batch_end();
}

TEST_F(site, a_batch_is_one_alias_and_one_synchronisation)
{
	ftrace_batch_begin();
	for (int i = 0; i < 100; i++) {
		ASSERT_EQ(0, ftrace_make_call(rec, stub));
		ASSERT_EQ(0, ftrace_make_nop(rec, stub));
	}
	ftrace_batch_end();
	EXPECT_EQ(1, fake_opens);
	EXPECT_EQ(1, fake_syncs);
	EXPECT_FALSE(fake_open_at_sync);
	EXPECT_FALSE(fake_preemptible_at_sync)
		<< "the CPU that wrote must synchronise the others: preemption is on again only "
		   "after arch_sync_all()";
}

TEST_F(site, make_call_refuses_a_foreign_word)
{
	fake_scribble(ip, 0x12345678);
	ftrace_batch_begin();
	EXPECT_EQ(-EINVAL, ftrace_make_call(rec, stub));
	ftrace_batch_end();
	EXPECT_WORD(0x12345678u, fake_word(ip));
}

TEST_F(site, make_call_refuses_a_call)
{
	ftrace_batch_begin();
	EXPECT_EQ(0, ftrace_make_call(rec, stub));
	EXPECT_EQ(-EINVAL, ftrace_make_call(rec, stub));
	EXPECT_EQ(-EINVAL, ftrace_make_call(rec, stub + FTRACE_STUB_SIZE));
	ftrace_batch_end();
	EXPECT_WORD(call, fake_word(ip));
}

TEST_F(site, make_nop_refuses_a_call_to_somebody_else)
{
	u32 other;
	ASSERT_EQ(0, insn_call(ip, stub + FTRACE_STUB_SIZE, HOOK_LINK, &other));
	fake_scribble(ip, other);
	ftrace_batch_begin();
	EXPECT_EQ(-EINVAL, ftrace_make_nop(rec, stub));
	ftrace_batch_end();
	EXPECT_WORD(other, fake_word(ip));
}

TEST_F(site, make_nop_refuses_a_nop)
{
	ftrace_batch_begin();
	EXPECT_EQ(-EINVAL, ftrace_make_nop(rec, stub));
	ftrace_batch_end();
}

TEST_F(site, modify_call_changes_only_the_call_it_knows)
{
	unsigned long other = stub + FTRACE_STUB_SIZE;
	unsigned long target;
	ftrace_batch_begin();
	EXPECT_EQ(-EINVAL, ftrace_modify_call(rec, stub, other));
	EXPECT_EQ(0, ftrace_make_call(rec, stub));
	EXPECT_EQ(-EINVAL, ftrace_modify_call(rec, other, stub));
	EXPECT_EQ(0, ftrace_modify_call(rec, stub, other));
	ftrace_batch_end();
	ASSERT_TRUE(insn_call_target(ip, fake_word(ip), HOOK_LINK, &target));
	EXPECT_EQ(other, target);
}

TEST_F(site, nothing_is_written_outside_of_a_batch)
{
	ftrace_batch_begin();
	ftrace_batch_end();
	ASSERT_EQ(-EFAULT, ftrace_make_nop(rec, stub))
		<< "after the end of the batch `open` must be 0";
	EXPECT_EQ(-EFAULT, ftrace_modify_call(rec, stub, stub + FTRACE_STUB_SIZE));
	EXPECT_EQ(-EFAULT, ftrace_init_nop(rec));
	EXPECT_EQ(-EFAULT, ftrace_update_ftrace_func((ftrace_func_t)(FAKE_CALL + 4096)));
	EXPECT_EQ(-EFAULT, ftrace_make_call(rec, stub));
	EXPECT_WORD(INSN_NOP, fake_word(ip));
}

TEST_F(site, without_a_batch_the_error_is_the_same_for_a_target_out_of_reach)
{
	EXPECT_EQ(-EFAULT, ftrace_make_call(rec, 0));
	EXPECT_EQ(-EFAULT, ftrace_make_nop(rec, 0));
	EXPECT_EQ(-EFAULT, ftrace_modify_call(rec, 0, stub));
	EXPECT_EQ(-EFAULT, ftrace_modify_call(rec, stub, 0));
	EXPECT_EQ(-EFAULT, ftrace_update_ftrace_func(nullptr));
}

TEST_F(site, text_write_writes_all_words_or_none)
{
	struct text_word words[2] = {{ip, INSN_NOP, call}, {ip + 4, 0x1234, INSN_NOP}};

	fake_scribble(ip + 4, 0x4321);
	ftrace_batch_begin();
	EXPECT_EQ(-EINVAL, text_write(words, 2));
	ftrace_batch_end();
	EXPECT_WORD(INSN_NOP, *(u32 *)ip)
		<< "the second word was another one, so the first must stay";
	fake_scribble(ip + 4, 0x1234);
	ftrace_batch_begin();
	EXPECT_EQ(0, text_write(words, 2));
	ftrace_batch_end();
	EXPECT_WORD(call, *(u32 *)ip);
	EXPECT_WORD(INSN_NOP, *(u32 *)(ip + 4));
}

TEST_F(site, a_record_outside_of_text_is_refused)
{
	struct dyn_ftrace *outside = fake_record(FAKE_TEXT_SIZE, "data");
	ftrace_batch_begin();
	EXPECT_EQ(-EFAULT, ftrace_make_call(outside, stub));
	EXPECT_EQ(-EFAULT, ftrace_make_nop(outside, stub));
	EXPECT_EQ(-EFAULT, ftrace_modify_call(outside, stub, 0));
	EXPECT_EQ(-EFAULT, ftrace_init_nop(outside));
	ftrace_batch_end();
}

TEST_F(site, a_stub_out_of_reach_is_refused)
{
	ftrace_batch_begin();
	EXPECT_EQ(-ERANGE, ftrace_make_call(rec, ip + INSN_REACH));
	ftrace_batch_end();
	EXPECT_WORD(INSN_NOP, fake_word(ip));
}

TEST_F(site, out_of_reach_is_found_before_the_word_is_compared)
{
	fake_scribble(ip, 0x12345678);
	fake_scribble(FAKE_CALL, 0x12345678);
	ftrace_batch_begin();
	EXPECT_EQ(-ERANGE, ftrace_make_call(rec, ip + INSN_REACH));
	EXPECT_EQ(-ERANGE, ftrace_modify_call(rec, stub, ip + INSN_REACH));
	EXPECT_EQ(-ERANGE, ftrace_update_ftrace_func((ftrace_func_t)(FAKE_CALL + INSN_REACH)));
	ftrace_batch_end();
	EXPECT_WORD(0x12345678u, fake_word(ip));
	EXPECT_WORD(0x12345678u, fake_word(FAKE_CALL));
}

/* No instruction can call it, so no word of text is that call. */
TEST_F(site, a_former_stub_out_of_reach_is_refused)
{
	fake_scribble(ip, 0);
	ftrace_batch_begin();
	EXPECT_EQ(-ERANGE, ftrace_make_nop(rec, ip + INSN_REACH));
	EXPECT_EQ(-ERANGE, ftrace_modify_call(rec, ip + INSN_REACH, stub));
	ftrace_batch_end();
	EXPECT_WORD(0u, fake_word(ip));
}

TEST_F(site, init_nop_takes_what_the_compiler_left_and_nothing_else)
{
	std::vector<u32> left = compiler_leaves(ip);
	for (size_t i = 0; i < left.size(); i++)
		fake_scribble(ip - 4 * (left.size() - 1 - i), left[i]);
	ftrace_batch_begin();
	EXPECT_EQ(0, ftrace_init_nop(rec));
	EXPECT_WORD(INSN_NOP, fake_word(ip));
#if defined(HOOK_BEFORE)
	EXPECT_WORD(HOOK_REWRITES ? HOOK_BEFORE : 0u, fake_word(ip - 4));
#endif
	ftrace_batch_end();
	fake_scribble(ip, 0x12345678);
	ftrace_batch_begin();
	EXPECT_EQ(-EINVAL, ftrace_init_nop(rec));
	ftrace_batch_end();
	EXPECT_WORD(0x12345678u, fake_word(ip));
}

TEST_F(site, init_nop_that_refuses_the_site_leaves_the_word_before_it)
{
	std::vector<u32> left = compiler_leaves(ip);
	u32 before = left.size() > 1 ? left[0] : 0x87654321;
	fake_scribble(ip - 4, before);
	fake_scribble(ip, 0x12345678);
	ftrace_batch_begin();
	EXPECT_EQ(-EINVAL, ftrace_init_nop(rec));
	ftrace_batch_end();
	EXPECT_WORD(before, fake_word(ip - 4));
}

TEST_F(site, update_ftrace_func_refuses_what_is_no_call)
{
	fake_scribble(FAKE_CALL, INSN_NOP);
	ftrace_batch_begin();
	EXPECT_EQ(-EINVAL, ftrace_update_ftrace_func((ftrace_func_t)(FAKE_CALL + 4096)));
	ftrace_batch_end();
	EXPECT_WORD(INSN_NOP, fake_word(FAKE_CALL));
}

TEST_F(site, update_ftrace_func_names_another_tracer_by_a_plain_call)
{
	unsigned long target;
	u32 plain;
	ASSERT_EQ(0, insn_call(FAKE_CALL, FAKE_CALL + 64, CALL_LINK, &plain));
	fake_scribble(FAKE_CALL, plain);
	ftrace_batch_begin();
	EXPECT_EQ(0, ftrace_update_ftrace_func((ftrace_func_t)(FAKE_CALL + 4096)));
	ftrace_batch_end();
	ASSERT_TRUE(insn_call_target(FAKE_CALL, fake_word(FAKE_CALL), CALL_LINK, &target));
	EXPECT_EQ(FAKE_CALL + 4096, target);
}
