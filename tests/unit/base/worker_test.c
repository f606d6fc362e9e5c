/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The worker: order, laziness, signals, and what happens when a command hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <pthread.h>
#include <cmocka.h>

#include "shiftlib/base/thread.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"

#define JOBS	 64
#define PATIENCE (60 * SH_NS_PER_S) /* for what must come; only a hang takes so long */

struct test_job {
	struct sh_job job;
	int number;
	struct sh_worker *worker;
	sem_t started, go;
	sigset_t mask;
	int submitted;
	atomic_int n_fn, n_done, n_canceled;
};

static int order[JOBS + 1], n_order;

static void job_note(struct sh_job *job)
{
	struct test_job *test = (struct test_job *)job;

	order[n_order++] = test->number;
	atomic_fetch_add(&test->n_fn, 1);
}

static void job_wait(struct sh_job *job)
{
	struct test_job *test = (struct test_job *)job;

	sem_post(&test->started);
	while (sem_wait(&test->go))
		;
	atomic_fetch_add(&test->n_fn, 1);
}

static void job_done(struct sh_job *job)
{
	struct test_job *test = (struct test_job *)job;

	atomic_fetch_add(job->canceled ? &test->n_canceled : &test->n_done, 1);
}

static void job_init(struct test_job *test, void (*fn)(struct sh_job *), bool urgent, int number)
{
	memset(test, 0, sizeof(*test));
	test->job = (struct sh_job){ .fn = fn, .done = job_done, .urgent = urgent };
	test->number = number;
	sem_init(&test->started, 0, 0);
	sem_init(&test->go, 0, 0);
}

static int count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void urgent_first_then_in_order(void **state)
{
	static struct test_job jobs[JOBS], gate;
	struct sh_worker *worker = sh_worker_start("order");
	int i;

	n_order = 0;
	job_init(&gate, job_wait, false, -1);
	assert_int_equal(sh_worker_submit(worker, &gate.job), 0);
	sem_wait(&gate.started);
	for (i = 0; i < JOBS; i++) {
		job_init(&jobs[i], job_note, i % 3 == 0, i);
		jobs[i].job.patient = i % 4 == 1; /* it naps, and overtakes nobody */
		assert_int_equal(sh_worker_submit(worker, &jobs[i].job), 0);
	}
	sem_post(&gate.go);
	assert_int_equal(sh_worker_stop(worker, PATIENCE), 0);
	assert_int_equal(n_order, JOBS);
	for (i = 1; i < JOBS; i++) {
		bool before = order[i - 1] % 3 == 0, now = order[i] % 3 == 0;

		assert_true(before || !now);
		assert_true(before != now || order[i - 1] < order[i]);
	}
	for (i = 0; i < JOBS; i++)
		assert_int_equal(jobs[i].n_done, 1);
}

/* Neither the first nor the last in line is special, and what has begun cannot be taken back. */
static void withdrawn_is_not_run(void **state)
{
	static struct test_job jobs[5], urgent[2], late, gate;
	static const int ran[] = { 11, 1, 3, 5 };
	struct sh_worker *worker = sh_worker_start("back");
	int i;

	n_order = 0;
	job_init(&gate, job_wait, true, -1);
	assert_int_equal(sh_worker_submit(worker, &gate.job), 0);
	sem_wait(&gate.started);
	for (i = 0; i < 5; i++) {
		job_init(&jobs[i], job_note, false, i);
		jobs[i].job.patient = i > 2;
	}
	for (i = 0; i < 2; i++)
		job_init(&urgent[i], job_note, true, 10 + i);
	job_init(&late, job_note, false, 5);
	for (i = 0; i < 5; i++)
		assert_int_equal(sh_worker_submit(worker, &jobs[i].job), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(sh_worker_submit(worker, &urgent[i].job), 0);
	assert_false(sh_worker_withdraw(worker, &gate.job));
	assert_false(sh_worker_withdraw(worker, &late.job));
	for (i = 0; i < 5; i += 2)
		assert_true(sh_worker_withdraw(worker, &jobs[i].job));
	assert_true(sh_worker_withdraw(worker, &urgent[0].job));
	assert_false(sh_worker_withdraw(worker, &urgent[0].job));
	assert_int_equal(sh_worker_submit(worker, &late.job), 0);
	sem_post(&gate.go);
	assert_int_equal(sh_worker_stop(worker, PATIENCE), 0);
	assert_int_equal(n_order, 4);
	assert_memory_equal(order, ran, sizeof(ran));
	assert_int_equal(jobs[0].n_done + jobs[2].n_done + jobs[4].n_done + urgent[0].n_done, 0);
}

static void job_post(struct sh_job *job)
{
	sem_post(&((struct test_job *)job)->started);
}

/*
 * A patient job may find the worker asleep, about to nap, in its nap or at its end: the pauses, from
 * none to longer than a nap, go through these. One that was forgotten would never post.
 */
static void patient_is_not_forgotten(void **state)
{
	struct sh_worker *worker = sh_worker_start("patient");
	struct test_job job, hasty;
	int i;

	for (i = 0; i < 400; i++) {
		job_init(&job, job_post, false, i);
		job_init(&hasty, job_post, i % 2, i);
		job.job.patient = true;
		usleep((unsigned)(i % 10) * (unsigned)(SH_WORKER_NAP_NS / SH_NS_PER_US / 8));
		assert_int_equal(sh_worker_submit(worker, &job.job), 0);
		if (i % 3 == 0)
			sh_worker_hurry(worker);
		if (i % 5 == 0)
			assert_int_equal(sh_worker_submit(worker, &hasty.job), 0);
		sem_wait(&job.started);
		if (i % 5 == 0)
			sem_wait(&hasty.started);
		while (atomic_load(&job.n_done) + atomic_load(&hasty.n_done) < 1 + (i % 5 == 0))
			sched_yield();
	}
	assert_int_equal(sh_worker_stop(worker, PATIENCE), 0);
}

struct place {
	struct test_job test;
	pid_t thread;
};

static void job_place(struct sh_job *job)
{
	((struct place *)job)->thread = (pid_t)syscall(SYS_gettid);
	job_post(job);
}

/* How often a thread of this process has fallen asleep. */
static long sleeps_of(pid_t thread)
{
	char path[64], line[128];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)thread);
	f = fopen(path, "re");
	assert_non_null(f);
	while (n < 0 && fgets(line, sizeof(line), f))
		(void)sscanf(line, "voluntary_ctxt_switches: %ld", &n);
	fclose(f);
	assert_true(n >= 0);
	return n;
}

