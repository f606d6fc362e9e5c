/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A librdmacm of our own: channels with events, ids that cannot be destroyed before each of their events
 * that was read is acknowledged, and RDMA devices that resolve addresses, or not.
 */
#ifndef TESTS_UNIT_CM_FAKE_RDMACM_H
#define TESTS_UNIT_CM_FAKE_RDMACM_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "shiftlib/shift.h"

extern const struct shift_cm_real fake_real;
extern atomic_bool fake_no_device; /* rdma_resolve_addr() fails */
extern atomic_int fake_ids;	   /* that live */

struct rdma_event_channel *fake_channel_make(bool blocking);
void fake_channel_free(struct rdma_event_channel *channel);
struct rdma_cm_id *fake_id_make(struct rdma_event_channel *channel, struct ibv_qp *qp);
/* The kernel has an event for that id. */
void fake_raise(struct rdma_cm_id *id, enum rdma_cm_event_type type);
/* Has somebody to wait? What poll() would say. */
bool fake_readable(struct rdma_event_channel *channel);
/* Does a thread sleep there, in rdma_get_cm_event()? */
bool fake_waited(struct rdma_event_channel *channel);
/* So many of its events were read and acknowledged. */
bool fake_settled(struct rdma_cm_id *id, int events);

#endif
