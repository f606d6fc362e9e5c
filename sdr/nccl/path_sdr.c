/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The path over libsdr: each message is a Write. */
#include "path.h"

#include <errno.h>
#include <stdlib.h>

/* Ids and offsets share so many of an immediate's 32 bits; Writes need no more of the rest. */
enum { ID_AND_OFFSET_BITS = 28 };

/*
 * NCCL has up to eight messages under way: one in a hundred may take a round trip longer. By 0.999
 * messages of 512 KiB would have parity until a million packets have come without a loss.
 */
#define TAIL 0.99

struct plug_path {
	struct sdr_context *ctx;
	struct sdr_qp *qp;
	struct sdr_rel *rel;
};

static uint8_t bits_of(uint32_t slots)
{
	return (uint8_t)__builtin_ctz(slots);
}

static void path_stop(struct plug_path *p)
{
	if (p->rel)
		sdr_rel_destroy(p->rel);
	p->rel = NULL;
	if (p->qp)
		sdr_qp_destroy(p->qp);
	p->qp = NULL;
}

static void path_close(struct plug_path *p)
{
	path_stop(p);
	if (p->ctx)
		sdr_context_destroy(p->ctx);
	free(p);
}

static int make_qp(struct plug_path *p, const struct plug_settings *s,
		   const struct plug_terms *terms)
{
	struct sdr_qp_attr attr = { .max_msg_size = terms->max_message,
				    .max_msgs = terms->slots,
				    .channels = terms->channels,
				    .packet_lifetime_ns = terms->lifetime_ns,
				    .backend = s->backend,
				    .id_bits = bits_of(terms->slots) };

	if (attr.id_bits < 10)
		attr.id_bits = 10;
	attr.offset_bits = ID_AND_OFFSET_BITS - attr.id_bits;
	p->qp = sdr_qp_create(p->ctx, &attr);
	return p->qp ? 0 : -errno;
}

static int make_rel(struct plug_path *p, const struct plug_settings *s,
		    const struct plug_terms *terms, bool sends)
{
	struct sdr_rel_attr attr = { .scheme = s->scheme,
				     .writes = sends ? terms->in_flight : 1,
				     .receives = sends ? 1 : terms->in_flight,
				     .timeout_ns = s->timeout_ns,
				     .receive_timeout_ns = UINT64_MAX,
				     .max_parity = terms->max_parity,
				     .in_order = 1,
				     .tail = TAIL,
				     .rtt_ns = s->rtt_ns };

	p->rel = sdr_rel_create(p->qp, &attr);
	return p->rel ? 0 : -errno;
}

static int path_open(struct plug_path **path, const char *nics, const struct plug_settings *s,
		     const struct plug_terms *terms, bool sends)
{
	struct sdr_context_attr attr = { .gid_index = s->gid_index };
	struct plug_path *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->ctx = sdr_context_create(nics, &attr);
	err = p->ctx ? make_qp(p, s, terms) : -errno;
	if (!err)
		err = make_rel(p, s, terms, sends);
	if (err)
		path_close(p);
	else
		*path = p;
	return err;
}

static int path_info_get(struct plug_path *p, void *info, size_t *length)
{
	return sdr_qp_info_get(p->qp, info, length);
}

static int path_connect(struct plug_path *p, const void *info, size_t length)
{
	return sdr_qp_connect(p->qp, info, length);
}

static int path_reg(struct plug_path *p, void *addr, size_t length, struct plug_mr **mr)
{
	*mr = (struct plug_mr *)sdr_mr_reg(p->ctx, addr, length);
	return *mr ? 0 : -errno;
}

static int path_dereg(struct plug_path *p, struct plug_mr *mr)
{
	return sdr_mr_dereg((struct sdr_mr *)mr);
}

static int path_posted(struct plug_path *p, uint32_t ahead, uint64_t *length, uint64_t *word)
{
	struct sdr_rel_posted posted = { 0 };
	int err = sdr_rel_posted(p->rel, ahead, &posted);

	*length = posted.length;
	*word = posted.word;
	return err;
}

static int path_send(struct plug_path *p, struct plug_mr *mr, const void *addr, uint64_t length,
		     struct plug_op **op)
{
	return sdr_rel_write(p->rel, (struct sdr_mr *)mr, addr, length, 0, (struct sdr_req **)op);
}

static int path_recv(struct plug_path *p, struct plug_mr *mr, void *addr, uint64_t length,
		     uint64_t word, struct plug_op **op)
{
	return sdr_rel_recv_word(p->rel, (struct sdr_mr *)mr, addr, length, word,
				 (struct sdr_req **)op);
}

static int path_test(struct plug_path *p, struct plug_op *op, int *status, uint64_t *length)
{
	struct sdr_result result;

	if (!sdr_req_test((struct sdr_req *)op, &result))
		return 0;
	*status = result.status;
	*length = result.bytes;
	return 1;
}

static int path_poll(struct plug_path *p)
{
	return sdr_poll(p->ctx);
}

static void path_peer_over(struct plug_path *p)
{
	if (p->qp)
		sdr_qp_peer_over(p->qp);
}

static void path_rate_set(struct plug_path *p, uint64_t bps)
{
	sdr_qp_rate_set(p->qp, bps);
}

static const char *path_why(struct plug_path *p)
{
	return p->qp ? sdr_qp_why(p->qp) : "";
}

static void path_counts(struct plug_path *p, struct plug_counts *c)
{
	struct sdr_stats s;

	sdr_qp_stats(p->qp, &s);
	c->packets = s.sent + s.received;
	c->resent = s.resent;
	c->restored = s.decoded;
	c->nics_lost = s.nics_lost;
	c->rtt_ns = s.rtt_ns;
	c->loss = s.loss;
}

const struct plug_path_ops plug_path_sdr = {
	.name = "sdr",
	.open = path_open,
	.close = path_close,
	.stop = path_stop,
	.info_get = path_info_get,
	.connect = path_connect,
	.reg = path_reg,
	.dereg = path_dereg,
	.posted = path_posted,
	.send = path_send,
	.recv = path_recv,
	.test = path_test,
	.poll = path_poll,
	.peer_over = path_peer_over,
	.rate_set = path_rate_set,
	.why = path_why,
	.counts = path_counts,
};
