/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What thousands of peers cost: the memory of each, and pings in simulated time. Counts, no clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "shiftlib/conn/conns.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/core/path_health.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/peer.h"

#define PEERS 2000
#define NICS  2
#define MS    1000000ull
#define S     1000000000ull

/* ---- memory --------------------------------------------------------------------------------- */

static struct {
	size_t bytes;
	uint32_t calls, fail_at; /* that call and all behind it; 0: none */
} memory;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool memory_none(size_t size)
{
	if (memory.fail_at && ++memory.calls >= memory.fail_at)
		return true;
	memory.bytes += size;
	return false;
}

void *__wrap_malloc(size_t size)
{
	return memory_none(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return memory_none(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return memory_none(size) ? NULL : __real_realloc(old, size);
}

static const struct sh_address address = { .qpn = 7, .mtu = IBV_MTU_4096 };

/* As a connection with a backup makes it: two NICs there, a path from each of ours. */
static bool peer_make(uint64_t instance)
{
	struct sh_peer *peer = sh_peer_get(instance);
	bool all = peer;
	uint8_t i;

	for (i = 0; peer && i < NICS; i++)
		all &= !sh_peer_learn(peer, i, &address, 1);
	for (i = 0; peer && i < NICS; i++)
		all &= sh_peer_route(peer, &sh_nics.nic[i], i) != NULL;
	return all;
}

static void peer_tells_key(struct sh_peer *peer)
{
	const struct sh_wire_key key = { .op = SH_WIRE_KEY_ADD,
					 .nic = 0,
					 .backup_nic = 1,
					 .rkey = 0x100,
					 .backup_rkey = 0x200 };
	struct sh_wire_header header;
	struct sh_wire_record record;
	struct sh_wire_reader reader;
	struct sh_wire_writer writer;
	uint8_t buf[128];

	sh_wire_begin(&writer, buf, sizeof(buf), peer->instance, sh.instance);
	assert_int_equal(sh_wire_put_keys(&writer, 1, &key, 1), 1);
	assert_int_equal(sh_wire_open(&reader, buf, sh_wire_end(&writer), &header), 0);
	assert_int_equal(sh_wire_next(&reader, &record), 1);
	sh_keys_heard(peer, &record);
}

static void peers_anew(void)
{
	sh_peers_module.reset();
	sh_conns_module.reset();
	memset(&memory, 0, sizeof(memory));
}

static void test_memory(void **state)
{
	struct sh_keymap *keys;
	uint32_t out;
	uint64_t i;

	peers_anew();
	for (i = 1; i <= PEERS; i++) {
		assert_true(peer_make(i));
		assert_null(sh_peer_keys(sh_peer_find(i), 0, 1));
		peer_tells_key(sh_peer_find(i));
		keys = sh_peer_keys(sh_peer_find(i), 0, 1);
		assert_true(keys && sh_keymap_get(keys, 0x100, &out) && out == 0x200);
		assert_null(sh_peer_keys(sh_peer_find(i), 1, 0));
	}
	fprintf(stderr, "%d peers on %d paths: %zu bytes each\n", PEERS, NICS,
		memory.bytes / PEERS);
	assert_in_range(memory.bytes / PEERS, 1, 3328);
}

/* Wherever memory ends: what is there works, and what is missing is made later. */
static void test_no_memory(void **state)
{
	struct sh_peer *peer;
	uint32_t fail_at;

	for (fail_at = 1;; fail_at++) {
		peers_anew();
		memory.fail_at = fail_at;
		if (peer_make(1))
			break;
		memory.fail_at = 0;
		assert_true(peer_make(1));
		peer = sh_peer_find(1);
		assert_int_equal(peer->n_paths, NICS);
		assert_int_equal(peer->n_nics, NICS);
		assert_int_equal(sh_peer_nic(peer, 1)->address.qpn, 7);
		assert_int_equal(sh_peer_nic(peer, 2)->revision, 0);
		assert_ptr_equal(sh_peer_path(peer, &sh_nics.nic[1], 1), peer->paths[1]);
		assert_null(sh_peer_path(peer, &sh_nics.nic[1], 0));
	}
	assert_in_range(fail_at, 6, 20);
}

/* ---- pings ---------------------------------------------------------------------------------- */

static const struct sh_path_config config = {
	.heartbeat = true,
	.beat_ns = 50 * MS,
	.loss_ns = 200 * MS,
	.idle_ns = 10 * S,
	.probe_min_ns = 20 * MS,
	.probe_max_ns = 1 * S,
	.hold_min_ns = 1 * S,
	.hold_max_ns = 120 * S,
	.calm_ns = 60 * S,
};

/* Each NIC's ring sends what lies in it within a millisecond, and answers come in the next. */
static struct crowd {
	struct sh_path_health path[PEERS][NICS];
	uint32_t seq[NICS][SH_CONTROL_SENDS], of[NICS][SH_CONTROL_SENDS], n[NICS];
	uint64_t pings, unsent;
} crowd;

static void crowd_answers(uint32_t nic, uint64_t now)
{
	uint32_t i;

	for (i = 0; i < crowd.n[nic]; i++)
		sh_path_pong(&crowd.path[crowd.of[nic][i]][nic], crowd.seq[nic][i], now);
	crowd.n[nic] = 0;
}

static void crowd_ping(uint32_t peer, uint32_t nic, uint64_t now)
{
	struct sh_path_health *path = &crowd.path[peer][nic];
	uint32_t seq;

	if (!sh_path_ping(path, now, &seq))
		return;
	if (crowd.n[nic] == SH_CONTROL_SENDS) {
		crowd.unsent++;
		sh_path_unsent(path, now);
		return;
	}
	crowd.of[nic][crowd.n[nic]] = peer;
	crowd.seq[nic][crowd.n[nic]++] = seq;
	crowd.pings++;
}

static void crowd_look(uint32_t peer, enum sh_path_work work, uint64_t now)
{
	struct sh_path_health *const paths[NICS] = { &crowd.path[peer][0], &crowd.path[peer][1] };

	sh_path_set_work(paths[0], work, now);
	sh_paths_spare(paths, NICS, now);
}

static void crowd_step(enum sh_path_work work, uint64_t now)
{
	uint32_t peer, nic;

	for (nic = 0; nic < NICS; nic++)
		crowd_answers(nic, now);
	for (peer = 0; peer < PEERS; peer++) {
		if (now % config.beat_ns == 0)
			crowd_look(peer, work, now);
		for (nic = 0; nic < NICS; nic++) {
			crowd_ping(peer, nic, now);
			assert_false(sh_path_suspect(&crowd.path[peer][nic]));
		}
	}
}

static void crowd_begin(uint64_t now)
{
	uint32_t i;

	memset(&crowd, 0, sizeof(crowd));
	for (i = 0; i < PEERS * NICS; i++) {
		sh_path_init(&crowd.path[i / NICS][i % NICS], &config, i * 2654435761u);
		sh_path_set_need(&crowd.path[i / NICS][i % NICS], SH_PATH_BUSY, now);
		sh_path_enable(&crowd.path[i / NICS][i % NICS], true, now);
	}
}

/* In the last of ten seconds. */
static uint64_t crowd_rate(enum sh_path_work work)
{
	uint64_t now, before = 0;

	crowd_begin(1 * S);
	for (now = 1 * S; now < 11 * S; now += MS) {
		if (now == 10 * S)
			before = crowd.pings;
		crowd_step(work, now);
	}
	fprintf(stderr, "%d peers on %d paths: %lu pings/s, work %d; %lu found no room so far\n",
		PEERS, NICS, (unsigned long)(crowd.pings - before), work,
		(unsigned long)crowd.unsent);
	return crowd.pings - before;
}

/* They come in bursts far larger than the ring, and none is missed. */
static void test_pings(void **state)
{
	assert_in_range(crowd_rate(SH_PATH_WORKS), 60000, 80000);
	assert_true(crowd.unsent);
	assert_in_range(crowd_rate(SH_PATH_COMPLETES), 2000, 8000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_pings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
