/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The receive queue, the QP's own or a shared one, for all transports. Lock held. */
#ifndef SIMNIC_DEVICE_RECEIVE_H
#define SIMNIC_DEVICE_RECEIVE_H

#include "simnic/fabric/packet.h"

struct sn_qp;

#define SN_GRH_BYTES 40

enum sn_rq_verdict { SN_RQ_OK, SN_RQ_EMPTY, SN_RQ_TOO_LONG, SN_RQ_PROT, SN_RQ_LOST, SN_RQ_PART };
enum sn_rq_verdict sn_rq_consume(struct sn_qp *qp, const struct sn_pkt *pkt, const void *grh);
bool sn_rq_ready(const struct sn_qp *qp);
void sn_rq_complete_imm(struct sn_qp *qp, const struct sn_pkt *pkt);
/* takes a receive, completes it with an error */
void sn_rq_fail(struct sn_qp *qp, uint8_t syndrome);
/*
 * Flushes, on the way to ERR, the receive of a shared queue that this queue pair has begun to
 * fill.
 */
void sn_rq_flush_held(struct sn_qp *qp);
/* Writes a completion with an error for the receive at @idx. */
void sn_rq_err(struct sn_qp *qp, uint16_t idx, uint8_t syndrome);

#endif
