/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Posting: batches, layouts of scatter lists, the last message. */
#ifndef VERIFY_POST_H
#define VERIFY_POST_H

#include "bytes.h"
#include "request.h"

struct vqp;

struct request *batch_add(struct vqp *q);
void batch_post(struct vqp *q);
bool sq_room(const struct vqp *q, unsigned int n);
void recv_post(struct vqp *q, uint64_t seq, struct ibv_sge *sge, int nsge);
int sge_layout(const struct vqp *q, uint64_t hash, uint8_t *base, size_t len, struct ibv_sge *sge);
void sges_fill(struct vqp *q, const struct ibv_sge *sge, int nsge, struct bytes_id id);
void sges_check(struct vqp *q, const char *what, const struct ibv_sge *sge, int nsge, size_t len,
		struct bytes_id id);
void post_last(struct vqp *q);
/*
 * Ends a step of a pattern in which one end alone sends data: posts what the step has built, or
 * else the last message when it is due. True: something was built.
 */
bool post_step(struct vqp *q);

#endif
