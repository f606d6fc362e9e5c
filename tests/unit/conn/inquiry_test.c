/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Inquiries into errors that a sick NIC may have made: what is asked of whom, and when an error is
 * the program's after all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/mailbox.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/inquiry.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"

#define MS SH_NS_PER_MS
enum { GRACE_MS = 50, HANG_MS = 100, LONG_MS = 1100 };

static struct sh_qp qp;
static struct sh_peer peer;
static struct sh_nic nic;
static struct ibv_qp real_qp;
static struct sh_wire_inquiry sent[64];
static uint32_t n_sent, asked, programs, nics;
static uint64_t now_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *at);
void __wrap_sh_messages_send_inquiry(struct sh_qp *to, const struct sh_wire_inquiry *inquiry);
void __wrap_sh_nic_ask(struct sh_nic *whom);
void __wrap_sh_mailbox_program(struct sh_qp *of);
void __wrap_sh_mailbox_nic(struct sh_qp *of);
void __wrap_sh_clock_touch(struct sh_qp *of);

int __wrap_clock_gettime(clockid_t clock, struct timespec *at)
{
	(void)clock;
	at->tv_sec = (time_t)(now_ns / SH_NS_PER_S);
	at->tv_nsec = (long)(now_ns % SH_NS_PER_S);
	return 0;
}

void __wrap_sh_messages_send_inquiry(struct sh_qp *to, const struct sh_wire_inquiry *inquiry)
{
	assert_ptr_equal(to, &qp);
	assert_true(n_sent < 64);
	sent[n_sent++] = *inquiry;
}

void __wrap_sh_nic_ask(struct sh_nic *whom)
{
	assert_ptr_equal(whom, &nic);
	nic.ask.under_way = true;
	asked++;
}

void __wrap_sh_mailbox_program(struct sh_qp *of)
{
	assert_ptr_equal(of, &qp);
	programs++;
}

void __wrap_sh_mailbox_nic(struct sh_qp *of)
{
	assert_ptr_equal(of, &qp);
	nics++;
}

void __wrap_sh_clock_touch(struct sh_qp *of)
{
	(void)of;
}

static int begin(void **state)
{
	(void)state;
	sh.config.hang.send_ns = HANG_MS * MS;
	sh_conns.owed = 0;
	peer = (struct sh_peer){ .caps = SH_WIRE_CAP_INQUIRY };
	nic = (struct sh_nic){ .state = SH_NIC_OPEN };
	qp = (struct sh_qp){ .qp = &real_qp, .peer = &peer };
	qp.carriers.own.nic = &nic;
	qp.core.move = SC_MOVE_NONE;
	n_sent = asked = programs = nics = 0;
	now_ns = SH_NS_PER_S;
	return 0;
}

static int end(void **state)
{
	(void)state;
	sh_inquiry_part.life.left(&qp);
	return 0;
}

static void pass(uint32_t ms)
{
	for (uint32_t i = 0; i < ms; i++) {
		uint64_t due = sh_inquiry_part.clock.next_timer(&qp);

		now_ns += MS;
		if (due && due <= now_ns)
			sh_inquiry_part.clock.run(&qp, now_ns);
	}
}

static void accuse(enum ibv_wc_status status)
{
	assert_true(sh_inquiry_part.news.accused(&qp, 0, status));
	sh_inquiry_part.clock.run(&qp, now_ns);
}

static void hear(uint8_t kind)
{
	struct sh_wire_record record = { .type = SH_WIRE_INQUIRY, .inquiry = { .kind = kind } };

	assert_true(sh_inquiry_part.news.message(&qp, &record));
}

/* The NIC answers the question that it has. */
static void obey(void)
{
	nic.ask.under_way = false;
	nic.ask.obeyed_at = now_ns;
}

static void assert_open(void)
{
	assert_int_equal(programs + nics, 0);
	assert_true(sh_inquiry_part.move.delays(&qp, now_ns));
}

/* ---- this end's error ----------------------------------------------------------------------- */

static void both_nics_are_asked(void **state)
{
	(void)state;
	accuse(IBV_WC_REM_OP_ERR);
	assert_int_equal(sent[0].kind, SH_WIRE_INQUIRY_ASK);
	assert_int_equal(sent[0].status, IBV_WC_REM_OP_ERR);
	pass(GRACE_MS - 1);
	assert_int_equal(asked, 0); /* an answer before that would say nothing */
	pass(100);
	assert_int_equal(asked, 1);
	obey();
	pass(100);
	assert_open(); /* the peer has said nothing */
	hear(SH_WIRE_INQUIRY_WELL);
	pass(1);
	assert_int_equal(programs, 1);
	assert_int_equal(nics, 0);
	assert_false(sh_inquiry_part.move.delays(&qp, now_ns));
}

static void a_lost_question_is_asked_again(void **state)
{
	uint32_t before;

	(void)state;
	accuse(IBV_WC_REM_ACCESS_ERR);
	before = n_sent;
	pass(GRACE_MS);
	assert_true(n_sent >= before + 3);
}

static void an_answer_from_before_says_nothing(void **state)
{
	(void)state;
	accuse(IBV_WC_LOC_PROT_ERR);
	assert_int_equal(n_sent, 0); /* of such an error the peer's NIC knows nothing */
	obey();
	pass(GRACE_MS + 100);
	assert_open();
	obey();
	pass(100);
	assert_int_equal(programs, 1);
}

