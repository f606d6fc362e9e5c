/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sdr/core/packet.h"

#include <errno.h>
#include <string.h>

enum { SLOTS = 4, MS = 1000000 };

static struct {
	struct sdr_core c;
	struct sdr_slot slots[SLOTS];
	struct sdr_send sends[SLOTS];
	_Atomic uint64_t words[SLOTS * 4];
	struct sdr_actions a;
	uint64_t now;
} t;

static const struct sdr_core_attr usual = {
	.slots = SLOTS,
	.generations = 2,
	.id_bits = 10,
	.offset_bits = 18,
	.chunk_shift = 1,
	.packet = 100,
	.max_packets = 64,
	.lifetime_ns = 50 * MS,
	.repeat_ns = 2 * MS,
};

static int setup(void **state)
{
	memset(&t, 0, sizeof(t));
	assert_true(sdr_core_words(&usual) <= SLOTS * 4);
	return sdr_core_init(&t.c, &usual, t.slots, t.sends, t.words);
}

static int step(struct sdr_event e)
{
	return sdr_core_step(&t.c, &e, t.now, &t.a);
}

static void post(uint64_t n, uint64_t length)
{
	struct sdr_event e = {
		.type = SDR_EVENT_RECV_POST, .cookie = n, .addr = 4096, .length = length
	};

	assert_int_equal(sdr_core_step(&t.c, &e, t.now, &t.a), 0);
	assert_int_equal(e.n, n);
	assert_int_equal(t.a.n, 1);
	assert_int_equal(t.a.list[0].type, SDR_ACTION_BIND);
	assert_int_equal(step((struct sdr_event){
				 .type = SDR_EVENT_BOUND, .n = n, .addr = 4096, .rkeys = { 7 } }),
			 0);
}

static int64_t packet(uint64_t n, uint32_t offset)
{
	uint32_t imm = sdr_imm_make(&t.c.layout, (uint32_t)(n % SLOTS), offset, 0x89abcdef);

	return sdr_packet(&t.c, imm, (int)(n / SLOTS % 2));
}

static void complete(uint64_t n)
{
	assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_RECV_COMPLETE, .n = n }), 0);
	assert_int_equal(t.a.list[0].type, SDR_ACTION_UNBIND);
	assert_int_equal(t.a.n, 1); /* not done before it is unbound */
	assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_UNBOUND, .n = n }), 0);
	assert_int_equal(t.a.list[0].type, SDR_ACTION_RECV_DONE);
	assert_int_equal(t.a.list[0].cookie, n);
}

static void ended(uint64_t n, uint32_t packets)
{
	assert_int_equal(
		step((struct sdr_event){ .type = SDR_EVENT_PEER_END, .n = n, .count = packets }),
		0);
}

static int repost(uint64_t n)
{
	return step((struct sdr_event){ .type = SDR_EVENT_RECV_POST, .cookie = n, .length = 100 });
}

static void test_attributes(void **state)
{
	struct sdr_core_attr a = usual;
	struct sdr_core c;

	a.slots = 3;
	assert_int_equal(sdr_core_init(&c, &a, t.slots, t.sends, t.words), -EINVAL);
	a = usual;
	a.generations = SDR_GENERATIONS_MAX + 1;
	assert_int_equal(sdr_core_init(&c, &a, t.slots, t.sends, t.words), -EINVAL);
	a = usual;
	a.id_bits = 11;
	assert_int_equal(sdr_core_init(&c, &a, t.slots, t.sends, t.words), -EINVAL);
	a = usual;
	a.max_packets = (1u << 18) + 1;
	assert_int_equal(sdr_core_init(&c, &a, t.slots, t.sends, t.words), -EINVAL);
}

static void test_message(void **state)
{
	uint32_t imm;

	post(0, 1700); /* 17 packets, 9 chunks, the last of one packet */
	for (uint32_t o = 0; o < 16; o++)
		assert_int_equal(packet(0, o), o % 2 ? (int64_t)(o / 2) : SDR_NO_CHUNK);
	assert_int_equal(packet(0, 16), 8);
	assert_int_equal(packet(0, 16), SDR_NO_CHUNK); /* again */
	assert_true(sdr_core_imm(&t.c, &t.slots[0], &imm));
	assert_int_equal(imm, 0x89abcdef);
}

