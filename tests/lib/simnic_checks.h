/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What unit tests over two processes of simnic (simnic_rig.h) ask of both ends. Needs cmocka.h. */
#ifndef TESTS_LIB_SIMNIC_CHECKS_H
#define TESTS_LIB_SIMNIC_CHECKS_H

#include "tests/lib/simnic_rig.h"

static inline void peer_recv(uint32_t offset, uint32_t length)
{
	assert_int_equal(
		rig_order((struct rig_order){ .op = RIG_RECV, .a = offset, .b = length }).result,
		0);
}

static inline void expect_status(enum ibv_wc_status status)
{
	struct ibv_wc wc = { 0 };

	assert_int_equal(rig_poll(&wc), status);
}

static inline void expect_peer_bytes(uint32_t offset, const void *bytes, size_t n)
{
	struct rig_reply reply = rig_order((struct rig_order){ .op = RIG_MEM_READ, .a = offset });

	assert_int_equal(reply.result, 0);
	assert_memory_equal(reply.bytes, bytes, n);
}

#endif
