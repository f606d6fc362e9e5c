/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The wire: packets out, payload in. Lock held. */
#ifndef SIMNIC_DEVICE_WIRE_H
#define SIMNIC_DEVICE_WIRE_H

#include <sys/uio.h>

#include "simnic/device/psn.h"
#include "simnic/fabric/packet.h"

struct sn_nic;
struct sn_qp;

void sn_wire_prepare(const struct sn_qp *qp, struct sn_pkt *pkt, enum sn_pkt_op op);
/* True if its way is a long cable. There a SEND or WRITE goes as packets, each SN_PKT_F_PIECE. */
bool sn_wire_is_long(const struct sn_pkt *pkt);
int sn_wire_send(const struct sn_qp *qp, struct sn_pkt *pkt);
/* sn_wire_send() for a frame, which gets lost, staging and all, where a message would wait. */
void sn_wire_send_frame(struct sn_nic *nic, struct sn_pkt *pkt);
/*
 * Lands the bytes of a packet's payload that are in the span, in order; dst is the place of the
 * first one. span->from moves to the first byte that has not come. -ENOLINK, -ESTALE, -ESRCH: the
 * rest never arrived. -EFAULT: a buffer is not mapped.
 */
int sn_wire_land(const struct sn_pkt *pkt, const struct iovec *dst, uint32_t n_dst,
		 struct sn_span *span);
/* vlan: the VLAN to search; 0: none */
int sn_wire_find_gid(const uint8_t gid[16], uint16_t vlan, int *host, int *nic);
int sn_wire_find_lid(uint32_t rail, uint16_t lid, int *host, int *nic);
void sn_count_landed(const struct sn_qp *qp, uint32_t messages, uint64_t bytes);
bool sn_wire_paused(const struct sn_qp *qp);
/* True if its NIC does not read memory (SN_FAULT_NIC_BLIND), or has just found some missing. */
bool sn_wire_blind(const struct sn_qp *qp);
/* The process (its slot + 1) that has the queue pair which this one is connected to; 0: none. */
uint32_t sn_wire_owner(const struct sn_qp *qp);
void sn_wire_sent(struct sn_qp *qp); /* notes the place of a packet that was sent just now */
/*
 * True if the last packet is still unread: its receiver's NIC is a thread, which waits for a
 * processor. False where that process is gone, or stopped, or does not come for seconds.
 */
bool sn_wire_unread(const struct sn_qp *qp);

#endif
