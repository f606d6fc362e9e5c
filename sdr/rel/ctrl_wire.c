/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ctrl_wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { ACK_WANT = 1, ACK_DECODED = 2, CTS_GONE = 1 };

const char *sdr_ctrl_name(enum sdr_ctrl_type type)
{
	static const char *const names[] = { "?",    "CTS",   "END",   "ACK", "PROBE",
					     "DONE", "OFFER", "KNOWN", "JOIN" };

	return type <= SDR_CTRL_JOIN ? names[type] : "?";
}

/* ---- a buffer that is walked through; short: it ended before -------------------------------- */

struct out {
	uint8_t *at, *end;
	bool is_short;
};

struct in {
	const uint8_t *at, *end;
	bool is_short;
};

static void put(struct out *o, uint64_t value, size_t n)
{
	value = htole64(value);
	if ((size_t)(o->end - o->at) < n) {
		o->is_short = true;
		return;
	}
	memcpy(o->at, &value, n);
	o->at += n;
}

static uint64_t get(struct in *i, size_t n)
{
	uint64_t value = 0;

	if ((size_t)(i->end - i->at) < n) {
		i->is_short = true;
		return 0;
	}
	memcpy(&value, i->at, n);
	i->at += n;
	return le64toh(value);
}

static uint8_t get8(struct in *i)
{
	return (uint8_t)get(i, 1);
}

static uint16_t get16(struct in *i)
{
	return (uint16_t)get(i, 2);
}

static uint32_t get32(struct in *i)
{
	return (uint32_t)get(i, 4);
}

/* ---- head ------------------------------------------------------------------------------------ */

static void put_head(struct out *o, const struct sdr_ctrl_head *h)
{
	put(o, SDR_CTRL_VERSION, 1);
	put(o, h->type, 1);
	put(o, h->flags, 2);
	put(o, h->connection, 4);
	put(o, h->sequence, 4);
	put(o, h->sent_us, 4);
	put(o, h->echo_us, 4);
	put(o, h->cts_seen, 8);
	put(o, h->ends_seen, 4);
	for (uint32_t i = 0; i < SDR_CTRL_NICS; i++)
		put(o, h->life[i], 1);
	put(o, h->down, 1);
	put(o, 0, 3);
}

