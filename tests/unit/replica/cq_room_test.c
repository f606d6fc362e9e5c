/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How many places a completion queue needs where connections on it move: the sums, and random programs on one queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "shiftlib/replica/cq_room.h"
#include "tests/lib/random.h"

static void come(struct sh_cq_room *room, uint32_t entries)
{
	sh_room_come(room, &(struct sh_depth){ .entries = entries });
}

static void what_cannot_move_needs_nothing(void **state)
{
	struct sh_cq_room room = { .told = 15, .have = 15 };

	come(&room, 255);
	assert_int_equal(sh_room_need(&room, 0, true), 15);
	assert_int_equal(sh_room_need(&room, 0, false), 15);
}

static void a_queue_for_all_requests_is_large_enough(void **state)
{
	struct sh_cq_room room = { .told = 255, .have = 255 };

	come(&room, 130);
	come(&room, 100);
	assert_int_equal(sh_room_need(&room, 130, true), 255);
	assert_int_equal(sh_room_need(&room, 230, true), 255);
}

static void the_lesser_of_both_bounds_counts(void **state)
{
	struct sh_cq_room room = { .told = 100, .have = 127 };

	come(&room, 60);
	come(&room, 70);
	assert_int_equal(sh_room_need(&room, 60, true), 130);
	come(&room,
	     1000); /* a neighbour with a deep queue, of which the program has counted less */
	assert_int_equal(sh_room_need(&room, 60, true), 160);
	assert_int_equal(sh_room_need(&room, 60, false), 160);
	sh_room_go(&room, &(struct sh_depth){ .entries = 1000 });
	assert_int_equal(sh_room_need(&room, 60, true), 130);
}

static void of_strangers_nothing_is_known(void **state)
{
	struct sh_cq_room room = { .told = 100, .have = 127 };

	come(&room, 60);
	assert_int_equal(sh_room_need(&room, 60, true), 100);
	assert_int_equal(sh_room_need(&room, 60, false), 160);
}

static void a_shared_receive_queue_counts_once(void **state)
{
	struct sh_depth depth = { .entries = 10, .srq = state, .srq_entries = 500 };
	struct sh_cq_room room = { .told = 400 };

	for (int i = 0; i < 5; i++)
		sh_room_come(&room, &depth);
	assert_int_equal(sh_room_need(&room, 50, true), 450);
	room.told = 520;
	assert_int_equal(sh_room_need(&room, 50, true), 550);
	depth.srq = &depth;
	sh_room_come(&room, &depth);
	assert_int_equal(sh_room_need(&room, 50, true), 570);
}

static void many_queue_pairs_are_few_resizes(void **state)
{
	struct sh_cq_room room = { .told = 15, .have = 15 };
	uint64_t movers = 0, need;
	int resizes = 0;

	for (int i = 0; i < 4096; i++) {
		come(&room, 255);
		movers += 255;
		need = sh_room_need(&room, movers, true);
		if (need <= room.have)
			continue;
		room.have = (uint32_t)sh_room_grow(&room, need, 1 << 22);
		assert_true(room.have >= need);
		resizes++;
	}
	assert_true(resizes <= 17);
}

static void a_device_may_have_no_queue_so_large(void **state)
{
	struct sh_cq_room room = { .told = 15, .have = 15 };

	assert_int_equal(sh_room_grow(&room, 100, 0), 127);
	assert_int_equal(sh_room_grow(&room, 100, 110), 100);
	assert_false(sh_room_over(100, 110));
	assert_true(sh_room_over(111, 110));
	assert_true(sh_room_over(1ull << 40, 0));
	assert_false(sh_room_over(1 << 20, 0));
}

/* ---- random programs ------------------------------------------------------------------------- */

enum { QPS = 12, STEPS = 400, ROUNDS = 2000 };

/* As the program and the NIC see a queue pair: `lie` of its completions lie in the queue. */
struct user {
	bool here, moves;
	uint32_t depth, counted; /* requests; those that are signaled at a time */
	uint32_t out, signaled, lie, lie_counted;
};

