/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completions against what was posted. */
#ifndef VERIFY_COMPLETE_H
#define VERIFY_COMPLETE_H

#include "request.h"

struct vqp;
struct lane;

struct vqp *vqp_of(struct lane *l, uint32_t qp_num);
void complete_one(struct lane *l, const struct completion *c);
void fifo_push(struct vqp *q, struct fifo *f, const struct expect *e);
bool vqp_done(const struct vqp *q);
bool vqp_may_post(const struct vqp *q);
bool vqp_shall_end(const struct vqp *q);
bool vqp_take_last(struct vqp *q, const struct completion *c);
bool errors_allowed(const struct vqp *q);

#endif