static int get_head(struct in *i, struct sdr_ctrl_head *h)
{
	uint8_t version = get8(i);
	uint32_t zero;

	h->type = (enum sdr_ctrl_type)get8(i);
	h->flags = get16(i);
	h->connection = get32(i);
	h->sequence = get32(i);
	h->sent_us = get32(i);
	h->echo_us = get32(i);
	h->cts_seen = get(i, 8);
	h->ends_seen = get32(i);
	for (uint32_t k = 0; k < SDR_CTRL_NICS; k++)
		h->life[k] = get8(i);
	h->down = get8(i);
	zero = (uint32_t)get(i, 3);
	if (i->is_short || h->flags & ~SDR_CTRL_ASKS || zero)
		return -EBADMSG;
	return version == SDR_CTRL_VERSION ? 0 : -EPROTONOSUPPORT;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static bool put_cts(struct out *o, const struct sdr_ctrl *c)
{
	put(o, c->n, 8);
	put(o, c->count, 4);
	put(o, c->keys, 4);
	for (uint32_t i = 0; i < c->count && i < SDR_CTS_MAX; i++) {
		put(o, c->cts[i].addr, 8);
		put(o, c->cts[i].length, 8);
		put(o, c->cts[i].word, 8);
		put(o, c->cts[i].gone ? CTS_GONE : 0, 4);
		for (uint32_t k = 0; k < c->keys && k < SDR_RKEYS_MAX; k++)
			put(o, c->cts[i].rkeys[k], 4);
	}
	return c->count && c->count <= SDR_CTS_MAX && c->keys && c->keys <= SDR_RKEYS_MAX;
}

static bool get_entry(struct in *i, struct sdr_cts *cts, uint32_t keys)
{
	uint32_t flags;

	cts->addr = get(i, 8);
	cts->length = get(i, 8);
	cts->word = get(i, 8);
	flags = get32(i);
	for (uint32_t k = 0; k < keys; k++)
		cts->rkeys[k] = get32(i);
	cts->gone = flags & CTS_GONE;
	return !(flags & ~(uint32_t)CTS_GONE);
}

static bool get_cts(struct in *i, struct sdr_ctrl *c)
{
	c->n = get(i, 8);
	c->count = get32(i);
	c->keys = get32(i);
	if (!c->count || c->count > SDR_CTS_MAX || !c->keys || c->keys > SDR_RKEYS_MAX)
		return false;
	for (uint32_t k = 0; k < c->count; k++)
		if (!get_entry(i, &c->cts[k], c->keys))
			return false;
	return true;
}

static bool put_ack(struct out *o, const struct sdr_ack *a)
{
	uint32_t words = sdr_words(a->nbits);

	if (words > SDR_CTRL_WORDS || a->base % SDR_WORD)
		return false;
	put(o, a->write, 8);
	put(o, a->cumulative, 4);
	put(o, a->base, 4);
	put(o, a->nbits, 4);
	put(o, (a->want ? ACK_WANT : 0) | (a->decoded ? ACK_DECODED : 0), 4);
	for (uint32_t i = 0; i < words; i++)
		put(o, a->have[i], 8);
	for (uint32_t i = 0; a->want && i < words; i++)
		put(o, a->wanted[i], 8);
	return true;
}

static bool get_ack(struct in *i, struct sdr_ctrl *c)
{
	struct sdr_ack *a = &c->ack;
	uint32_t flags;

	a->write = c->n = get(i, 8);
	a->cumulative = get32(i);
	a->base = get32(i);
	a->nbits = get32(i);
	flags = get32(i);
	if (a->nbits > SDR_WINDOW_BITS || a->base % SDR_WORD || a->base > UINT32_MAX - a->nbits ||
	    flags & ~(uint32_t)(ACK_WANT | ACK_DECODED))
		return false;
	a->want = flags & ACK_WANT;
	a->decoded = flags & ACK_DECODED;
	for (uint32_t k = 0; k < sdr_words(a->nbits); k++)
		c->have[k] = get(i, 8);
	for (uint32_t k = 0; a->want && k < sdr_words(a->nbits); k++)
		c->wanted[k] = get(i, 8);
	a->have = c->have;
	a->wanted = c->wanted;
	return true;
}

static void put_plan(struct out *o, const struct sdr_plan *p)
{
	put(o, p->kind, 1);
	put(o, p->code, 1);
	put(o, p->k, 1);
	put(o, p->m, 1);
	put(o, p->depth, 4);
	put(o, p->chunks, 4);
	put(o, p->coded_from, 4);
	put(o, p->parity, 4);
	put(o, p->imm, 4);
	put(o, p->bytes, 8);
	put(o, p->inject_ns, 8);
	put(o, p->rtt_ns, 8);
	put(o, p->reorder_ns, 8);
	put(o, p->rto_ns, 8);
	put(o, p->fto_ns, 8);
}

static bool get_plan(struct in *i, struct sdr_plan *p)
{
	p->kind = (enum sdr_scheme_kind)get8(i);
	p->code = (enum sdr_code_kind)get8(i);
	p->k = get8(i);
	p->m = get8(i);
	p->depth = get32(i);
	p->chunks = get32(i);
	p->coded_from = get32(i);
	p->parity = get32(i);
	p->imm = get32(i);
	p->bytes = get(i, 8);
	p->inject_ns = get(i, 8);
	p->rtt_ns = get(i, 8);
	p->reorder_ns = get(i, 8);
	p->rto_ns = get(i, 8);
	p->fto_ns = get(i, 8);
	return !i->is_short && sdr_plan_valid(p);
}

static bool put_join(struct out *o, const struct sdr_ctrl_join *j)
{
	put(o, j->nic, 4);
	put(o, j->life, 4);
	put(o, j->stage, 4);
	put(o, j->lid, 4);
	for (uint32_t i = 0; i < sizeof(j->gid); i++)
		put(o, j->gid[i], 1);
	put(o, j->n_controls, 4);
	put(o, j->n_channels, 4);
	for (uint32_t i = 0; i < j->n_controls && i < SDR_CTRL_NICS; i++)
		put(o, j->control_qpn[i], 4);
	for (uint32_t i = 0; i < j->n_channels && i < SDR_CTRL_QPS; i++)
		put(o, j->qpn[i], 4);
	return j->n_controls <= SDR_CTRL_NICS && j->n_channels <= SDR_CTRL_QPS;
}

/* Queue pairs are told when there are some, and only then. */
static bool get_join(struct in *i, struct sdr_ctrl_join *j)
{
	j->nic = get32(i);
	j->life = get32(i);
	j->stage = get32(i);
	j->lid = get32(i);
	for (uint32_t k = 0; k < sizeof(j->gid); k++)
		j->gid[k] = get8(i);
	j->n_controls = get32(i);
	j->n_channels = get32(i);
	if (j->nic >= SDR_CTRL_NICS || j->life > SDR_LIFE_MAX || j->life % 2 == 0 ||
	    j->stage < SDR_STAGE_BURIED || j->stage > SDR_STAGE_CONNECTED || j->lid > 0xffff ||
	    j->n_controls > SDR_CTRL_NICS || j->n_channels > SDR_CTRL_QPS ||
	    (j->stage == SDR_STAGE_BURIED) != !j->n_channels)
		return false;
	for (uint32_t k = 0; k < j->n_controls; k++)
		j->control_qpn[k] = get32(i);
	for (uint32_t k = 0; k < j->n_channels; k++)
		j->qpn[k] = get32(i);
	return true;
}

int sdr_ctrl_write(const struct sdr_ctrl *c, void *buf, size_t size)
{
	struct out o = { .at = buf,
			 .end = (uint8_t *)buf + (size < SDR_CTRL_MAX ? size : SDR_CTRL_MAX) };
	bool ok = true;

	put_head(&o, &c->head);
	switch (c->head.type) {
	case SDR_CTRL_CTS: ok = put_cts(&o, c); break;
	case SDR_CTRL_END:
		put(&o, c->n, 8);
		put(&o, c->count, 4);
		break;
	case SDR_CTRL_ACK: ok = put_ack(&o, &c->ack); break;
	case SDR_CTRL_PROBE: put(&o, c->n, 8); break;
	case SDR_CTRL_DONE:
		put(&o, c->n, 8);
		put(&o, (uint32_t)c->status, 4);
		put(&o, c->count, 4);
		break;
	case SDR_CTRL_OFFER:
		put(&o, c->n, 8);
		put_plan(&o, &c->plan);
		break;
	case SDR_CTRL_KNOWN: break;
	case SDR_CTRL_JOIN: ok = put_join(&o, &c->join); break;
	}
	return ok && !o.is_short ? (int)(o.at - (uint8_t *)buf) : -EINVAL;
}

/* A status is 0 or an error's number, never anything that would be taken for success. */
static bool get_done(struct in *i, struct sdr_ctrl *c)
{
	c->n = get(i, 8);
	c->status = (int32_t)get32(i);
	c->count = get32(i);
	return c->status <= 0 && c->status > -4096;
}

static bool get_end(struct in *i, struct sdr_ctrl *c)
{
	c->n = get(i, 8);
	c->count = get32(i);
	return true;
}

static bool get_offer(struct in *i, struct sdr_ctrl *c)
{
	c->n = get(i, 8);
	return get_plan(i, &c->plan);
}

static bool get_body(struct in *i, struct sdr_ctrl *c)
{
	switch (c->head.type) {
	case SDR_CTRL_CTS: return get_cts(i, c);
	case SDR_CTRL_END: return get_end(i, c);
	case SDR_CTRL_ACK: return get_ack(i, c);
	case SDR_CTRL_PROBE: c->n = get(i, 8); return true;
	case SDR_CTRL_DONE: return get_done(i, c);
	case SDR_CTRL_OFFER: return get_offer(i, c);
	case SDR_CTRL_KNOWN: return true;
	case SDR_CTRL_JOIN: return get_join(i, &c->join);
	}
	return false;
}

int sdr_ctrl_read(struct sdr_ctrl *c, const void *buf, size_t size)
{
	struct in i = { .at = buf, .end = (const uint8_t *)buf + size };
	int ret;

	memset(c, 0, sizeof(*c));
	if (size > SDR_CTRL_MAX)
		return -EBADMSG;
	ret = get_head(&i, &c->head);
	if (ret)
		return ret;
	return get_body(&i, c) && !i.is_short && i.at == i.end ? 0 : -EBADMSG;
}