static void run_once(struct sh_worker *worker, struct place *place)
{
	job_init(&place->test, job_place, false, 0);
	assert_int_equal(sh_worker_submit(worker, &place->test.job), 0);
	sem_wait(&place->test.started);
	while (!atomic_load(&place->test.n_done))
		sched_yield();
	usleep(150000); /* a nap would be over by then, and the next job is a lone one */
}

/*
 * Behind a lone job that is not patient the thread sleeps once, and does not nap: the end of the nap
 * would wake an idle process for nothing.
 */
static void lone_is_followed_by_no_nap(void **state)
{
	enum { N = 10 };
	struct sh_worker *worker = sh_worker_start("naps");
	static struct place place;
	long before;
	int i;

	run_once(worker, &place);
	before = sleeps_of(place.thread);
	for (i = 0; i < N; i++)
		run_once(worker, &place);
	assert_true(sleeps_of(place.thread) - before < N + N / 2);
	assert_int_equal(sh_worker_stop(worker, PATIENCE), 0);
}

static void job_mask(struct sh_job *job)
{
	pthread_sigmask(SIG_SETMASK, NULL, &((struct test_job *)job)->mask);
}

static void lazy_and_signals_blocked(void **state)
{
	int before = count_threads();
	struct sh_worker *worker = sh_worker_start("a name that is longer than fifteen");
	struct test_job test;

	assert_int_equal(count_threads(), before);
	job_init(&test, job_mask, false, 0);
	assert_int_equal(sh_worker_submit(worker, &test.job), 0);
	assert_int_equal(sh_worker_stop(worker, PATIENCE), 0);
	assert_int_equal(sigismember(&test.mask, SIGTERM), 1);
	assert_int_equal(sigismember(&test.mask, SIGALRM), 1);
	assert_int_equal(sigismember(&test.mask, SIGUSR1), 1);
	worker = sh_worker_start("idle");
	assert_int_equal(sh_worker_stop(worker, 0), 0);
}

static void busy_since(void **state)
{
	struct sh_worker *worker = sh_worker_start("busy");
	uint64_t before = sh_now_ns();
	struct test_job test;

	assert_int_equal(sh_worker_busy_since_ns(worker), 0);
	job_init(&test, job_wait, false, 0);
	assert_int_equal(sh_worker_submit(worker, &test.job), 0);
	sem_wait(&test.started);
	assert_true(sh_worker_busy_since_ns(worker) >= before);
	assert_true(sh_worker_busy_since_ns(worker) <= sh_now_ns());
	sem_post(&test.go);
	while (sh_worker_busy_since_ns(worker) || !atomic_load(&test.n_done))
		usleep(1000);
	assert_int_equal(test.n_done, 1);
	assert_int_equal(sh_worker_stop(worker, PATIENCE), 0);
}

static void done_again(struct sh_job *job)
{
	struct test_job *test = (struct test_job *)job;

	if (atomic_fetch_add(&test->n_done, 1) < 9)
		assert_int_equal(sh_worker_submit(test->worker, job), 0);
	else
		sem_post(&test->started);
}