static void test_short_message_with_immediate(void **state)
{
	uint32_t imm, o;

	post(0, 250);
	for (uint32_t i = 0; i < 3; i++)
		packet(0, i);
	assert_false(sdr_core_imm(&t.c, &t.slots[0], &imm));
	for (uint32_t i = 3; i < 8; i++) {
		assert_true(sdr_imm_filler(&t.c.layout, 3, i, &o));
		assert_int_equal(packet(0, o), SDR_NO_CHUNK);
	}
	assert_true(sdr_core_imm(&t.c, &t.slots[0], &imm));
	assert_int_equal(imm, 0x89abcdef);
}

static void test_late_packets(void **state)
{
	post(0, 400);
	complete(0);
	assert_int_equal(packet(0, 0), SDR_NO_CHUNK);
	assert_int_equal(atomic_load(&t.c.stats.late), 1);
	for (uint64_t n = 1; n < SLOTS; n++)
		post(n, 400);
	ended(0, 4);
	step((struct sdr_event){ .type = SDR_EVENT_HEARD, .n = SLOTS });
	post(SLOTS, 400); /* slot 0, generation 1: nothing of generation 0 counts */
	assert_int_equal(packet(0, 0), SDR_NO_CHUNK);
	assert_int_equal(packet(0, 1), SDR_NO_CHUNK);
	assert_int_equal(atomic_load(&t.slots[0].bits.packets[0]), 0);
	assert_int_equal(packet(SLOTS, 0), SDR_NO_CHUNK);
	assert_int_equal(packet(SLOTS, 1), 0);
}

static void fill_and_close(uint64_t from, uint32_t received, uint32_t sent)
{
	for (uint64_t n = from; n < from + SLOTS; n++)
		post(n, 400);
	step((struct sdr_event){ .type = SDR_EVENT_HEARD, .n = from + SLOTS });
	for (uint64_t n = from; n < from + SLOTS; n++) {
		for (uint32_t o = 0; o < received; o++)
			packet(n, o);
		complete(n);
		ended(n, sent);
	}
}

/* The third use of a slot has the id of the first. */
static void test_reuse_by_count(void **state)
{
	fill_and_close(0, 4, 4);
	fill_and_close(SLOTS, 4, 4);
	assert_int_equal(repost(2 * SLOTS), 0);
}

static void test_reuse_by_lifetime(void **state)
{
	fill_and_close(0, 3, 4);
	fill_and_close(SLOTS, 4, 4);
	t.now = 50 * MS - 1;
	assert_int_equal(repost(2 * SLOTS), -EAGAIN);
	t.now++;
	assert_int_equal(repost(2 * SLOTS), 0);
}

/* A packet twice: as many as were sent, and one of them still under way. */
static void test_reuse_with_duplicates(void **state)
{
	fill_and_close(0, 3, 4);
	fill_and_close(SLOTS, 4, 4);
	packet(0, 1);
	assert_int_equal(atomic_load(&t.slots[0].uses[0].received), 4);
	atomic_fetch_add(&t.slots[0].uses[0].duplicates, 1);
	assert_int_equal(repost(2 * SLOTS), -EAGAIN);
}

/* Without its END the sender may still send, however long ago the close is. */
static void test_reuse_without_end(void **state)
{
	for (uint64_t n = 0; n < SLOTS; n++)
		post(n, 400);
	step((struct sdr_event){ .type = SDR_EVENT_HEARD, .n = SLOTS });
	complete(0);
	t.now = 1000ull * MS;
	assert_int_equal(repost(SLOTS), -EAGAIN);
	ended(0, 0);
	assert_int_equal(repost(SLOTS), 0);
}

