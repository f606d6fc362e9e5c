/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Is it noticed that other memory was mapped at an address? By the kernel's call, where it has that, and by the text. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
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

static bool told_elsewhere(const char *from, size_t length)
{
	bool elsewhere = false;

	assert_int_equal(sh_mapped_told(from, length, &elsewhere),
			 sh_mapped_identity(from, length));
	return elsewhere;
}

/* Whatever the memory is, both questions have the answers that they have alone. */
static void both_questions_are_answered_at_once(void **state)
{
	int file = file_of(LENGTH);

	map_at(at, LENGTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_false(told_elsewhere(at, LENGTH));
	assert_false(told_elsewhere(at + 1, 1));
	assert_false(told_elsewhere(at, 0));
	assert_int_equal(mprotect(at + LENGTH - PAGE, PAGE, PROT_NONE), 0);
	assert_true(told_elsewhere(at, LENGTH));
	assert_false(told_elsewhere(at, LENGTH - PAGE));
	assert_int_equal(munmap(at, PAGE), 0);
	assert_true(told_elsewhere(at, 2 * PAGE));
	map_at(at, LENGTH, MAP_SHARED, file, 0);
	assert_false(told_elsewhere(at, LENGTH));
	assert_int_equal(mprotect(at, PAGE, PROT_NONE), 0);
	assert_true(told_elsewhere(at, LENGTH));
	close(file);
}

static int descriptors(bool below)
{
	struct rlimit limit;
	int n = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int fd = 0; fd < (int)limit.rlim_cur + 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0 && ((rlim_t)fd < limit.rlim_cur) == below;
	return n;
}

/* One may be kept, beyond the numbers that the program may have; a program may close it. */
static void no_descriptor_of_the_program_is_taken(void **state)
{
	struct rlimit limit;
	uint64_t identity;
	int below, above;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_cur < 256 ? limit.rlim_cur : 256;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	sh_mapped_forget();
	below = descriptors(true);
	above = descriptors(false);
	map_at(at, LENGTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	identity = sh_mapped_identity(at, LENGTH);
	for (int i = 0; i < 100; i++)
		assert_int_equal(sh_mapped_identity(at, LENGTH), identity);
	assert_int_equal(descriptors(true), below);
	assert_in_range(descriptors(false) - above, 0, 1);
	for (int fd = (int)limit.rlim_cur; fd < (int)limit.rlim_cur + 64; fd++)
		close(fd);
	assert_int_equal(sh_mapped_identity(at, LENGTH), identity);
	assert_int_equal(descriptors(true), below);
}

/* The child's memory counts in the child, whatever the parent has kept open. */
static void a_child_has_memory_of_its_own(void **state)
{
	int file = file_of(LENGTH), status;
	uint64_t before;
	pid_t child;

	map_at(at, LENGTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	before = sh_mapped_identity(at, LENGTH);
	child = fork();
	if (!child) {
		sh_mapped_forget();
		if (mmap(at, LENGTH, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, file, 0) != at)
			_exit(2);
		memset(at, 1, LENGTH);
		_exit(sh_mapped_identity(at, LENGTH) == before);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(sh_mapped_identity(at, LENGTH), before);
	close(file);
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
		cmocka_unit_test_setup(both_questions_are_answered_at_once, setup),
		cmocka_unit_test_setup(no_descriptor_of_the_program_is_taken, setup),
		cmocka_unit_test_setup(a_child_has_memory_of_its_own, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
