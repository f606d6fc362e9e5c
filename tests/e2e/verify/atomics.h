/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Atomics whose every result is known beforehand. */
#ifndef VERIFY_ATOMICS_H
#define VERIFY_ATOMICS_H

#include "oob.h"
#include "request.h"

struct vqp;

void atomic_request(struct vqp *q, struct request *r, uint64_t seq);
void atomic_check(struct vqp *q, const struct expect *e);
void atomic_verdict(struct vqp *q, const struct final_info *peer,
		    bool (*is_atomic)(const struct vqp *q, uint64_t seq));

#endif
