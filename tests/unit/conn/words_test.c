/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Words of compare-and-swaps whose answers are lost. Who asks must not believe an answer to another question; who
 * answers must not read before its old queue pair is quiet, nor what the asker could not reach by an atomic itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "shiftlib/conn/atomics/words.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/memory.h"

enum { EPOCH = 5, RKEY = 0x1100, MANY = 300, KEPT = 256, PAGE = 4096 };
#define ADDR  UINT64_C(0x7f0000000000)
#define VALUE UINT64_C(0x1122334455667788)

static struct sh_qp qp;
static struct sh_peer peer;
static struct sh_carrier carrier;
static struct sh_pd pd;
static struct sh_mr mr;
static struct ibv_mr real_mr;
static struct ibv_qp real_qp;
static struct sp_request requests[MANY];
static struct sh_wire_word sent[2 * MANY];
static uint32_t n_sent;
static _Alignas(PAGE) uint64_t memory[PAGE / sizeof(uint64_t)];

void __wrap_sh_messages_send_word(struct sh_qp *to, const struct sh_wire_word *word);
void __wrap_sh_messages_send_word(struct sh_qp *to, const struct sh_wire_word *word)
{
	assert_ptr_equal(to, &qp);
	assert_true(n_sent < 2 * MANY);
	sent[n_sent++] = *word;
}

static struct sp_request swap_at(uint64_t addr)
{
	return (struct sp_request){ .kind = SP_REQ_ATOMIC,
				    .published = 1,
				    .addr = addr,
				    .bytes = sizeof(uint64_t),
				    .rkey = RKEY,
				    .cas = 1,
				    .compare = 0,
				    .swap = VALUE };
}

/* Two compare-and-swaps are outstanding on the carrier; and a region with a value in it, for who answers. */
static int setup(void **state)
{
	(void)state;
	sh.config.atomics_owner = true;
	peer = (struct sh_peer){ 0 };
	carrier = (struct sh_carrier){ .epoch = EPOCH };
	qp = (struct sh_qp){ .qp = &real_qp, .peer = &peer, .active = &carrier, .pd = &pd };
	qp.app.attr.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC;
	qp.core.epoch = EPOCH + 1;
	qp.core.move = SC_MOVE_NONE;
	requests[0] = swap_at(ADDR);
	requests[1] = swap_at(ADDR + 8);
	memory[3] = VALUE;
	real_mr = (struct ibv_mr){ .rkey = RKEY };
	mr = (struct sh_mr){ .mr = &real_mr,
			     .addr = memory,
			     .length = sizeof(memory),
			     .iova = ADDR,
			     .access = IBV_ACCESS_REMOTE_ATOMIC,
			     .alone = SH_ALONE_NOT };
	list_init(&pd.mrs);
	list_add_tail(&pd.mrs, &mr.link);
	n_sent = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sh_words_forget(&qp);
	return 0;
}

/* ---- who asks ------------------------------------------------------------------------------- */

static void tell(uint8_t kind, uint32_t of, uint64_t addr, uint64_t value)
{
	struct sh_wire_record record = {
		.type = SH_WIRE_WORD,
		.word = { .kind = kind, .carrier = of, .addr = addr, .rkey = RKEY, .value = value },
	};

	assert_true(sh_words_part.news.message(&qp, &record));
}

static bool told(uint32_t i, uint64_t value)
{
	sh_words_part.fate.tell(&qp, requests, 2, NULL);
	return requests[i].told && requests[i].word == value;
}

static void asked_only_where_the_operator_said_so(void **state)
{
	(void)state;
	sh.config.atomics_owner = false;
	assert_false(sh_words_part.fate.ask(&qp, requests, 2));
	sh.config.atomics_owner = true;
	qp.peer = NULL;
	assert_false(sh_words_part.fate.ask(&qp, requests, 2));
	assert_int_equal(n_sent, 0);
}

