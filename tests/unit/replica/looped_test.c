/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A loopback QP's memory has whole pages to itself, whatever the machine's pages: those that are
 * registered are taken from a forked child (ibv_fork_init), with all that lies in them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "shiftlib/control/address.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/replica/real_qp.h"

enum { BYTES = 100, DEPTH = 4 };

long __real_sysconf(int name);
long __wrap_sysconf(int name);
int __real_posix_memalign(void **at, size_t alignment, size_t size);
int __wrap_posix_memalign(void **at, size_t alignment, size_t size);

static long page = 4096;
static size_t aligned, taken;

long __wrap_sysconf(int name)
{
	return name == _SC_PAGESIZE ? page : __real_sysconf(name);
}

int __wrap_posix_memalign(void **at, size_t alignment, size_t size)
{
	aligned = alignment;
	taken = size;
	return __real_posix_memalign(at, alignment, size);
}

/* What the memory is for is not there: that is enough of a QP. */
static struct ibv_mr *no_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	assert_int_equal((uintptr_t)addr % (uintptr_t)page, 0);
	assert_int_equal(length, BYTES);
	errno = ENOMEM;
	return NULL;
}

static struct ibv_cq *no_cq(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int vector)
{
	return NULL;
}

static struct ibv_qp *no_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	return NULL;
}

static void whole_pages(void **state)
{
	static const long pages[] = { 4096, 16384, 65536 };
	static const struct shift_real real = { .reg_mr = no_mr,
						.create_cq = no_cq,
						.create_qp = no_qp };
	static struct ibv_context context;
	struct ibv_pd pd = { .context = &context };
	struct sh_address own = { .lid = 1 };
	struct ibv_qp_attr limits = { .qp_access_flags = 0 };

	sh.real = &real;
	for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
		struct sh_looped looped = { .pd = NULL };

		page = pages[i];
		assert_false(sh_looped_make(&looped, &pd, BYTES, DEPTH, &own, &limits));
		assert_int_equal(aligned % (size_t)page, 0);
		assert_int_equal(taken % (size_t)page, 0);
		sh_looped_destroy(&looped);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(whole_pages) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
