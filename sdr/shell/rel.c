/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Writes over a connection: their ends, their memory, and what both have in common. */
#include "sdr/shell/rel.h"

#include <stdlib.h>
#include <string.h>

SDR_API const char *sdr_scheme_name(int scheme)
{
	static const char *const names[] = { "sr", "nack", "ec", "hybrid" };

	if (scheme == SDR_SCHEME_AUTO)
		return "auto";
	return scheme >= 0 && scheme <= SDR_SCHEME_HYBRID ? names[scheme] : "?";
}

struct sdr_writer *sdr_writer_of(struct sdr_rel *rel, uint64_t write)
{
	return &rel->writers[write & (rel->attr.writes - 1)];
}

struct sdr_reader *sdr_reader_of(struct sdr_rel *rel, uint64_t write)
{
	return &rel->readers[write & (rel->attr.receives - 1)];
}

/* ---- code ------------------------------------------------------------------------------------ */

int sdr_rel_code(const struct sdr_plan *p, struct sdr_code *c)
{
	return sdr_code_init(c, p->code == SDR_CODE_XOR, p->k, p->m);
}

void sdr_rel_pieces(const struct sdr_rel *rel, const struct sdr_plan *p,
		    const struct sdr_submessage *s, uint64_t data, uint8_t *code,
		    struct sdr_piece *d, struct sdr_piece *c)
{
	uint64_t chunk = sdr_chunk_bytes(rel->qp), at, left;