static void asked_until_it_is_told(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) { /* the first answer is lost */
		n_sent = 0;
		assert_true(sh_words_part.fate.ask(&qp, requests, 2));
		assert_int_equal(n_sent, 2);
		assert_int_equal(sent[1].kind, SH_WIRE_WORD_ASK);
		assert_int_equal(sent[1].carrier, EPOCH);
		assert_true(sent[1].addr == ADDR + 8 && sent[1].rkey == RKEY);
	}
	tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR, VALUE);
	n_sent = 0;
	assert_true(sh_words_part.fate.ask(&qp, requests, 2));
	assert_int_equal(n_sent, 1);
	tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR + 8, 0);
	assert_false(sh_words_part.fate.ask(&qp, requests, 2));
	assert_true(told(0, VALUE));
	assert_true(told(1, 0));
}

static void what_needs_no_word_is_not_asked(void **state)
{
	(void)state;
	requests[0].published = 0;
	requests[1].swap = requests[1].compare;
	assert_false(sh_words_part.fate.ask(&qp, requests, 2));
	assert_int_equal(n_sent, 0);
}

static void refused_is_not_told(void **state)
{
	(void)state;
	assert_true(sh_words_part.fate.ask(&qp, requests, 1));
	tell(SH_WIRE_WORD_REFUSED, EPOCH, ADDR, VALUE);
	assert_false(sh_words_part.fate.ask(&qp, requests, 1));
	assert_false(told(0, VALUE));
	tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR,
	     VALUE); /* doubled, or overtaken: the first one counts */
	assert_false(told(0, VALUE));
}

/* The word changes when its owner goes on: a late copy of an answer says nothing of now. */
static void the_first_answer_counts(void **state)
{
	(void)state;
	assert_true(sh_words_part.fate.ask(&qp, requests, 1));
	tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR, VALUE);
	tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR, 1);
	assert_true(told(0, VALUE));
}

static void an_answer_to_another_question_is_none(void **state)
{
	(void)state;
	tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR, VALUE); /* nothing was asked */
	assert_false(told(0, VALUE));
	assert_true(sh_words_part.fate.ask(&qp, requests, 1));
	tell(SH_WIRE_WORD_TOLD, EPOCH - 1, ADDR, VALUE);
	tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR + 8, VALUE);
	assert_false(told(0, VALUE));
	assert_true(sh_words_part.fate.ask(&qp, requests, 1));
}

/* The same word of the next move: it may have been changed meanwhile. */
static void another_carrier_is_another_question(void **state)
{
	(void)state;
	assert_true(sh_words_part.fate.ask(&qp, requests, 1));
	tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR, VALUE);
	carrier.epoch = EPOCH + 1;
	assert_false(told(0, VALUE));
	assert_true(sh_words_part.fate.ask(&qp, requests, 1));
	tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR, VALUE);
	assert_false(told(0, VALUE));
	tell(SH_WIRE_WORD_TOLD, EPOCH + 1, ADDR, 1);
	assert_true(told(0, 1));
}

static void more_than_can_be_kept_is_not_waited_for(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		requests[i] = swap_at(ADDR + 8 * i);
	assert_true(sh_words_part.fate.ask(&qp, requests, MANY));
	assert_int_equal(n_sent, KEPT);
	for (uint32_t i = 0; i < MANY; i++)
		tell(SH_WIRE_WORD_TOLD, EPOCH, ADDR + 8 * i, i);
	assert_false(sh_words_part.fate.ask(&qp, requests, MANY));
	sh_words_part.fate.tell(&qp, requests, MANY, NULL);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(requests[i].told, i < KEPT);
}

static void others_that_touch_the_word_keep_it_from_telling(void **state)
{
	(void)state;
	assert_true(sh_words_part.fate.would_tell(&qp, requests, 2, 0));
	requests[1].addr = ADDR + 4; /* a WRITE over its half, before or behind */
	assert_false(sh_words_part.fate.would_tell(&qp, requests, 2, 0));
	assert_false(sh_words_part.fate.would_tell(&qp, requests, 2, 1));
	requests[1].bytes = 0; /* a READ */
	assert_true(sh_words_part.fate.would_tell(&qp, requests, 2, 0));
	requests[1].send_fence = 1;
	assert_false(sh_words_part.fate.would_tell(&qp, requests, 2, 0));
	requests[0].send_fence = 1; /* its own fence is about what is before it */
	requests[1].send_fence = 0;
	assert_true(sh_words_part.fate.would_tell(&qp, requests, 2, 0));
	sh.config.atomics_owner = false;
	assert_false(sh_words_part.fate.would_tell(&qp, requests, 2, 0));
}

