/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Keys that a remote end's SEND with invalidate ends (IBA 10.6.7.2.6). Lock held. */
#ifndef SIMNIC_DEVICE_INVALIDATE_H
#define SIMNIC_DEVICE_INVALIDATE_H

#include <stdbool.h>
#include <stdint.h>

struct sn_qp;

/* True if what arrives at the queue pair may end the key. */
bool sn_key_may_end(const struct sn_qp *qp, uint32_t key);
void sn_key_end(struct sn_qp *qp, uint32_t key);

#endif
