/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets of a message, and their sequence numbers (IBA 9.7.2). Processes hand over whole
 * messages, or the rest of one; packets are counted, and made for a long cable only. Lock held.
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

/*
 * Number of packets of a message; an empty message is one. @mtu: as enum ibv_mtu counts; 0: none
 * was set, all is one packet.
 */
static inline uint32_t sn_psn_count(uint64_t length, uint8_t mtu)
{
	return length && mtu ? (uint32_t)((length - 1) >> (7 + mtu)) + 1 : 1;
}

/* Offset of the n-th packet in a SEND, WRITE or READ. */
static inline uint64_t sn_psn_offset(uint32_t n, uint8_t mtu)
{
	return (uint64_t)n << (7 + mtu);
}

/* Number of packets by its kind: the request's or, for a READ, the response's. */
uint32_t sn_psn_packets(const struct sn_pkt *pkt);
/*
 * The part of the message that is the packet's payload and may land: all; for a piece, one
 * packet's; less for a message that is cut.
 */
struct sn_span sn_psn_payload(const struct sn_pkt *pkt);
bool sn_psn_is_last(const struct sn_pkt *pkt); /* true: a whole message, or the piece at its end */

/* ---- requester ---- */

/* Finds the outstanding message that has that number; NULL: none. */
struct sn_txe *sn_psn_find(struct sn_qp *qp, uint32_t psn);
/*
 * Acknowledges all messages up to @psn. READs and atomics wait for their own responses, and hold
 * back the messages behind them. True if anything changed.
 */
bool sn_psn_ack(struct sn_qp *qp, uint32_t psn);
/* True if so many more packets would be more than may be under way. */
bool sn_psn_window_full(const struct sn_qp *qp, uint32_t packets);
/* First packet of a message that is sent again: packets before it have come. */
uint32_t sn_psn_resume(const struct sn_qp *qp, const struct sn_txe *tx);
uint32_t
sn_psn_next_packet(const struct sn_qp *qp); /* the same, for a message that has begun to leave */
uint32_t sn_psn_next_send(const struct sn_qp *qp); /* as ibv_query_qp() tells */

/* ---- responder ---- */

/* The part of the packet from the expected number on. */
struct sn_span sn_psn_span(const struct sn_qp *qp, const struct sn_pkt *pkt);
/*
 * Notes that the message is in memory up to @upto, the end of a packet: the next PSN is expected.
 */
void sn_psn_landed(struct sn_qp *qp, const struct sn_pkt *pkt, uint64_t upto);
/* Notes that all of the message was executed. */
void sn_psn_executed(struct sn_qp *qp, const struct sn_pkt *pkt);
uint32_t sn_psn_expected(const struct sn_qp *qp); /* as ibv_query_qp() tells */

/* ---- faults ---- */

uint32_t sn_psn_dice(uint32_t n); /* 0 to n - 1, by the fabric's seed */
/* Cuts a message: returns how many of its bytes arrive, whole packets, and not all. */
uint32_t sn_psn_cut(const struct sn_pkt *pkt);
/*
 * Cuts a message by a fault that struck while it was on the wire. false: none of its packets is
 * through.
 */
bool sn_psn_cut_short(struct sn_pkt *pkt);

#endif
