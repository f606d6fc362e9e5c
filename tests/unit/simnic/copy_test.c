/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Copies of payload, looked at between any two instructions: a child copies, and its parent steps
 * it and reads its memory. No word of 8 bytes is ever there in part.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "simnic/device/copy.h"
#include "tests/lib/fork.h"

#define ROOM	  256
#define WORDS	  (ROOM / 8)
#define MOST	  (ROOM - 16)
#define STEPS_MAX 2000000
#define ONES	  0x0101010101010101ULL

/* What the child copies, and what its parent makes of each step. */
struct copied {
	uint32_t from, to, len;
	bool out; /* sn_copy_out(); else sn_copy_pieces() */
};

/* One mapping for both processes: the parent looks by plain loads. */
static struct shared {
	uint64_t src[WORDS], dst[WORDS];
} * shared;

static void copy(const struct copied *c)
{
	struct iovec dst = { (uint8_t *)shared->dst + c->to, c->len };
	struct iovec src = { (uint8_t *)shared->src + c->from, c->len };

	if (c->out)
		sn_copy_out(dst.iov_base, &src, 1, c->len);
	else
		sn_copy_pieces(&dst, 1, &src, 1, c->len);
}

static pid_t child_begin(const struct copied *c)
{
	pid_t pid = test_fork();
	int status;

	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(2);
		raise(SIGSTOP);
		copy(c);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(pid, waitpid(pid, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
		print_message("this machine lets no process trace its child\n");
		skip();
	}
	assert_true(WIFSTOPPED(status));
	return pid;
}

/* False: it has ended. */
static bool child_step(pid_t pid)
{
	int status;

	assert_int_equal(0, ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL));
	assert_int_equal(pid, waitpid(pid, &status, 0));
	if (WIFSTOPPED(status))
		return true;
	assert_true(WIFEXITED(status));
	assert_int_equal(0, WEXITSTATUS(status));
	return false;
}

/* Words of which all bytes are copied. */
static bool is_inside(uint32_t word, uint32_t begin, uint32_t len)
{
	return word * 8 >= begin && word * 8 + 8 <= begin + len;
}

static void expect_whole(const struct copied *c)
{
	for (uint32_t i = 0; i < WORDS; i++) {
		uint64_t v = __atomic_load_n(&shared->dst[i], __ATOMIC_ACQUIRE);

		if (is_inside(i, c->to, c->len) && v != 0 && v != 0x77 * ONES)
			fail_msg("from %u to %u, %u bytes: word %u is 0x%llx", c->from, c->to,
				 c->len, i, (unsigned long long)v);
	}
}

/* Memory that a program polls: each word is the old one or the new one, after each instruction. */
static void stores_whole_words(void **state)
{
	struct copied c = { 0 };

	for (uint32_t i = 0; i < 24; i++) {
		uint32_t steps = 0;
		pid_t pid;

		c = (struct copied){ .from = i % 9, .to = i * 5 % 8, .len = 1 + i * 37 % MOST };
		memset(shared->src, 0x77, sizeof(shared->src));
		memset(shared->dst, 0, sizeof(shared->dst));
		pid = child_begin(&c);
		for (; child_step(pid); steps++) {
			assert_true(steps < STEPS_MAX);
			expect_whole(&c);
		}
		assert_memory_equal((uint8_t *)shared->src + c.from, (uint8_t *)shared->dst + c.to,
				    c.len);
	}
}

/* The word of the copy whose bytes were at an aligned place in the program's memory. */
static uint64_t copied_word(const struct copied *c, uint32_t word)
{
	uint64_t v;

	memcpy(&v, (uint8_t *)shared->dst + c->to + (word * 8 - c->from), sizeof(v));
	return v;
}

/* Memory that a program changes, whole words at a time, after each instruction. */
static void loads_whole_words(void **state)
{
	struct copied c = { .out = true };

	for (uint32_t i = 0; i < 24; i++) {
		uint32_t steps = 0;
		pid_t pid;

		c = (struct copied){
			.from = i * 5 % 8, .to = i % 9, .len = 1 + i * 37 % MOST, .out = true
		};
		pid = child_begin(&c);
		while (child_step(pid)) {
			assert_true(++steps < STEPS_MAX);
			for (uint32_t w = 0; w < WORDS; w++)
				__atomic_store_n(&shared->src[w], (steps & 0xff) * ONES,
						 __ATOMIC_RELEASE);
		}
		for (uint32_t w = 0; w < WORDS; w++)
			if (is_inside(w, c.from, c.len))
				assert_int_equal(copied_word(&c, w),
						 (copied_word(&c, w) & 0xff) * ONES);
	}
}

static void finds_what_is_not_mapped(void **state)
{
	uint8_t *mem =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov[2] = { { mem + 100, 3000 }, { mem + 4000, 200 } };

	assert_ptr_not_equal(MAP_FAILED, mem);
	assert_true(sn_copy_mapped(iov, 2));
	munmap(mem + 4096, 4096);
	assert_true(sn_copy_mapped(iov, 1));
	assert_false(sn_copy_mapped(iov, 2));
	munmap(mem, 3 * 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stores_whole_words),
		cmocka_unit_test(loads_whole_words),
		cmocka_unit_test(finds_what_is_not_mapped),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
