/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Words of the log, of who receives. No two carriers may have one word and one tag, whatever processes they are of: the
 * one would be told what ran on the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "shiftlib/base/list.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/wqelog/log_words.h"
#include "shiftlib/conn/wqelog/wqe_log.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/settle.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/memory.h"
#include "tests/lib/fork.h"

enum { QPS = 4, EPOCH = 5, CONNECTION = 77, RAN = 1234 };

static struct sh_qp qps[QPS];
static struct sh_pd pd;
static struct ibv_pd real_pd;
static struct ibv_qp real_qp = { .pd = &real_pd };
static struct ibv_mr real_mr = { .rkey = 0x1100 };
static struct shift_real real;
static struct sh_nic nic;
static struct sh_wire_log told;

void __wrap_sh_messages_send_log(struct sh_qp *to, const struct sh_wire_log *log);
void __wrap_sh_messages_send_log(struct sh_qp *to, const struct sh_wire_log *log)
{
	(void)to;
	told = *log;
}

static struct sh_job *submitted;

int __wrap_sh_worker_submit(struct sh_worker *worker, struct sh_job *job);
int __wrap_sh_worker_submit(struct sh_worker *worker, struct sh_job *job)
{
	(void)worker;
	assert_null(submitted);
	submitted = job;
	return 0;
}

static void thread_inside(void)
{
}

static struct ibv_mr *reg_mr(struct ibv_pd *of, void *addr, size_t length, int access)
{
	(void)addr;
	(void)access;
	assert_ptr_equal(of, &real_pd);
	assert_int_equal(length, sizeof(uint64_t));
	return &real_mr;
}

static int setup(void **state)
{
	(void)state;
	real.thread_inside = thread_inside;
	real.reg_mr = reg_mr;
	sh.real = &real;
	sh.instance = 1;
	nic.worker = (struct sh_worker *)&nic; /* never looked at */
	list_init(&pd.mrs);
	memset(qps, 0, sizeof(qps));
	for (int i = 0; i < QPS; i++) {
		qps[i].pd = &pd;
		qps[i].conn_id = CONNECTION;
		qps[i].app.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		qps[i].core.epoch = EPOCH + 1;
		qps[i].core.move = SC_MOVE_NONE;
		qps[i].carriers.own =
			(struct sh_carrier){ .nic = &nic, .qp = &real_qp, .epoch = EPOCH };
	}
	return 0;
}

static void ask(struct sh_qp *qp, enum sh_wire_log_kind kind)
{
	const struct sh_wire_log log = { .kind = (uint8_t)kind, .carrier = EPOCH };

	told = (struct sh_wire_log){ 0 };
	sh_lock();
	sh_log_words_asked(qp, &log);
	sh_unlock();
}

/* Its place. */
static struct sh_wire_log placed(struct sh_qp *qp)
{
	struct sh_job *job;

	ask(qp, SH_WIRE_LOG_ASK);
	job = submitted;
	assert_non_null(job);
	submitted = NULL;
	job->fn(job);
	job->done(job);
	assert_int_equal(told.kind, SH_WIRE_LOG_PLACE);
	assert_int_equal(told.rkey, real_mr.rkey);
	return told;
}

/* As the NIC does. */
static void write_word(const struct sh_wire_log *place, uint32_t number)
{
	*(volatile uint64_t *)(uintptr_t)place->addr = sp_log_word(place->tag, number);
}

static void says(struct sh_qp *qp, bool something, uint32_t number)
{
	ask(qp, SH_WIRE_LOG_READ);
	assert_int_equal(told.kind, something ? SH_WIRE_LOG_SAYS : SH_WIRE_LOG_NOTHING);
	if (something)
		assert_int_equal(told.number, number);
}

static void each_has_its_own(void **state)
{
	struct sh_wire_log place[QPS];

	(void)state;
	for (int i = 0; i < QPS; i++) {
		place[i] = placed(&qps[i]);
		for (int k = 0; k < i; k++) {
			assert_int_not_equal(place[i].addr, place[k].addr);
			assert_int_not_equal(place[i].tag, place[k].tag);
		}
	}
	write_word(&place[0], RAN);
	says(&qps[0], true, RAN);
	says(&qps[1], false, 0);
}

/* A NIC that hangs may write to it long after its connection is gone. */
static void one_of_a_connection_that_is_gone(void **state)
{
	struct sh_wire_log old = placed(&qps[0]), place;

	(void)state;
	sh_lock();
	sh_wqe_log_free(&qps[0]);
	sh_unlock();
	place = placed(&qps[1]);
	assert_int_equal(place.addr, old.addr);
	write_word(&old, RAN);
	says(&qps[1], false, 0);
	write_word(&place, RAN + 1);
	says(&qps[1], true, RAN + 1);
}

/* Opens the device anew, and has connections of its own. clears: it clears its parent's away, too. */
static void child(bool clears)
{
	struct sh_wire_log place;

	sh.instance = 2; /* as behind each fork */
	sh_lock();
	if (clears)
		sh_wqe_log_free(&qps[0]);
	sh_unlock();
	for (int i = 1; i < QPS; i++) {
		place = placed(&qps[i]);
		write_word(&place, RAN);
		says(&qps[i], true, RAN);
	}
	exit(0);
}

static void a_fork(bool clears)
{
	struct sh_wire_log place = placed(&qps[0]);
	pid_t pid;
	int status;

	write_word(&place, RAN + 1);
	pid = test_fork();
	assert_true(pid >= 0);
	if (!pid)
		child(clears);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	says(&qps[0], true, RAN + 1);
	for (int i = 1; i < QPS; i++) {
		(void)placed(&qps[i]);
		says(&qps[i], false, 0);
	}
}

static void a_child_with_connections(void **state)
{
	(void)state;
	a_fork(false);
}

static void a_child_that_clears_away_what_it_has_inherited(void **state)
{
	(void)state;
	a_fork(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_has_its_own, setup),
		cmocka_unit_test_setup(one_of_a_connection_that_is_gone, setup),
		cmocka_unit_test_setup(a_child_with_connections, setup),
		cmocka_unit_test_setup(a_child_that_clears_away_what_it_has_inherited, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