/* ---- who answers ---------------------------------------------------------------------------- */

static void ask(uint64_t addr)
{
	n_sent = 0;
	tell(SH_WIRE_WORD_ASK, EPOCH, addr, 0);
}

static bool refuses(uint64_t addr)
{
	ask(addr);
	assert_int_equal(n_sent, 1);
	assert_true(sent[0].kind == SH_WIRE_WORD_TOLD || sent[0].kind == SH_WIRE_WORD_REFUSED);
	return sent[0].kind == SH_WIRE_WORD_REFUSED;
}

static void told_by_the_regions_own_addresses(void **state)
{
	(void)state;
	assert_false(refuses(ADDR + 24));
	assert_true(sent[0].value == VALUE && sent[0].addr == ADDR + 24);
	assert_int_equal(sent[0].carrier, EPOCH);
	assert_int_equal(sent[0].rkey, RKEY);
	assert_false(refuses(ADDR + PAGE - 8));
}

static void silent_before_the_old_carrier_is_quiet(void **state)
{
	(void)state;
	qp.core.epoch = EPOCH; /* it has not heard of a move */
	ask(ADDR);
	assert_int_equal(n_sent, 0);
	qp.core.epoch = EPOCH + 1; /* it moves, and that queue pair may execute more */
	qp.core.move = SC_MOVE_QUIESCING;
	qp.core.count_final = false;
	ask(ADDR);
	assert_int_equal(n_sent, 0);
	qp.core.count_final = true;
	assert_false(refuses(ADDR));
}

static void only_what_an_atomic_could_reach(void **state)
{
	(void)state;
	assert_true(refuses(ADDR + 4));
	assert_true(refuses(ADDR - 8));
	assert_true(refuses(ADDR + PAGE));
	assert_true(refuses(UINT64_MAX - 7));
	assert_false(refuses(ADDR));
	mr.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	assert_true(refuses(ADDR));
	mr.access = IBV_ACCESS_REMOTE_ATOMIC;
	qp.app.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	assert_true(refuses(ADDR));
	qp.app.attr.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC;
	real_mr.rkey = RKEY + 1;
	assert_true(refuses(ADDR));
	real_mr.rkey = RKEY;
	mr.length = 7;
	assert_true(refuses(ADDR));
	mr.length = sizeof(memory);
	qp.pd = NULL;
	assert_true(refuses(ADDR));
}

static void nothing_of_regions_that_cannot_be_read(void **state)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	mr.addr = page;
	assert_false(refuses(ADDR));
	assert_int_equal(munmap(page, PAGE), 0); /* under a region that is still registered */
	assert_true(refuses(ADDR));
	mr.addr = memory;
	mr.dmabuf = true;
	assert_true(refuses(ADDR));
	mr.dmabuf = false;
	mr.leaving = true;
	assert_true(refuses(ADDR));
	mr.leaving = false;
	assert_false(refuses(ADDR));
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(asked_only_where_the_operator_said_so),
		CASE(asked_until_it_is_told),
		CASE(what_needs_no_word_is_not_asked),
		CASE(refused_is_not_told),
		CASE(the_first_answer_counts),
		CASE(an_answer_to_another_question_is_none),
		CASE(another_carrier_is_another_question),
		CASE(more_than_can_be_kept_is_not_waited_for),
		CASE(others_that_touch_the_word_keep_it_from_telling),
		CASE(told_by_the_regions_own_addresses),
		CASE(silent_before_the_old_carrier_is_quiet),
		CASE(only_what_an_atomic_could_reach),
		CASE(nothing_of_regions_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
