// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The bytes of messages. Each message tells its sender and its number, and the rest follows from
 * that. A message that completes a receive also tells how many WRITEs came directly before it:
 * they must be in memory by then.
 */
#include "bystanders.h"

#include <endian.h>
#include <string.h>

struct header {
	uint32_t unit, side, seq, len, before;
};

uint8_t *zone_slot(uint8_t *mem, enum zone zone, uint32_t seq)
{
	return mem + (size_t)zone * ZONE + (size_t)(seq % SLOTS) * SLOT;
}

static uint8_t byte_at(const struct header *h, uint32_t i)
{
	uint32_t x = (h->unit * 0x9e3779b1u) ^ (h->side * 0x85ebca6bu) ^ (h->seq * 0xc2b2ae35u) ^ i;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	return (uint8_t)(x >> 13);
}

static void fill(uint8_t *at, const struct header *h)
{
	memcpy(at, h, sizeof(*h));
	for (uint32_t i = sizeof(*h); i < h->len; i++)
		at[i] = byte_at(h, i);
}

void payload_fill(uint8_t *at, const struct end *e, uint32_t seq, uint32_t len, uint32_t before)
{
	struct header h = { e->unit, e->side, seq, len, before };

	fill(at, &h);
}

/* Fills the memory that the peer's READs find. */
void payload_fill_source(struct end *e)
{
	for (uint32_t seq = 0; seq < SLOTS; seq++) {
		struct header h = { e->unit, e->side | 2, seq, BODY, 0 };

		fill(zone_slot(e->mem, ZONE_SOURCE, seq), &h);
	}
}

static bool is_whole(const uint8_t *at, const struct header *h)
{
	struct header got;

	memcpy(&got, at, sizeof(got));
	if (got.unit != h->unit || got.side != h->side || got.seq != h->seq || got.len < h->len)
		return false;
	for (uint32_t i = sizeof(got); i < h->len; i++)
		if (at[i] != byte_at(h, i))
			return false;
	return true;
}

static void check_writes(struct end *e, const struct header *last)
{
	for (uint32_t i = 1; i <= last->before; i++) {
		struct header h = { e->unit, !e->side, last->seq - i, sizeof(h), 0 };
		uint8_t *at = zone_slot(e->mem, ZONE_TARGET, h.seq);

		memcpy(&h.len, at + offsetof(struct header, len), sizeof(h.len));
		if (h.len > BODY || h.len < sizeof(h) || !is_whole(at, &h))
			wrong("unit %u side %u: WRITE %u is not in memory behind %u", e->unit,
			      e->side, h.seq, last->seq);
	}
}

/*
 * Checks a message. at: the memory of the receive. A WRITE with immediate has brought its bytes
 * elsewhere.
 */
void payload_arrived(struct end *e, const struct ibv_wc *wc, const uint8_t *at)
{
	struct header h = { e->unit, !e->side, 0, wc->byte_len, 0 };
	char what = 's';

	if (e->type == IBV_QPT_UD) {
		at += GRH;
		h.len -= GRH;
	}
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		at = zone_slot(e->mem, ZONE_TARGET, be32toh(wc->imm_data));
		what = 'W';
	} else if (wc->wc_flags & IBV_WC_WITH_IMM) {
		what = 'i';
	}
	if (h.len < sizeof(h)) {
		wrong("unit %u side %u: a message of %u bytes", e->unit, e->side, h.len);
		return;
	}
	memcpy(&h.seq, at + offsetof(struct header, seq), sizeof(h.seq));
	memcpy(&h.before, at + offsetof(struct header, before), sizeof(h.before));
	if (!is_whole(at, &h) || (what != 's' && be32toh(wc->imm_data) != h.seq))
		wrong("unit %u side %u: bytes of message %u", e->unit, e->side, h.seq);
	else if (h.seq + 1 <= e->arrived)
		wrong("unit %u side %u: message %u behind %u", e->unit, e->side, h.seq,
		      e->arrived - 1);
	else
		check_writes(e, &h);
	e->arrived = h.seq + 1;
	e->recvs.len += (size_t)snprintf(e->recvs.text + e->recvs.len, LOG - e->recvs.len,
					 " %u%c%u", h.seq, what, h.len);
}

/* A READ or an atomic has completed. */
void payload_came_back(struct end *e, uint32_t index)
{
	const uint8_t *at = zone_slot(e->mem, ZONE_LOCAL, index);
	struct header h = { e->unit, (uint32_t)!e->side | 2, index % SLOTS,
			    e->request[index % SLOTS].len, 0 };
	uint64_t value;

	if (e->request[index % SLOTS].what == 'r' && !is_whole(at, &h))
		wrong("unit %u side %u: bytes of READ %u", e->unit, e->side, index);
	if (e->request[index % SLOTS].what != 'a')
		return;
	memcpy(&value, at, sizeof(value));
	if (e->adds_known && value != e->adds)
		wrong("unit %u side %u: atomic %u", e->unit, e->side, index);
	e->adds = value + 1;
	e->adds_known = true;
}
