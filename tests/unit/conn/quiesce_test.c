/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * When does a command that does not return speak against its NIC? A verdict moves all that the NIC
 * carries, so what the command, or this process, had no time for must not count. And when need
 * nobody wait for it?
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/engine.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/loop/starved.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/cq.h"

#define MS    SH_NS_PER_MS
#define BEGUN (1000 * MS) /* the command that is under way */
#define WAIT  (200 * MS)

static int collect(struct sp_cq *cq);
static void flushed(struct sp_qp *qp, bool in_error, struct sp_flushed *out);

/* Nothing is flushed, as the command is under way. */
static const struct shift_provider nothing = { .cq.collect = collect, .move.flushed = flushed };
/* An object of it knows its engine. */
static const struct shift_provider *object[SP_ENGINE_AT / sizeof(void *) + 1] = {
	[SP_ENGINE_AT / sizeof(void *)] = &nothing
};

static struct sh_nic nic;
static struct sh_ctx ctx;
static struct sh_cq cq;
static struct sh_qp qp;
static uint64_t busy_since;
static int sick, events, finals;
static struct sc_event last;

static int collect(struct sp_cq *sp)
{
	(void)sp;
	return 0;
}

static void flushed(struct sp_qp *sp, bool in_error, struct sp_flushed *out)
{
	(void)sp;
	assert_false(in_error);
	*out = (struct sp_flushed){ 0 };
}

uint64_t __wrap_sh_worker_busy_since_ns(const struct sh_worker *worker);
uint64_t __wrap_sh_worker_busy_since_ns(const struct sh_worker *worker)
{
	assert_ptr_equal(worker, nic.prompt);
	return busy_since;
}

void __wrap_sh_nic_sick(struct sh_nic *blamed);
void __wrap_sh_nic_sick(struct sh_nic *blamed)
{
	assert_ptr_equal(blamed, &nic);
	sick++;
}

void __wrap_sh_conn_event(struct sh_qp *of, const struct sc_event *event);
void __wrap_sh_conn_event(struct sh_qp *of, const struct sc_event *event)
{
	assert_ptr_equal(of, &qp);
	assert_int_equal(event->type, SC_EV_QUIESCED);
	events++;
	finals += event->final;
	last = *event;
}

void __wrap_sh_mailbox_read(void);
void __wrap_sh_mailbox_read(void)
{
}

static int setup(void **state)
{
	(void)state;
	sh_starved_reset();
	sh.config.flush_wait_ns = WAIT;
	nic = (struct sh_nic){ .incarnation = 1, .prompt = (struct sh_worker *)&nic };
	nic.cut.fd = -1;
	ctx = (struct sh_ctx){ .nic = &nic, .dev = (struct sp_dev *)object };
	cq = (struct sh_cq){ .ctx = &ctx, .sp = (struct sp_cq *)object };
	qp = (struct sh_qp){ .ctx = &ctx, .scq = &cq, .rcq = &cq, .sp = (struct sp_qp *)object };
	qp.carriers.own = (struct sh_carrier){ .nic = &nic,
					       .incarnation = 1,
					       .epoch = 1,
					       .qp = (struct ibv_qp *)&qp,
					       .prompt = true,
					       .to_error = true };
	qp.active = qp.receiving = &qp.carriers.own;
	qp.quiesce = (struct sh_qp_quiesce){ .phase = SH_QUIESCE_COMMAND,
					     .epoch = 2,
					     .begun = BEGUN - 500 * MS,
					     .since = BEGUN - 500 * MS,
					     .interval = MS };
	busy_since = BEGUN;
	sick = events = finals = 0;
	return 0;
}

static void waits_at(uint64_t now)
{
	sh_quiesce_poll(&qp, now);
	assert_int_equal(qp.quiesce.phase, SH_QUIESCE_COMMAND);
	assert_true(qp.quiesce.next_at > now);
	assert_int_equal(sick + events, 0);
}

static void sick_at(uint64_t now)
{
	sh_quiesce_poll(&qp, now);
	assert_int_equal(qp.quiesce.phase, SH_QUIESCE_SICK);
	assert_int_equal(sick, 1);
	assert_int_equal(events, 1);
	assert_int_equal(finals, 0);
}

static void it_has_its_time(void **state)
{
	(void)state;
	waits_at(BEGUN + WAIT - 1);
	sick_at(BEGUN + WAIT);
}

/* It stood in line, and begins when the clock has been read and the look has not come to it yet. */
static void it_begins_while_it_is_judged(void **state)
{
	(void)state;
	waits_at(BEGUN - 1);
	waits_at(BEGUN);
}

static void nobody_runs_for_long(void **state)
{
	(void)state;
	sh_starved_note(BEGUN, BEGUN + 10 * MS, BEGUN + 1000 * MS);
	waits_at(BEGUN + 1000 * MS);
	waits_at(BEGUN + 1000 * MS + WAIT - 1);
	sick_at(BEGUN + 1000 * MS + WAIT);
}

/* Of each 50 ms it gets a processor for 10. */
static void it_runs_now_and_then(void **state)
{
	uint64_t at = BEGUN;

	(void)state;
	for (; at < BEGUN + 1000 * MS; at += 50 * MS) {
		sh_starved_note(at, at + 10 * MS, at + 50 * MS);
		if (at + 50 * MS < BEGUN + 1000 * MS)
			waits_at(at + 50 * MS);
	}
	sick_at(at);
}

/* The peer's NIC is sick as well, so it never asks for a count: the looks here must end this. */
static void it_hangs_and_its_nic_is_cut_off(void **state)
{
	(void)state;
	sick_at(BEGUN + WAIT);
	nic.sick = true;
	sh_quiesce_poll(&qp, BEGUN + 2 * WAIT);
	assert_int_equal(finals, 0);
	nic.cut.off = true;
	sh_quiesce_poll(&qp, BEGUN + 3 * WAIT);
	assert_int_equal(finals, 1);
	assert_int_equal(qp.quiesce.phase, SH_QUIESCE_DONE);
	assert_true(last.dead && last.disassociated);
	assert_true(nic.sick); /* it has not obeyed */
}

/* Cut off was an earlier device of that place. */
static void another_incarnation_is_cut_off(void **state)
{
	(void)state;
	sick_at(BEGUN + WAIT);
	nic.sick = nic.cut.off = true;
	nic.incarnation++;
	sh_quiesce_poll(&qp, BEGUN + 2 * WAIT);
	assert_int_equal(finals, 0);
	assert_int_equal(qp.quiesce.phase, SH_QUIESCE_SICK);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup(test, setup)
	const struct CMUnitTest tests[] = {
		CASE(it_has_its_time),
		CASE(it_begins_while_it_is_judged),
		CASE(nobody_runs_for_long),
		CASE(it_runs_now_and_then),
		CASE(it_hangs_and_its_nic_is_cut_off),
		CASE(another_incarnation_is_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