static void the_peers_nic_is_sick(void **state)
{
	(void)state;
	accuse(IBV_WC_REM_OP_ERR);
	hear(SH_WIRE_INQUIRY_SICK);
	assert_int_equal(nics, 1);
	hear(SH_WIRE_INQUIRY_WELL);
	hear(SH_WIRE_INQUIRY_SICK); /* an old answer over another path */
	assert_int_equal(programs + nics, 1);
}

static void the_own_nic_dies_meanwhile(void **state)
{
	(void)state;
	accuse(IBV_WC_REM_INV_REQ_ERR);
	pass(10);
	assert_open();
	nic.fatal = true;
	pass(64);
	assert_int_equal(nics, 1);
}

static void a_nic_that_never_answers_is_sick(void **state)
{
	(void)state;
	accuse(IBV_WC_LOC_QP_OP_ERR);
	pass(LONG_MS - 200);
	assert_open();
	pass(300);
	assert_int_equal(nics, 1);
}

/* The process was stopped: its NIC was not even asked. */
static void a_nic_that_was_not_asked_is_not_sick(void **state)
{
	(void)state;
	accuse(IBV_WC_LOC_PROT_ERR);
	now_ns += 10 * LONG_MS * MS;
	sh_inquiry_part.clock.run(&qp, now_ns);
	assert_open();
	assert_int_equal(asked, 1);
	obey();
	pass(70);
	assert_int_equal(programs, 1);
}

static void the_answer_comes_soon_behind_the_grace(void **state)
{
	(void)state;
	accuse(IBV_WC_LOC_PROT_ERR);
	pass(GRACE_MS);
	assert_int_equal(asked, 1);
	obey();
	pass(10);
	assert_int_equal(programs, 1);
}

static void a_peer_that_never_answers_is_not_waited_for(void **state)
{
	(void)state;
	accuse(IBV_WC_REM_OP_ERR);
	pass(100);
	obey();
	pass(LONG_MS + 100);
	assert_int_equal(programs, 1);
}

static void an_old_peer_is_not_asked(void **state)
{
	(void)state;
	peer.caps = 0;
	accuse(IBV_WC_REM_OP_ERR);
	pass(100);
	assert_int_equal(n_sent, 0);
	obey();
	pass(100);
	assert_int_equal(programs, 1);
}

/* The program has stopped its queue pair, or the peer has ended: nobody else gives it back. */
static void the_connection_ends_meanwhile(void **state)
{
	(void)state;
	accuse(IBV_WC_REM_OP_ERR);
	pass(20);
	assert_int_equal(sh_conns.owed, 1);
	qp.core.move = SC_MOVE_ENDED;
	sh_inquiry_part.step.acted(&qp); /* before anybody is told of the end */
	assert_int_equal(programs, 1);
	assert_int_equal(sh_conns.owed, 0);
}

static void shift_fails_the_connection_meanwhile(void **state)
{
	(void)state;
	accuse(IBV_WC_REM_OP_ERR);
	sh_inquiry_part.move.failed(&qp, SC_REASON_DEADLINE, 0);
	pass(LONG_MS + 100);
	assert_int_equal(programs + nics, 0);
	assert_false(sh_inquiry_part.move.delays(&qp, now_ns));
}

static void of_a_carrier_that_is_gone_nothing_is_asked(void **state)
{
	(void)state;
	assert_false(sh_inquiry_part.news.accused(&qp, 7, IBV_WC_REM_OP_ERR));
	assert_false(sh_inquiry_part.move.delays(&qp, now_ns));
}

/* ---- the peer's question -------------------------------------------------------------------- */

static void the_peer_hears_of_a_well_nic(void **state)
{
	(void)state;
	hear(SH_WIRE_INQUIRY_ASK);
	pass(GRACE_MS + 20);
	assert_int_equal(n_sent, 0);
	assert_int_equal(asked, 1);
	obey();
	pass(10);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent[0].kind, SH_WIRE_INQUIRY_WELL);
	hear(SH_WIRE_INQUIRY_ASK); /* the answer was lost */
	assert_int_equal(n_sent, 2);
	assert_int_equal(asked, 1);
}

static void the_peer_hears_of_a_sick_nic(void **state)
{
	(void)state;
	hear(SH_WIRE_INQUIRY_ASK);
	pass(10);
	assert_int_equal(n_sent, 0);
	nic.sick = true;
	pass(10);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent[0].kind, SH_WIRE_INQUIRY_SICK);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(both_nics_are_asked),
		TEST(a_lost_question_is_asked_again),
		TEST(an_answer_from_before_says_nothing),
		TEST(the_peers_nic_is_sick),
		TEST(the_own_nic_dies_meanwhile),
		TEST(a_nic_that_never_answers_is_sick),
		TEST(a_nic_that_was_not_asked_is_not_sick),
		TEST(the_answer_comes_soon_behind_the_grace),
		TEST(a_peer_that_never_answers_is_not_waited_for),
		TEST(an_old_peer_is_not_asked),
		TEST(the_connection_ends_meanwhile),
		TEST(shift_fails_the_connection_meanwhile),
		TEST(of_a_carrier_that_is_gone_nothing_is_asked),
		TEST(the_peer_hears_of_a_well_nic),
		TEST(the_peer_hears_of_a_sick_nic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
