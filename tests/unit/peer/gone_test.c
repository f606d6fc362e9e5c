/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A NIC that was given up stays open in name, without a control QP: what was on its way to that finds none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shiftlib/conn/conns.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/peer.h"

static const struct sh_address address = { .qpn = 7, .mtu = IBV_MTU_4096 };
static struct sh_peer *peer;

static void nothing(void)
{
}

static const struct shift_real real = { .thread_inside = nothing };

int __wrap_sh_control_send(struct sh_path *path, const void *buf, size_t length);

/* Its ring has no room. */
int __wrap_sh_control_send(struct sh_path *path, const void *buf, size_t length)
{
	return -EAGAIN;
}

static int setup(void **state)
{
	sh_peers_module.reset();
	sh_conns_module.reset();
	sh.real = &real;
	sh_nics.n = 1;
	sh_nics.nic[0] = (struct sh_nic){ .name = "gone", .state = SH_NIC_OPEN };
	sh_nics.nic[0].worker = sh_worker_start("gone");
	peer = sh_peer_get(1);
	return peer && sh_nics.nic[0].worker && !sh_peer_learn(peer, 0, &address, 1) ? 0 : -1;
}

static void a_path_is_not_opened_from_there(void **state)
{
	struct sh_peer_path *path;

	sh_lock();
	path = sh_peer_route(peer, &sh_nics.nic[0], 0);
	assert_non_null(path);
	assert_true(path->opening);
	sh_wait_idle(&peer->busy);
	assert_false(path->opening);
	assert_null(path->path);
	assert_int_not_equal(peer->paths_retry_at, 0);
	sh_unlock();
}

/* Nor is the ring that has no room for it one that stands still. */
static void an_answer_stays_owed(void **state)
{
	struct sh_peer_path *path;

	sh_lock();
	path = sh_peer_route(peer, &sh_nics.nic[0], 0);
	sh_wait_idle(&peer->busy);
	path->path = (struct sh_path *)path; /* nobody looks into it */
	sh_heartbeat_ping_heard(path, 5);
	assert_true(path->pong_owed);
	assert_int_equal(path->pong_seq, 5);
	sh_unlock();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_path_is_not_opened_from_there, setup),
		cmocka_unit_test_setup(an_answer_stays_owed, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
