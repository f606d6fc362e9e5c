/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Who leads, where a job that was killed has left an entry: the peer that it names never speaks, and
 * the right one speaks at once when it is found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kvclient/kv.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/meet/intro.h"
#include "shiftlib/conn/meet/intro_kv.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/paths.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/context.h"

#define OWN_QPN	 7
#define PEER_QPN 9
#define OWN	 50
#define LEFT	 99 /* instance of the killed job's process */
#define PEER	 20

static struct sh_nic nics[2];
static struct sh_ctx ctx;
static struct ibv_qp real;
static struct sh_qp qp;
static struct sh_peer peers[2];
static struct sh_peer_path route;
static int introductions;
static bool leads;

struct sh_peer *__wrap_sh_peer_get(uint64_t instance);
struct sh_peer *__wrap_sh_peer_get(uint64_t instance)
{
	struct sh_peer *peer = &peers[instance == LEFT];

	peer->instance = instance;
	return peer;
}

void __wrap_sh_peer_serve(struct sh_peer *peer, const struct ibv_ah_attr *ah);
void __wrap_sh_peer_serve(struct sh_peer *peer, const struct ibv_ah_attr *ah)
{
	assert_non_null(peer);
	assert_ptr_equal(ah, &qp.app.attr.ah_attr);
}

struct sh_peer_path *__wrap_sh_peer_route(struct sh_peer *peer, struct sh_nic *nic, uint8_t to);
struct sh_peer_path *__wrap_sh_peer_route(struct sh_peer *peer, struct sh_nic *nic, uint8_t to)
{
	assert_non_null(peer);
	assert_ptr_equal(nic, &nics[to]);
	return &route;
}

void __wrap_sh_paths_use_peer(struct sh_qp *of, struct sh_peer *peer);
void __wrap_sh_paths_use_peer(struct sh_qp *of, struct sh_peer *peer)
{
	of->peer = peer;
}

void __wrap_sh_paths_changed(struct sh_qp *of);
void __wrap_sh_paths_changed(struct sh_qp *of)
{
	assert_ptr_equal(of, &qp);
}

void __wrap_sh_conn_event(struct sh_qp *of, const struct sc_event *event);
void __wrap_sh_conn_event(struct sh_qp *of, const struct sc_event *event)
{
	assert_int_equal(event->type, SC_EV_INTRODUCED);
	introductions++;
	leads = event->leader;
	of->core.peer.introduced = true;
}

/* What the store says of the peer: an entry of that instance. */
static void found(uint64_t instance)
{
	const struct sh_intro_item item = { .get = true,
					    .peer = { .protocol = KV_PROTOCOL,
						      .instance = instance,
						      .conn_id = 1,
						      .nonce = (uint32_t)instance,
						      .qpn = PEER_QPN,
						      .remote_qpn = OWN_QPN,
						      .n_backup = 1,
						      .backup = { 1 } } };

	sh_intro_answer(&qp, &item, "");
}

static int setup(void **state)
{
	(void)state;
	sh_lock();
	sh_conns_module.reset();
	sh.instance = OWN;
	ctx = (struct sh_ctx){ .nic = &nics[0], .path = { &nics[0], &nics[1] }, .n_paths = 2 };
	real = (struct ibv_qp){ .qp_num = OWN_QPN };
	qp = (struct sh_qp){ .qp = &real, .ctx = &ctx };
	qp.app.attr.dest_qp_num = PEER_QPN;
	introductions = 0;
	route.path = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sh_unlock();
	return 0;
}

static void waits_for_a_way_to_its_first_peer(void **state)
{
	(void)state;
	found(PEER);
	assert_int_equal(introductions, 0);
	route.path = (void *)&route; /* nobody looks into it */
	sh_intro_part.standby.path_opened(&qp);
	assert_int_equal(introductions, 1);
	assert_true(leads);
}

/* The right peer's word may come before there is a way to it, and the core keeps its leader then. */
static void changes_its_peer_at_once(void **state)
{
	(void)state;
	route.path = (void *)&route;
	found(LEFT);
	assert_int_equal(introductions, 1);
	assert_false(leads);
	route.path = NULL;
	found(PEER);
	assert_int_equal(introductions, 2);
	assert_true(leads);
	found(PEER);
	assert_int_equal(introductions, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(waits_for_a_way_to_its_first_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(changes_its_peer_at_once, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