static void test_cts(void **state)
{
	struct sdr_cts cts;

	post(0, 100);
	step((struct sdr_event){ .type = SDR_EVENT_TICK });
	assert_int_equal(t.a.n, 1);
	assert_int_equal(t.a.list[0].type, SDR_ACTION_SEND_CTS);
	assert_int_equal(t.a.list[0].count, 1);
	step((struct sdr_event){ .type = SDR_EVENT_TICK });
	assert_int_equal(t.a.n, 0); /* not yet again */
	t.now += 2 * MS;
	step((struct sdr_event){ .type = SDR_EVENT_TICK });
	assert_int_equal(t.a.n, 1);
	complete(0);
	assert_true(sdr_core_cts(&t.c, 0, &cts));
	assert_true(cts.gone);
	step((struct sdr_event){ .type = SDR_EVENT_HEARD, .n = 1 });
	t.now += 2 * MS;
	step((struct sdr_event){ .type = SDR_EVENT_TICK });
	assert_int_equal(t.a.n, 0);
	/* Of receives that there are not, nobody can have heard. */
	step((struct sdr_event){ .type = SDR_EVENT_HEARD, .n = 1000 });
	assert_int_equal(t.c.cts_told, 1);
}

static void test_send(void **state)
{
	struct sdr_event cts = { .type = SDR_EVENT_CTS,
				 .n = 0,
				 .cts = { .addr = 5, .length = 9, .rkeys = { 3 } } };

	assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_SEND_POST, .cookie = 11 }), 0);
	assert_int_equal(t.a.n, 0);
	assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_INJECTED, .n = 0 }), -EINVAL);
	assert_int_equal(step(cts), 0);
	assert_int_equal(t.a.list[0].type, SDR_ACTION_SEND_ALLOWED);
	assert_int_equal(t.a.list[0].cookie, 11);
	assert_int_equal(step(cts), 0);
	assert_int_equal(t.a.n, 0); /* once */
	assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_INJECTED, .n = 0, .count = 5 }),
			 0);
	assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_SEND_END, .n = 0 }), 0);
	assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_SEND_END, .n = 0 }), -EINVAL);
	step((struct sdr_event){ .type = SDR_EVENT_TICK });
	assert_int_equal(t.a.list[t.a.n - 1].type, SDR_ACTION_SEND_END);
	assert_int_equal(t.a.list[t.a.n - 1].count, 5);
	step((struct sdr_event){ .type = SDR_EVENT_HEARD, .n = 0, .count = 1 });
	assert_int_equal(t.sends[0].send_state, SDR_SEND_EMPTY);
}

/* A CTS of an earlier use of the slot, said again, allows nothing. */
static void test_old_cts(void **state)
{
	struct sdr_event cts = { .type = SDR_EVENT_CTS };

	for (uint64_t n = 0; n < SLOTS; n++) {
		cts.n = n;
		assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_SEND_POST }), 0);
		assert_int_equal(step(cts), 0);
		assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_SEND_END, .n = n }), 0);
	}
	step((struct sdr_event){ .type = SDR_EVENT_HEARD, .count = SLOTS });
	assert_int_equal(step((struct sdr_event){ .type = SDR_EVENT_SEND_POST }), 0);
	cts.n = 0;
	assert_int_equal(step(cts), 0);
	assert_int_equal(t.a.n, 0);
	assert_int_equal(t.sends[0].send_state, SDR_SEND_WAITING);
	cts.n = 100; /* far ahead: nonsense */
	assert_int_equal(step(cts), 0);
	assert_int_equal(t.sends[0].send_state, SDR_SEND_WAITING);
	cts.n = SLOTS;
	assert_int_equal(step(cts), 0);
	assert_int_equal(t.sends[0].send_state, SDR_SEND_SENDING);
}

static void test_names(void **state)
{
	assert_string_equal(sdr_slot_state_name(SDR_SLOT_QUARANTINE), "QUARANTINE");
	assert_string_equal(sdr_send_state_name(SDR_SEND_SENT), "SENT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_attributes, setup),
		cmocka_unit_test_setup(test_message, setup),
		cmocka_unit_test_setup(test_short_message_with_immediate, setup),
		cmocka_unit_test_setup(test_late_packets, setup),
		cmocka_unit_test_setup(test_reuse_by_count, setup),
		cmocka_unit_test_setup(test_reuse_by_lifetime, setup),
		cmocka_unit_test_setup(test_reuse_with_duplicates, setup),
		cmocka_unit_test_setup(test_reuse_without_end, setup),
		cmocka_unit_test_setup(test_cts, setup),
		cmocka_unit_test_setup(test_send, setup),
		cmocka_unit_test_setup(test_old_cts, setup),
		cmocka_unit_test_setup(test_names, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
