/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The receiver's word in the sender's memory: how many messages it has taken. */
#ifndef VERIFY_CREDIT_H
#define VERIFY_CREDIT_H

#include <stdint.h>

struct vqp;

/* Tells the sender of all messages up to rx_next by a small unsignaled WRITE. */
void credit_give(struct vqp *q);
/* The highest number that was ever seen there. */
uint64_t credit_read(struct vqp *q);

#endif