	for (uint32_t i = 0; i < s->data; i++) {
		at = (uint64_t)(p->coded_from + s->data_first + i * s->stride) * chunk;
		left = p->bytes - at;
		d[i] = (struct sdr_piece){ (uint8_t *)(uintptr_t)(data + at),
					   left < chunk ? left : chunk, false };
	}
	for (uint32_t i = 0; i < s->parity; i++)
		c[i] = (struct sdr_piece){ code + (s->parity_first + i * s->stride) * chunk, chunk,
					   false };
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int make_code(struct sdr_rel *rel, uint32_t chunks, uint8_t **code, struct sdr_mr **mr)
{
	size_t size = (size_t)chunks * sdr_chunk_bytes(rel->qp);

	if (posix_memalign((void **)code, 4096, size)) {
		*code = NULL;
		return -ENOMEM;
	}
	*mr = sdr_mr_reg(rel->qp->ctx, *code, size);
	return *mr ? 0 : -errno;
}

/*
 * True if this end codes what it sends. What it receives may be coded whatever its own scheme is.
 */
static bool is_coded(const struct sdr_rel *rel)
{
	return rel->attr.scheme != SDR_SCHEME_SR && rel->attr.scheme != SDR_SCHEME_NACK;
}

static int make_writer(struct sdr_rel *rel, struct sdr_writer *w)
{
	uint32_t words = sdr_words(rel->chunks_max);

	w->acked = calloc(words, sizeof(*w->acked));
	w->wanted = calloc(words, sizeof(*w->wanted));
	w->left_at = calloc(rel->chunks_max, sizeof(*w->left_at));
	if (!w->acked || !w->wanted || !w->left_at)
		return -ENOMEM;
	return make_code(rel, is_coded(rel) ? rel->parity_max : 1, &w->code, &w->code_mr);
}

static int make_reader(struct sdr_rel *rel, struct sdr_reader *r)
{
	uint32_t words = sdr_words(rel->chunks_max);
	struct sdr_rx_memory *m = &r->memory;

	m->have = calloc(words, sizeof(*m->have));
	m->want = calloc(words, sizeof(*m->want));
	m->have_parity = calloc(sdr_words(rel->parity_max), sizeof(*m->have_parity));
	m->asked = calloc(rel->chunks_max, sizeof(*m->asked));
	m->subs = calloc(rel->chunks_max, sizeof(*m->subs));
	if (!m->have || !m->want || !m->have_parity || !m->asked || !m->subs)
		return -ENOMEM;
	return make_code(rel, rel->parity_max, &r->code, &r->code_mr);
}

/* How much parity a Write of all chunks may have: at least one chunk, as k and m are. */
static int measure(struct sdr_rel *rel)
{
	uint64_t chunk = sdr_chunk_bytes(rel->qp), parity;

	rel->chunks_max = (uint32_t)((rel->qp->attr.max_msg_size + chunk - 1) / chunk);
	parity = ((uint64_t)rel->chunks_max * rel->attr.m + rel->attr.k - 1) / rel->attr.k;
	if (rel->attr.max_parity && rel->attr.max_parity < parity * chunk)
		parity = rel->attr.max_parity > chunk ? rel->attr.max_parity / chunk : 1;
	rel->parity_max = (uint32_t)parity;
	return parity * chunk > sdr_msg_room(rel->qp) ? -EINVAL : 0;
}

static void free_code(uint8_t *code, struct sdr_mr *mr)
{
	sdr_mr_free(mr);
	free(code);
}

static void let_go(struct sdr_req *req)
{
	if (req->used)
		req->mr->uses--;
	req->used = false;
}

/* What sdr_rel_ready() makes. */
static void unmake(struct sdr_rel *rel)
{
	for (uint32_t i = 0; rel->writers && i < rel->attr.writes; i++) {
		struct sdr_writer *w = &rel->writers[i];

		free(w->acked);
		free(w->wanted);
		free(w->left_at);
		free_code(w->code, w->code_mr);
		w->acked = w->wanted = NULL;
		w->left_at = NULL;
		w->code = NULL;
		w->code_mr = NULL;
	}
	for (uint32_t i = 0; rel->readers && i < rel->attr.receives; i++) {
		struct sdr_reader *r = &rel->readers[i];
		struct sdr_rx_memory *m = &r->memory;

		free(m->have);
		free(m->want);
		free(m->have_parity);
		free(m->asked);
		free(m->subs);
		free_code(r->code, r->code_mr);
		r->memory = (struct sdr_rx_memory){ 0 };
		r->code = NULL;
		r->code_mr = NULL;
	}
}

/* Once connected: then the chunk's size is known. */
int sdr_rel_ready(struct sdr_rel *rel)
{
	int err;

	rel->qp->now = sdr_clock_ns();
	if (rel->qp->error || rel->made)
		return rel->qp->error;
	if (!rel->qp->connected)
		return -ENOTCONN;
	err = measure(rel);
	for (uint32_t i = 0; i < rel->attr.writes && !err; i++)
		err = make_writer(rel, &rel->writers[i]);
	for (uint32_t i = 0; i < rel->attr.receives && !err; i++)
		err = make_reader(rel, &rel->readers[i]);
	rel->made = !err;
	if (err)
		unmake(rel);
	return err;
}

static void rel_free(struct sdr_rel *rel)
{
	for (uint32_t i = 0; rel->writers && i < rel->attr.writes; i++)
		let_go(&rel->writers[i].req);
	for (uint32_t i = 0; rel->readers && i < rel->attr.receives; i++)
		let_go(&rel->readers[i].req);
	unmake(rel);
	free(rel->writers);
	free(rel->readers);
	free(rel->scratch);
	free(rel);
}

/* ---- calls ----------------------------------------------------------------------------------- */

#define TIMEOUT_MAX_NS (1ull << 62) /* a century: a time is added to it */

static void set_defaults(struct sdr_rel_attr *a)
{
	a->k = a->k ? a->k : 32;
	a->m = a->m ? a->m : 8;
	a->writes = a->writes ? a->writes : 4;
	a->receives = a->receives ? a->receives : a->writes;
	a->timeout_ns = a->timeout_ns ? a->timeout_ns : 30000000000ull;
	if (a->timeout_ns > TIMEOUT_MAX_NS)
		a->timeout_ns = TIMEOUT_MAX_NS;
	a->receive_timeout_ns = a->receive_timeout_ns ? a->receive_timeout_ns : a->timeout_ns;
	if (a->receive_timeout_ns > TIMEOUT_MAX_NS)
		a->receive_timeout_ns = TIMEOUT_MAX_NS;
	a->rtt_ns = a->rtt_ns ? a->rtt_ns : 10000000;
	a->max_sent = a->max_sent > 0 ? a->max_sent : 1.3;
	a->tail = a->tail > 0 ? a->tail : 0.999;
}

static bool is_number_open(const struct sdr_qp *qp, uint32_t n)
{
	return !(n & (n - 1)) && n <= qp->attr.max_msgs / 2 &&
	       n <= SDR_RESULTS; /* an answer that was lost is given again */
}

static bool makes_sense(const struct sdr_qp *qp, const struct sdr_rel_attr *a)
{
	return a->scheme >= SDR_SCHEME_AUTO && a->scheme <= SDR_SCHEME_HYBRID &&
	       a->code <= SDR_CODE_XOR && a->k <= SDR_CODE_CHUNKS && a->m <= a->k &&
	       a->k + a->m <= SDR_CODE_CHUNKS && a->max_sent >= 1 && a->tail < 1 &&
	       is_number_open(qp, a->writes) && is_number_open(qp, a->receives);
}

SDR_API struct sdr_rel *sdr_rel_create(struct sdr_qp *qp, const struct sdr_rel_attr *attr)
{
	struct sdr_rel *rel = calloc(1, sizeof(*rel));

	if (!rel)
		return NULL;
	rel->qp = qp;
	rel->attr = attr ? *attr : (struct sdr_rel_attr){ .scheme = SDR_SCHEME_AUTO };
	set_defaults(&rel->attr);
	errno = EINVAL;
	if (qp->rel || qp->connected || !makes_sense(qp, &rel->attr))
		goto free_rel;
	errno = ENOMEM;
	rel->writers = calloc(rel->attr.writes, sizeof(*rel->writers));
	rel->readers = calloc(rel->attr.receives, sizeof(*rel->readers));
	if (!rel->writers || !rel->readers ||
	    posix_memalign((void **)&rel->scratch, 64, (size_t)SDR_COLUMN * SDR_CODE_CHUNKS))
		goto free_rel;
	qp->rel = rel;
	return rel;
free_rel:
	rel_free(rel);
	return NULL;
}

/* Shuts the connection before the Writes' memory goes: nothing may reach that any more. */
static void shut(struct sdr_qp *qp)
{
	sdr_rails_join(qp);
	for (uint32_t i = 0; i < qp->n_channels; i++)
		sdr_channel_close(&qp->channels[i]);
	qp->n_channels = 0;
	if (qp->backing.priv)
		qp->backing.ops->close(&qp->backing); /* no window stands on a region that goes */
	qp->error = -ESHUTDOWN;
	qp->rails.shut = true;
}

SDR_API int sdr_rel_destroy(struct sdr_rel *rel)
{
	shut(rel->qp);
	rel->qp->rel = NULL;
	rel_free(rel);
	return 0;
}

SDR_API int sdr_req_test(struct sdr_req *req, struct sdr_result *result)
{
	struct sdr_rel *rel = req->rel;

	if (!req->over)
		return 0;
	*result =
		(struct sdr_result){ .status = req->status, .bytes = req->bytes, .imm = req->imm };
	if (req->send) {
		const struct sdr_tx *t = &sdr_writer_of(rel, req->write)->tx;

		result->scheme = t->plan.kind;
		result->chunks = t->plan.chunks;
		result->sent = t->sent;
		result->resent = t->resent;
	} else {
		const struct sdr_rx *r = &sdr_reader_of(rel, req->write)->rx;

		result->scheme = r->plan.kind;
		result->chunks = r->plan.chunks;
		result->decoded = r->decoded;
	}
	let_go(req);
	return 1;
}

/* ---- from the connection --------------------------------------------------------------------- */

void sdr_rel_allowed(struct sdr_rel *rel, const struct sdr_action *a)
{
	struct sdr_writer *w = sdr_writer_of(rel, a->n / 2);

	if (!w->req.used || w->req.write != a->n / 2)
		return;
	(a->n % 2 ? &w->parity : &w->data)->cts = a->cts;
	if (++w->req.n_done == 2)
		sdr_tx_allow(&w->tx, rel->qp->now);
}

void sdr_rel_gone(struct sdr_rel *rel, uint64_t n)
{
	struct sdr_writer *w = sdr_writer_of(rel, n / 2);

	if (w->req.used && w->req.write == n / 2)
		sdr_tx_fail(&w->tx, -ECANCELED);
}

void sdr_rel_done(struct sdr_rel *rel, uint64_t n)
{
	struct sdr_reader *r = sdr_reader_of(rel, n / 2);

	rel->qp->recvs[n & (rel->qp->attr.max_msgs - 1)].used = false;
	if (r->req.write == n / 2)
		r->req.n_done++;
}

void sdr_rel_hear(struct sdr_rel *rel, const struct sdr_ctrl *c)
{
	if (!rel->made)
		return;
	if (c->head.type == SDR_CTRL_OFFER || c->head.type == SDR_CTRL_PROBE)
		sdr_reader_hear(rel, c);
	else
		sdr_writer_hear(rel, c);
}

bool sdr_rel_progress(struct sdr_rel *rel)
{
	bool tick = rel->qp->now >= rel->tick_at, any = false;

	if (!rel->made)
		return false;
	if (tick)
		rel->tick_at = rel->qp->now + 100000;
	for (uint32_t i = 0; i < rel->attr.receives; i++) {
		struct sdr_reader *r = &rel->readers[i];

		if (r->req.used)
			any |= sdr_reader_progress(rel, r);
	}
	for (uint32_t i = 0; i < rel->attr.writes; i++) {
		/* The slot that the next Write will have is that of the oldest one. */
		struct sdr_writer *w =
			sdr_writer_of(rel, i + (rel->attr.in_order ? rel->next_send : rel->turn));

		if (w->req.used && !w->req.over)
			any |= sdr_writer_progress(rel, w, tick);
	}
	sdr_readers_skip(rel);
	sdr_writers_skip(rel);
	rel->turn++;
	return any;
}

void sdr_rel_forget_keys(struct sdr_rel *rel, uint32_t nic)
{
	for (uint32_t i = 0; i < rel->attr.writes; i++) {
		rel->writers[i].data.cts.rkeys[nic] = 0;
		rel->writers[i].parity.cts.rkeys[nic] = 0;
	}
}

/*
 * Fails all Writes when the connection has failed and nothing reaches its buffers. What both ends
 * have agreed on before stays so.
 */
void sdr_rel_failed(struct sdr_rel *rel)
{
	if (!rel->qp->rails.shut || !rel->made)
		return;
	for (uint32_t i = 0; i < rel->attr.writes; i++)
		sdr_writer_failed(rel, &rel->writers[i]);
	for (uint32_t i = 0; i < rel->attr.receives; i++)
		sdr_reader_failed(rel, &rel->readers[i]);
}