static void again_from_done(void **state)
{
	struct test_job test;

	job_init(&test, job_note, true, 0);
	test.job.done = done_again;
	test.worker = sh_worker_start("again");
	n_order = 0;
	assert_int_equal(sh_worker_submit(test.worker, &test.job), 0);
	sem_wait(&test.started);
	assert_int_equal(test.n_fn, 10);
	assert_int_equal(sh_worker_stop(test.worker, PATIENCE), 0);
}

static void job_submit_late(struct sh_job *job)
{
	static struct sh_job late = { .fn = job_note };
	struct test_job *test = (struct test_job *)job;

	job_wait(job);
	test->submitted = sh_worker_submit(test->worker, &late);
}

static void *release_later(void *arg)
{
	usleep(20000);
	sem_post(arg);
	return NULL;
}

static void no_jobs_while_stopping(void **state)
{
	struct test_job test;
	pthread_t thread;

	job_init(&test, job_submit_late, false, 0);
	test.worker = sh_worker_start("late");
	assert_int_equal(sh_worker_submit(test.worker, &test.job), 0);
	sem_wait(&test.started);
	assert_int_equal(pthread_create(&thread, NULL, release_later, &test.go), 0);
	assert_int_equal(sh_worker_stop(test.worker, PATIENCE), 0);
	pthread_join(thread, NULL);
	/* -ESHUTDOWN unless the job ran before stop began, which a loaded machine may do. */
	assert_true(test.submitted == -ESHUTDOWN || test.submitted == 0);
	assert_int_equal(test.n_done, 1);
}

static void hung_is_left_behind(void **state)
{
	static struct test_job hung, urgent, background, patient;
	struct sh_worker *worker = sh_worker_start("hung");
	int threads = count_threads();

	job_init(&hung, job_wait, true, 0);
	job_init(&urgent, job_note, true, 1);
	job_init(&background, job_note, false, 2);
	job_init(&patient, job_note, false, 3);
	patient.job.patient = true;
	assert_int_equal(sh_worker_submit(worker, &hung.job), 0);
	sem_wait(&hung.started);
	assert_int_equal(sh_worker_submit(worker, &background.job), 0);
	assert_int_equal(sh_worker_submit(worker, &urgent.job), 0);
	assert_int_equal(sh_worker_submit(worker, &patient.job), 0);
	assert_int_equal(sh_worker_stop(worker, 20 * SH_NS_PER_MS), -ETIMEDOUT);
	assert_int_equal(urgent.n_canceled + background.n_canceled + patient.n_canceled, 3);
	assert_int_equal(urgent.n_done + background.n_done + patient.n_done, 0);
	sem_post(&hung.go);
	while (count_threads() > threads)
		usleep(1000);
	assert_int_equal(hung.n_fn, 1);
	assert_int_equal(hung.n_done + hung.n_canceled, 0);
	assert_int_equal(urgent.n_fn + background.n_fn + patient.n_fn, 0);
}

struct greedy {
	bool gave_way, urgent_again;
	double share; /* of a core, that it got until it gave way */
};

/* One that never rests gives way, and is urgent again once it rests: it says so, and its nice value does. */
static void *greedy_main(void *arg)
{
	const struct timespec nap = { .tv_nsec = 10000000 };
	struct greedy *greedy = arg;
	uint64_t begun = sh_now_ns();
	struct timespec used;
	int urgent, ordinary;

	sh_thread_urgent();
	urgent = getpriority(PRIO_PROCESS, 0);
	while (sh_thread_fair() && sh_now_ns() < begun + PATIENCE / 6)
		;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	greedy->share =
		((double)used.tv_sec * 1e9 + (double)used.tv_nsec) / (double)(sh_now_ns() - begun);
	ordinary = getpriority(PRIO_PROCESS, 0);
	/* who may not be urgent stays as he is */
	greedy->gave_way = !sh_thread_fair() && ordinary == (urgent < 0 ? 0 : urgent);
	begun = sh_now_ns();
	while (!sh_thread_fair() && sh_now_ns() < begun + PATIENCE)
		nanosleep(&nap, NULL);
	greedy->urgent_again = sh_thread_fair() && getpriority(PRIO_PROCESS, 0) == urgent;
	return NULL;
}

static void greedy_gives_way(void **state)
{
	struct greedy greedy = { 0 };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, greedy_main, &greedy), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (!greedy.gave_way && greedy.share < 0.5) {
		print_message("other work leaves it %.0f %% of a core: it is not greedy here\n",
			      100 * greedy.share);
		skip();
	}
	assert_true(greedy.gave_way && greedy.urgent_again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urgent_first_then_in_order),
		cmocka_unit_test(withdrawn_is_not_run),
		cmocka_unit_test(lazy_and_signals_blocked),
		cmocka_unit_test(patient_is_not_forgotten),
		cmocka_unit_test(lone_is_followed_by_no_nap),
		cmocka_unit_test(busy_since),
		cmocka_unit_test(again_from_done),
		cmocka_unit_test(no_jobs_while_stopping),
		cmocka_unit_test(hung_is_left_behind),
		cmocka_unit_test(greedy_gives_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
