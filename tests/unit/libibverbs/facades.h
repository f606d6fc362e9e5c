/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The facades of shiftlib/ put to use by the smallest shell that can: with SHIFT_TEST_FACADE set,
 * channels and asynchronous events are facades and nothing else is done. channel.c and async.c are
 * compiled with their own shift_*() under the names below, so that the pass-through counts first.
 */
#ifndef TESTS_DROPIN_FACADES_H
#define TESTS_DROPIN_FACADES_H

#include <infiniband/verbs.h>
#include "shiftlib/shift.h"

void facades_init(const struct shift_real *real);
void facades_context_opened(struct ibv_context *context);
void facades_context_closing(struct ibv_context *context);
struct ibv_comp_channel *facades_create_comp_channel(struct ibv_context *context);
int facades_destroy_comp_channel(struct ibv_comp_channel *channel);
/* After the real create with facade_channel_real(channel). */
void facades_cq_created(struct ibv_cq *cq, struct ibv_comp_channel *channel);
int facades_destroy_cq(struct ibv_cq *cq);
int facades_destroy_qp(struct ibv_qp *qp);

struct ibv_comp_channel *facade_channel_real(struct ibv_comp_channel *channel);
int facade_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void facade_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);
void facade_async_real_begin(struct ibv_context *context);
void facade_async_real_end(struct ibv_context *context);
int facade_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void facade_ack_async_event(struct ibv_async_event *event);

#endif
