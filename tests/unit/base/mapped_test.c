/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Is it noticed that other memory was mapped at an address? By the kernel's call, where it has that, and by the text. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include "shiftlib/base/mapped.h"

enum { PAGE = 1 << 16, LENGTH = 8 * PAGE }; /* pages of every machine */

static char *at;

static void map_at(char *to, size_t length, int flags, int fd, off_t offset)
{
	assert_ptr_equal(mmap(to, length, PROT_READ | PROT_WRITE, MAP_FIXED | flags, fd, offset),
			 to);
	memset(to, 1, length);
}

static int file_of(size_t length)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	return fd;
}

struct both {
	uint64_t asked, text;
};

static struct both look_at(const char *from, size_t length)
{
	return (struct both){ sh_mapped_identity(from, length),
			      sh_mapped_identity_by_text(from, length) };
}

static struct both look(void)
{
	return look_at(at, LENGTH);
}

static void expect_same(struct both a, struct both b)
{
	assert_int_equal(a.asked, b.asked);
	assert_int_equal(a.text, b.text);
}

/* What the text tells of private memory is told by the kernel's call alone, or not at all. */
static void expect_other(struct both a, struct both b)
{
	assert_int_not_equal(a.text, b.text);
	assert_true(a.asked != b.asked || !a.asked);
}

static void shared_memory_is_known_again(void **state)
{
	int one = file_of(2 * LENGTH), two = file_of(LENGTH);
	struct both before, there;

	map_at(at, LENGTH, MAP_SHARED, one, 0);
	before = look();
	assert_true(before.asked && before.text);
	expect_same(before, look());
	map_at(at, LENGTH, MAP_SHARED, one, LENGTH);
	expect_other(before, look());
	map_at(at, LENGTH, MAP_SHARED, two, 0);
	expect_other(before, look());
	map_at(at, LENGTH, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	there = look();
	expect_other(before, there);
	map_at(at, LENGTH, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	expect_other(there, look());
	map_at(at, LENGTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_not_equal(before.text, look().text);
	assert_int_not_equal(before.asked, look().asked);
	map_at(at, LENGTH, MAP_SHARED, one, 0);
	expect_same(before, look());
	close(one);
	close(two);
}

/* A part of it counts, wherever it is; what lies beside it does not. */
static void one_page_in_the_middle_counts(void **state)
{
	int one = file_of(LENGTH), two = file_of(LENGTH);
	struct both before, beside;

	map_at(at, LENGTH, MAP_SHARED, one, 0);
	before = look();
	beside = look_at(at + 100, 3 * PAGE);
	map_at(at + 5 * PAGE, PAGE, MAP_SHARED, two, 0);
	expect_other(before, look());
	expect_same(beside, look_at(at + 100, 3 * PAGE));
	assert_int_equal(munmap(at + 5 * PAGE, PAGE), 0);
	expect_other(before, look());
	close(one);
	close(two);
}

/* The kernel splits and merges mappings as it likes. */
static void rights_and_neighbours_do_not_count(void **state)
{
	int one = file_of(LENGTH);
	struct both before;

	map_at(at, LENGTH, MAP_SHARED, one, 0);
	before = look();
	assert_int_equal(mprotect(at + PAGE, PAGE, PROT_READ), 0);
	expect_same(before, look());
	map_at(at, LENGTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	before = look();
	assert_int_equal(madvise(at + PAGE, PAGE, MADV_DONTFORK), 0);
	expect_same(before, look());
	close(one);
}

static void nothing_is_known_of_no_memory(void **state)
{
	assert_int_equal(sh_mapped_identity(at, 0), 0);
	assert_int_equal(sh_mapped_identity((void *)UINTPTR_MAX, 2), 0);
}

static void memory_that_the_process_cannot_read_is_elsewhere(void **state)
{
	map_at(at, LENGTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_false(sh_mapped_elsewhere(at, LENGTH));
	assert_false(sh_mapped_elsewhere(at, 0));
	errno = 0;
	assert_int_equal(mprotect(at + LENGTH - PAGE, PAGE, PROT_NONE), 0);
	assert_true(sh_mapped_elsewhere(at, LENGTH));
	assert_false(sh_mapped_elsewhere(at, LENGTH - PAGE));
	assert_true(sh_mapped_elsewhere(at + LENGTH - PAGE, PAGE));
	assert_int_equal(errno, 0);
}

static int setup(void **state)
{
	at = mmap(NULL, LENGTH + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	at += PAGE;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(shared_memory_is_known_again, setup),
		cmocka_unit_test_setup(one_page_in_the_middle_counts, setup),
		cmocka_unit_test_setup(rights_and_neighbours_do_not_count, setup),
		cmocka_unit_test_setup(nothing_is_known_of_no_memory, setup),
		cmocka_unit_test_setup(memory_that_the_process_cannot_read_is_elsewhere, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
