/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Paths to several peers of which some are slow: what is told, of whom, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shiftlib/base/config.h"
#include "shiftlib/base/list.h"
#include "shiftlib/conn/watch/slow_path.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/report/event.h"

#define MS    1000000ull
#define USUAL (80 * 1000ull)
#define LONG  (20 * MS)

enum { PEERS = 3, NICS = 2, ENOUGH = 10 };

static struct sh_peer peer[PEERS];
static struct sh_peer_path path[PEERS][NICS];
static struct sh_peer_path *paths[PEERS][NICS];
static struct sh_peer_nic there[PEERS][NICS];
static uint64_t trip[PEERS][NICS];

static void looks(int n)
{
	for (; n; n--) {
		for (int p = 0; p < PEERS; p++)
			for (int k = 0; k < NICS; k++)
				for (int pings = 0; pings < 3; pings++)
					sh_slow_path_add(&path[p][k].slow, trip[p][k]);
		sh_slow_paths_update();
	}
}

static int begin(void **state)
{
	(void)state;
	sh_peers_module.reset();
	sh_events_module.reset();
	sh_slow_path_reset();
	sh.config.gray.rules = (struct sh_gray_config){ .calm_ns = 1 };
	sh_nics.n = NICS;
	for (uint32_t k = 0; k < NICS; k++) {
		sh_nics.nic[k].index = k;
		snprintf(sh_nics.nic[k].name, sizeof(sh_nics.nic[k].name), "mlx5_%u", k);
	}
	memset(path, 0, sizeof(path));
	for (int p = 0; p < PEERS; p++) {
		peer[p] = (struct sh_peer){ .instance = 100 + (uint64_t)p,
					    .n_paths = NICS,
					    .paths = paths[p],
					    .n_nics = NICS,
					    .nics = there[p] };
		list_add_tail(&sh_peers.list, &peer[p].link);
		for (int k = 0; k < NICS; k++) {
			there[p][k] = (struct sh_peer_nic){ .number = (uint8_t)k, .revision = 1 };
			there[p][k].address.gid[15] = (uint8_t)(10 * p + k);
			path[p][k].peer = &peer[p];
			path[p][k].nic = &sh_nics.nic[k];
			path[p][k].remote_nic = (uint8_t)k;
			paths[p][k] = &path[p][k];
			trip[p][k] = USUAL;
		}
	}
	looks(ENOUGH);
	assert_int_equal(sh_event_last(), 0);
	return 0;
}

/* The only event since that one. */
static const struct sh_event *told(uint64_t since)
{
	assert_int_equal(sh_event_last(), since + 1);
	return sh_event_after(since);
}

static void one_path(void **state)
{
	const struct sh_event *event;
	struct sh_slow_path_sum sum;

	(void)state;
	trip[1][0] = LONG;
	looks(ENOUGH);
	event = told(0);
	assert_int_equal(event->kind, SH_EVENT_GRAY);
	assert_int_equal(event->cause, SH_CAUSE_SLOW_PATH);
	assert_string_equal(event->from, "mlx5_0");
	assert_int_equal(event->peer, 101);
	assert_true(event->peer_known);
	assert_int_equal(event->peer_from, 0);
	assert_int_equal(event->peer_gid[15], 10);
	assert_true(sh_slow_path_is(&sh_nics.nic[0]) && !sh_slow_path_is(&sh_nics.nic[1]));
	sh_slow_path_figures(&sh_nics.nic[0], &sum);
	assert_int_equal(sum.slow, 1);
	assert_int_equal(sum.paths, PEERS);
	assert_int_equal(sum.floor_ns, LONG);
	assert_int_equal(sum.instead_ns, USUAL);
	/* A second one is counted, and not told of. */
	trip[2][0] = 2 * LONG;
	looks(ENOUGH);
	assert_int_equal(sh_event_last(), 1);
	sh_slow_path_figures(&sh_nics.nic[0], &sum);
	assert_int_equal(sum.slow, 2);
	assert_int_equal(sum.floor_ns, 2 * LONG);
	/* One is well again: that is not yet all. */
	trip[2][0] = USUAL;
	looks(ENOUGH);
	assert_int_equal(sh_event_last(), 1);
	trip[1][0] = USUAL;
	looks(ENOUGH);
	event = told(1);
	assert_int_equal(event->kind, SH_EVENT_GRAY_OVER);
	assert_int_equal(event->cause, SH_CAUSE_SLOW_PATH);
	assert_string_equal(event->from, "mlx5_0");
	assert_false(sh_slow_path_any());
}

/* Of one of our NICs to everybody, and not at the same look: the NIC is named, once. */
static void one_nic(void **state)
{
	const struct sh_event *event;

	(void)state;
	for (int p = 0; p < PEERS; p++)
		trip[p][1] = LONG + (uint64_t)p * MS;
	sh_slow_path_add(&path[0][1].slow, USUAL); /* the last one that was quick */
	looks(ENOUGH);
	event = told(0);
	assert_string_equal(event->from, "mlx5_1");
	assert_string_equal(event->why, "all its paths, to several peers; nothing is moved");
	assert_int_equal(event->peer, 0);
	assert_false(event->peer_known);
	assert_false(sh_slow_path_is(&sh_nics.nic[0]));
	for (int p = 0; p < PEERS; p++)
		trip[p][1] = USUAL;
	looks(ENOUGH);
	assert_int_equal(told(1)->kind, SH_EVENT_GRAY_OVER);
}

/* Its peers are forgotten: nothing is slow any more. */
static void the_peer_goes(void **state)
{
	(void)state;
	trip[1][0] = LONG;
	looks(ENOUGH);
	assert_int_equal(told(0)->kind, SH_EVENT_GRAY);
	list_del(&peer[1].link);
	looks(1);
	assert_int_equal(told(1)->kind, SH_EVENT_GRAY_OVER);
	assert_false(sh_slow_path_any());
}

static void this_machine(void **state)
{
	(void)state;
	for (int p = 0; p < PEERS; p++)
		for (int k = 0; k < NICS; k++)
			trip[p][k] = LONG;
	looks(10 * ENOUGH);
	assert_int_equal(sh_event_last(), 0);
	for (int p = 0; p < PEERS; p++)
		trip[p][0] = USUAL;
	looks(ENOUGH);
	assert_string_equal(told(0)->from, "mlx5_1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_path, begin),
		cmocka_unit_test_setup(one_nic, begin),
		cmocka_unit_test_setup(the_peer_goes, begin),
		cmocka_unit_test_setup(this_machine, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
