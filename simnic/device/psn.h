/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets of a message, and their sequence numbers (IBA 9.7.2). What is handed from one process to another
 * is a message, or the rest of one; its packets are counted, and made for a long cable only. Lock held.
 */
#ifndef SIMNIC_DEVICE_PSN_H
#define SIMNIC_DEVICE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#include "simnic/fabric/packet.h"

struct sn_qp;
struct sn_txe;

#define SN_PSN_MASK 0xffffff
#define SN_PSN_HALF 0x800000 /* IBA 9.7.2: so many may be under way */

/* Bytes of a message that are to land, or have yet to. */
struct sn_span {
	uint64_t from, to;
};

static inline int32_t sn_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t sn_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & SN_PSN_MASK;
}

/* @mtu: as enum ibv_mtu counts; 0: none was set, all is one packet. An empty message is one, too. */
static inline uint32_t sn_psn_count(uint64_t length, uint8_t mtu)
{
	return length && mtu ? (uint32_t)((length - 1) >> (7 + mtu)) + 1 : 1;
}

/* Of SENDs, WRITEs and READs: where the n-th packet begins. */
static inline uint64_t sn_psn_offset(uint32_t n, uint8_t mtu)
{
	return (uint64_t)n << (7 + mtu);
}

/* What it takes by its kind: the request or, of a READ, the response. */
uint32_t sn_psn_packets(const struct sn_pkt *pkt);
/* What of the message its payload is, and may land: all; of a piece, one packet's; less of one that is cut. */
struct sn_span sn_psn_payload(const struct sn_pkt *pkt);
bool sn_psn_is_last(const struct sn_pkt *pkt); /* is a whole message, or the piece at its end */

/* ---- requester ---- */

/* What is outstanding and has that number; NULL: nothing. */
struct sn_txe *sn_psn_find(struct sn_qp *qp, uint32_t psn);
/*
 * Everything up to @psn was executed. READs and atomics wait for their own responses, and hold back what is
 * behind them. Whether that is news.
 */
bool sn_psn_ack(struct sn_qp *qp, uint32_t psn);
/* Would so many more be more than may be under way? */
bool sn_psn_window_full(const struct sn_qp *qp, uint32_t packets);
/* Where to go on with a message that is sent again: packets before that have come. */
uint32_t sn_psn_resume(const struct sn_qp *qp, const struct sn_txe *tx);
uint32_t
sn_psn_next_packet(const struct sn_qp *qp); /* the same, of a message that has begun to leave */
uint32_t sn_psn_next_send(const struct sn_qp *qp); /* as ibv_query_qp() tells */

/* ---- responder ---- */

/* What the packet brings from the expected number on. */
struct sn_span sn_psn_span(const struct sn_qp *qp, const struct sn_pkt *pkt);
/* The message is in memory up to @upto, to the end of a packet: that is what is expected next. */
void sn_psn_landed(struct sn_qp *qp, const struct sn_pkt *pkt, uint64_t upto);
/* All of it was executed. */
void sn_psn_executed(struct sn_qp *qp, const struct sn_pkt *pkt);
uint32_t sn_psn_expected(const struct sn_qp *qp); /* as ibv_query_qp() tells */

/* ---- faults ---- */

uint32_t sn_psn_dice(uint32_t n); /* 0 to n - 1, by the fabric's seed */
/* A message that is cut: so many of its bytes arrive, whole packets, and not all. */
uint32_t sn_psn_cut(const struct sn_pkt *pkt);
/* A fault struck while it was on the wire: some of its packets may be through. false: none is. */
bool sn_psn_cut_short(struct sn_pkt *pkt);

#endif
