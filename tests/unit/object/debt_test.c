/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A context that is closed in a thread of its own: what else may be gone while that is waited for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "shiftlib/nic/nic.h"
#include "shiftlib/object/debt.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"

#define NICS 2

static void thread_inside(void)
{
}

static const struct shift_real real = { .thread_inside = thread_inside };

struct sh_process sh = {
	.idle = PTHREAD_COND_INITIALIZER,
	.real = &real,
	.config.hang.command_ns = 3600 * SH_NS_PER_S,
};

static struct sh_nic nics[NICS];
static struct sh_ctx *ctx;
static struct sh_job *submitted;
static int looks, done_at, sick_at; /* so many looks from the start */

/* ---- the rest of the shell ------------------------------------------------------------------ */

bool sh_ctx_masked(const struct sh_ctx *of)
{
	return false;
}

void sh_jobs_hurry(const struct sh_busy *busy)
{
}

bool sh_nic_prompt(const struct sh_nic *nic)
{
	return true;
}

bool sh_nic_up(const struct sh_nic *nic)
{
	return true;
}

void sh_nics_try(struct sh_nic *const *of, uint32_t n)
{
}

uint64_t sh_worker_busy_since_ns(const struct sh_worker *worker)
{
	return 0;
}

struct sh_worker *sh_worker_start(const char *name)
{
	return (struct sh_worker *)&nics; /* any */
}

int sh_worker_submit(struct sh_worker *worker, struct sh_job *job)
{
	submitted = job;
	return 0;
}

static void *worker(void *arg)
{
	submitted->fn(submitted);
	submitted->done(submitted);
	return NULL;
}

static void job_run(void)
{
	pthread_t thread;

	sh_unlock();
	assert_int_equal(pthread_create(&thread, NULL, worker, NULL), 0);
	pthread_join(thread, NULL);
	sh_lock();
}

/* The first part of a close, behind which the background thread frees the context. */
static void ctx_bury(void)
{
	static void *(*volatile set)(void *, int, size_t) = memset;

	set(ctx, 0x5a, sizeof(*ctx));
	free(ctx);
	ctx = NULL;
}

/* The lock is given up: so the others get on. */
void sh_wait_some(uint64_t ns)
{
	if (++looks == 1)
		ctx_bury();
	if (looks == sick_at)
		nics[NICS - 1].sick = true;
	if (looks == done_at)
		job_run();
}

/* ---- the program ---------------------------------------------------------------------------- */

static int close_fails(void *object)
{
	errno = EBUSY;
	return *(int *)object;
}

static int begin(void **state)
{
	memset(nics, 0, sizeof(nics));
	looks = done_at = sick_at = 0;
	ctx = calloc(1, sizeof(*ctx));
	ctx->nic = &nics[0];
	for (ctx->n_paths = 0; ctx->n_paths < NICS; ctx->n_paths++)
		ctx->path[ctx->n_paths] = &nics[ctx->n_paths];
	sh_lock();
	return 0;
}

static int end(void **state)
{
	sh_unlock();
	return 0;
}

static void a_close_outlives_its_context(void **state)
{
	int result = 7;

	done_at = 3;
	assert_int_equal(sh_debt_defer(ctx, close_fails, &result, true), 7);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(looks, 3);
}

/* Then it is left to its thread, which frees what it has. */
static void a_nic_hangs_behind_its_context(void **state)
{
	int result = 7;

	sick_at = 3;
	assert_int_equal(sh_debt_defer(ctx, close_fails, &result, true), 0);
	assert_int_equal(looks, 3);
	job_run();
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_close_outlives_its_context),
		T(a_nic_hangs_behind_its_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