static struct world {
	struct sh_cq_room room;
	struct user users[QPS];
	uint64_t movers;
	bool stranger;
} w;

static uint32_t below(uint32_t n)
{
	static uint64_t state;

	if (!state)
		state = random_seed("cq_room_test");
	return random_below(&state, n);
}

static uint64_t lying(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < QPS; i++)
		sum += w.users[i].lie;
	return sum;
}

/* The program keeps its own count, as it must on stock. */
static uint32_t counted(void)
{
	uint32_t sum = 0;

	for (int i = 0; i < QPS; i++)
		sum += w.users[i].signaled + w.users[i].lie_counted;
	return sum;
}

static void post(struct user *u)
{
	if (u->out + u->lie >= u->depth)
		return;
	u->out++;
	if (u->signaled + u->lie_counted < u->counted && counted() < w.room.told && below(2))
		u->signaled++;
}

static void completes(struct user *u)
{
	uint32_t n = u->signaled ? 1 + below(u->signaled) : 0;

	u->lie += n;
	u->lie_counted += n;
	u->signaled -= n;
	u->out -= u->signaled ? n : u->out;
	if (u->out < u->signaled)
		u->out = u->signaled;
}

/* All that is outstanding takes a place; a request is posted again on another NIC, and counts there. */
static void flush(struct user *u)
{
	u->lie += u->out;
	u->lie_counted += u->signaled;
	u->out = u->signaled = 0;
}

static void polls(struct user *u)
{
	u->lie = u->lie_counted = 0;
}

/* The shell makes room before it lets a connection move, and behind whoever comes. */
static void grow(uint64_t movers)
{
	uint64_t need = sh_room_need(&w.room, movers, !w.stranger);

	if (need > w.room.have)
		w.room.have = (uint32_t)sh_room_grow(&w.room, need, 0);
}

static void comes(struct user *u)
{
	*u = (struct user){ .here = true, .depth = 1 + below(64), .counted = 1 + below(16) };
	come(&w.room, u->depth);
	grow(w.movers);
}

static void takes(struct user *u)
{
	grow(w.movers + u->depth);
	w.movers += u->depth;
	u->moves = true;
}

static void goes(struct user *u)
{
	sh_room_go(&w.room, &(struct sh_depth){ .entries = u->depth });
	w.movers -= u->moves ? u->depth : 0;
	*u = (struct user){ 0 };
}

static void step(void)
{
	struct user *u = &w.users[below(QPS)];
	uint32_t what = below(100);

	if (!u->here) {
		comes(u);
	} else if (what < 70) {
		post(u);
	} else if (what < 80) {
		completes(u);
	} else if (what < 88) {
		polls(u);
	} else if (what < 93 && !u->moves) {
		takes(u);
	} else if (what < 98 && u->moves) {
		flush(u);
	} else if (what == 99 && !below(8)) {
		goes(u);
	}
	assert_true(lying() <= w.room.have);
}

/* Neighbours that cannot move take no more than the program has counted; a flush finds room in any case. */
static void no_flush_finds_the_queue_full(void **state)
{
	for (int round = 0; round < ROUNDS; round++) {
		memset(&w, 0, sizeof(w));
		w.room.told = w.room.have = 1 + below(200);
		w.stranger = !below(3);
		for (int i = 0; i < STEPS; i++)
			step();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_move_needs_nothing),
		cmocka_unit_test(a_queue_for_all_requests_is_large_enough),
		cmocka_unit_test(the_lesser_of_both_bounds_counts),
		cmocka_unit_test(of_strangers_nothing_is_known),
		cmocka_unit_test(a_shared_receive_queue_counts_once),
		cmocka_unit_test(many_queue_pairs_are_few_resizes),
		cmocka_unit_test(a_device_may_have_no_queue_so_large),
		cmocka_unit_test(no_flush_finds_the_queue_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
