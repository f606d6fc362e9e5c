/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire: packets out, payload in. Payload lands with one copy: the receiver's device thread
 * pulls it out of the sender's memory, while the sender's QP is still in the generation that the
 * packet names. READ responses and datagrams are staged by the sender instead, because nothing
 * keeps their source stable until the receiver has come round; datagrams in the fabric, as nobody
 * sends them again when the sender is gone.
 */
#include "simnic/device/internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define GEN_SHIFT	8
#define GEN_PULLS	((1u << GEN_SHIFT) - 1)
#define GEN_WAIT_NS	5000
#define GEN_ASK_NS	1000000ULL    /* a pull takes microseconds: does the puller live? */
#define GEN_WAIT_MAX_NS 500000000ULL  /* it is stopped in the middle of a pull */
#define STAGE_LOST_NS	2000000000ULL /* longer: the receiver died with the slot */

/* ---- generations ---------------------------------------------------------------------------- */

static _Atomic uint64_t *gen_word(uint32_t host, uint32_t nic, uint32_t qpn)
{
	return &sn_engine.fabric->nic[host][nic].qpn_gen[qpn & (SN_QPN_MAX - 1)];
}

void sn_gen_begin(struct sn_qp *qp)
{
	_Atomic uint64_t *word = gen_word(sn_engine.host, qp->dev->nic_index, qp->qpn);

	/* Clears what a puller that died left behind. */
	qp->gen = (atomic_load(word) >> GEN_SHIFT) + 1;
	atomic_store(word, qp->gen << GEN_SHIFT);
}

/* The only one that pulls from this QP is the process of the QP that it is connected to. */
static bool puller_is_gone(const struct sn_qp *qp)
{
	const struct sn_fabric *f = sn_engine.fabric;
	uint32_t owner;
	int32_t pid;

	if (qp->dst_host < 0 || qp->dest_qpn >= SN_QPN_MAX)
		return true;
	owner = atomic_load(&f->nic[qp->dst_host][qp->dst_nic].qpn_owner[qp->dest_qpn]);
	pid = owner ? atomic_load(&f->proc[owner - 1].pid) : 0;
	return pid <= 0 || (kill(pid, 0) && errno == ESRCH);
}

/* From here on nobody reads this QP's payload any more: the buffers are the application's. */
void sn_gen_end(struct sn_qp *qp)
{
	_Atomic uint64_t *word = gen_word(sn_engine.host, qp->dev->nic_index, qp->qpn);
	struct timespec nap = { .tv_nsec = GEN_WAIT_NS };
	uint64_t start = sn_clock_ns(), waited;

	atomic_fetch_add(word, 1u << GEN_SHIFT);
	qp->gen = 0;
	while (atomic_load(word) & GEN_PULLS) {
		waited = sn_clock_ns() - start;
		if (waited > GEN_WAIT_MAX_NS || (waited > GEN_ASK_NS && puller_is_gone(qp)))
			break;
		nanosleep(&nap, NULL);
	}
}

static bool gen_pull_begin(const struct sn_pkt *pkt)
{
	_Atomic uint64_t *word = gen_word(pkt->src_host, pkt->src_nic, pkt->src_qpn);
	uint64_t seen = atomic_load(word);

	do {
		if (seen >> GEN_SHIFT != pkt->src_gen || (seen & GEN_PULLS) == GEN_PULLS)
			return false;
	} while (!atomic_compare_exchange_weak(word, &seen, seen + 1));
	return true;
}

static void gen_pull_end(const struct sn_pkt *pkt)
{
	atomic_fetch_sub(gen_word(pkt->src_host, pkt->src_nic, pkt->src_qpn), 1);
}

/* ---- addresses ------------------------------------------------------------------------------ */

int sn_wire_find_gid(const uint8_t gid[16], int *host, int *nic)
{
	const struct sn_fabric *f = sn_engine.fabric;
	uint32_t h, n;

	for (h = 0; h < f->n_hosts; h++)
		for (n = 0; n < f->n_nics; n++)
			if (!memcmp(f->nic[h][n].gid, gid, 16)) {
				*host = (int)h;
				*nic = (int)n;
				return 0;
			}
	return -EHOSTUNREACH;
}

/* A rail is a subnet of its own: LIDs repeat on the others. */
int sn_wire_find_lid(uint32_t rail, uint16_t lid, int *host, int *nic)
{
	const struct sn_fabric *f = sn_engine.fabric;
	uint32_t h;

	for (h = 0; h < f->n_hosts; h++)
		if (lid && f->nic[h][rail].lid == lid) {
			*host = (int)h;
			*nic = (int)rail;
			return 0;
		}
	return -EHOSTUNREACH;
}

/* ---- sending -------------------------------------------------------------------------------- */

void sn_wire_prepare(const struct sn_qp *qp, struct sn_pkt *pkt, enum sn_pkt_op op)
{
	memset((char *)pkt + offsetof(struct sn_pkt, op), 0,
	       offsetof(struct sn_pkt, sge) - offsetof(struct sn_pkt, op));
	pkt->op = op;
	pkt->src_host = (uint8_t)sn_engine.host;
	pkt->src_nic = (uint8_t)qp->dev->nic_index;
	pkt->src_proc = (uint16_t)sn_engine.slot;
	pkt->src_qpn = qp->qpn;
	pkt->src_gen = qp->gen;
	pkt->slid = qp->dev->nic->lid;
	memcpy(pkt->sgid, qp->dev->nic->gid, sizeof(pkt->sgid));
	pkt->dst_host = (uint8_t)qp->dst_host;
	pkt->dst_nic = (uint8_t)qp->dst_nic;
	pkt->dst_qpn = qp->dest_qpn;
}

static bool pkt_is_request(const struct sn_pkt *pkt)
{
	return pkt->op < SN_PKT_ACK || pkt->op == SN_PKT_UD;
}

/* Faults "at the N-th message" strike before that message is on the wire. */
static void wire_count(struct sn_counters *count, const struct sn_pkt *pkt)
{
	if (!pkt_is_request(pkt))
		return;
	sn_count(&count->tx_messages, 1);
	if (atomic_load_explicit(&sn_engine.fabric->faults_armed, memory_order_relaxed))
		sn_fault_poll(sn_engine.fabric, sn_engine.now_ns);
}

/* Payload leaves with every operation but a READ, whose answer has it. */
static void wire_count_sent(struct sn_counters *count, const struct sn_pkt *pkt)
{
	uint64_t bytes = pkt->op == SN_PKT_READ ? 0 : pkt->length;

	sn_count(&count->tx_bytes, bytes);
	if (pkt->op == SN_PKT_UD) {
		sn_count(&count->ud_tx_packets, 1);
		sn_count(&count->ud_tx_bytes, bytes);
		return;
	}
	sn_count(&count->rc_tx_messages, pkt_is_request(pkt));
	sn_count(&count->rc_tx_bytes, bytes);
}

void sn_count_landed(const struct sn_qp *qp, uint32_t messages, uint64_t bytes)
{
	struct sn_counters *count = &qp->dev->nic->count;
	bool ud = qp->attr.type == IBV_QPT_UD;

	sn_count(&count->rx_bytes, bytes);
	sn_count(ud ? &count->ud_rx_packets : &count->rc_rx_messages, messages);
	sn_count(ud ? &count->ud_rx_bytes : &count->rc_rx_bytes, bytes);
}

/* ---- landing -------------------------------------------------------------------------------- */

/* Orders the stores of a payload for who polls its end; no fence, which TSan does not know. */
static void store_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb ishst" ::: "memory");
#else
	__asm__ volatile("" ::: "memory"); /* x86 keeps stores in order */
#endif
}

/* Small payload: the tail is stored last, so that who polls the last bytes sees the rest. */
void sn_copy_in_order(void *dst, const void *src, size_t len)
{
	size_t tail = len > 8 ? 8 : 0;

	memcpy(dst, src, len - tail);
	store_barrier();
	memcpy((uint8_t *)dst + len - tail, (const uint8_t *)src + len - tail, tail);
}

struct cursor {
	const struct iovec *iov;
	uint32_t n, at;
	uint64_t offset;
};

/* The next bytes of a list, cut to size; returns the number of pieces in out. */
static uint32_t cursor_slice(struct cursor *c, uint64_t bytes, struct iovec *out)
{
	uint32_t pieces = 0;

	while (bytes && c->at < c->n) {
		const struct iovec *iov = &c->iov[c->at];
		uint64_t left = iov->iov_len - c->offset, take = left < bytes ? left : bytes;

		out[pieces].iov_base = (uint8_t *)iov->iov_base + c->offset;
		out[pieces++].iov_len = take;
		bytes -= take;
		c->offset += take;
		if (c->offset == iov->iov_len) {
			c->at++;
			c->offset = 0;
		}
	}
	return pieces;
}

static void copy_pieces(const struct iovec *dst, uint32_t n_dst, const struct iovec *src,
			uint32_t n_src, uint64_t bytes)
{
	struct cursor d = { .iov = dst, .n = n_dst }, s = { .iov = src, .n = n_src };

	while (bytes) {
		uint64_t dl = d.iov[d.at].iov_len - d.offset, sl = s.iov[s.at].iov_len - s.offset;
		uint64_t len = dl < sl ? dl : sl;
		struct iovec to, from;

		len = len < bytes ? len : bytes;
		cursor_slice(&d, len, &to);
		cursor_slice(&s, len, &from);
		sn_copy_in_order(to.iov_base, from.iov_base, len);
		bytes -= len;
		/* Zero-length pieces are stepped over by the next slice. */
		while (bytes && d.at < d.n && !d.iov[d.at].iov_len)
			d.at++;
		while (bytes && s.at < s.n && !s.iov[s.at].iov_len)
			s.at++;
	}
}

static int pull_slice(const struct sn_pkt *pkt, struct iovec *dst, uint32_t n_dst,
		      struct iovec *src, uint32_t n_src, uint64_t bytes)
{
	int32_t pid = atomic_load(&sn_engine.fabric->proc[pkt->src_proc].pid);
	ssize_t got;

	if (pkt->src_proc == sn_engine.slot || pkt->op == SN_PKT_UD) {
		copy_pieces(dst, n_dst, src, n_src, bytes);
		return 0;
	}
	got = process_vm_readv(pid, dst, n_dst, src, n_src, 0);
	if (got == (ssize_t)bytes)
		return 0;
	return got < 0 ? -errno : -EFAULT;
}

/* The link and the sender's QP are looked at again for every chunk: a fault can cut a message. */
static int pull_chunk(const struct sn_pkt *pkt, struct iovec *dst, uint32_t n_dst,
		      struct iovec *src, uint32_t n_src, uint64_t bytes)
{
	int rc;

	if (pkt->flags & SN_PKT_F_LATE) {
		copy_pieces(dst, n_dst, src, n_src, bytes);
		return 0;
	}
	if (!(pkt->flags & SN_PKT_F_CUT) &&
	    !sn_path_open(sn_engine.fabric, pkt->src_host, pkt->src_nic, pkt->dst_host,
			  pkt->dst_nic, pkt->op))
		return -ENOLINK;
	if (pkt->bounce)
		return pull_slice(pkt, dst, n_dst, src, n_src, bytes);
	if (!gen_pull_begin(pkt))
		return -ESTALE;
	rc = pull_slice(pkt, dst, n_dst, src, n_src, bytes);
	gen_pull_end(pkt);
	return rc;
}

/* What says whose the packet's staging slot is. */
static _Atomic uint64_t *stage_word(const struct sn_pkt *pkt)
{
	struct sn_proc *from = &sn_engine.fabric->proc[pkt->src_proc % SN_MAX_PROCS];
	uint32_t slot = pkt->bounce_slot % SN_BOUNCE_SLOTS;

	return pkt->op == SN_PKT_UD ? &from->datagram[slot] : &from->bounce[slot];
}

static void *datagram_payload(const struct sn_pkt *pkt)
{
	return sn_engine.fabric->proc[pkt->src_proc % SN_MAX_PROCS]
		.datagram_payload[pkt->bounce_slot % SN_BOUNCE_SLOTS];
}

static uint32_t pkt_source(const struct sn_pkt *pkt, struct iovec *src)
{
	uint32_t i;

	if (pkt->bounce && pkt->op == SN_PKT_UD) {
		src[0].iov_base = datagram_payload(pkt);
		src[0].iov_len = SN_UD_MTU;
		return 1;
	}
	if (pkt->bounce) {
		src[0].iov_base = (void *)pkt->bounce;
		src[0].iov_len = SN_STAGE_BYTES;
		return 1;
	}
	for (i = 0; i < pkt->n_sge && i < SN_PKT_MAX_SGE; i++) {
		src[i].iov_base = (void *)pkt->sge[i].addr;
		src[i].iov_len = pkt->sge[i].len;
	}
	return i;
}

/* The staging slot must have been ours until the last byte was out of it. */
static int stage_check(const struct sn_pkt *pkt)
{
	if (!pkt->bounce || pkt->flags & SN_PKT_F_LATE)
		return 0;
	return atomic_load(stage_word(pkt)) == pkt->bounce_ticket ? 0 : -ESTALE;
}

/*
 * Lands the first `bytes` of the packet's payload in dst, in order. -ENOLINK, -ESTALE, -ESRCH: the
 * rest never arrived. -EFAULT: a buffer is not mapped.
 */
int sn_wire_land(const struct sn_pkt *pkt, const struct iovec *dst, uint32_t n_dst, uint64_t bytes)
{
	struct iovec src[SN_PKT_MAX_SGE], from[SN_PKT_MAX_SGE], to[SN_WQE_MAX_SGE];
	struct cursor d = { .iov = dst, .n = n_dst }, s = { .iov = src };
	int rc = 0;

	if (!bytes)
		return 0;
	if (!pkt->n_sge && !pkt->bounce) {
		struct iovec whole = { (void *)pkt->data, SN_PKT_INLINE };

		copy_pieces(dst, n_dst, &whole, 1, bytes);
		return 0;
	}
	s.n = pkt_source(pkt, src);
	while (bytes && !rc) {
		uint64_t take = bytes < SN_PULL_CHUNK ? bytes : SN_PULL_CHUNK;
		uint32_t n_to = cursor_slice(&d, take, to), n_from = cursor_slice(&s, take, from);

		rc = pull_chunk(pkt, to, n_to, from, n_from, take);
		bytes -= take;
	}
	return rc ? rc : stage_check(pkt);
}

/* ---- staging -------------------------------------------------------------------------------- */

/*
 * No ticket that the last owner of this process' slot had; what it left on the wire gets its time.
 */
static void stage_begin(struct sn_stage *stage)
{
	stage->ticket = sn_engine.now_ns;
	for (uint32_t i = 0; i < SN_BOUNCE_SLOTS; i++)
		stage->taken_ns[i] = sn_engine.now_ns;
}

/* Its ticket; 0: taken. */
static uint64_t stage_try(struct sn_stage *stage, uint32_t slot, _Atomic uint64_t *word)
{
	uint64_t held = atomic_load_explicit(word, memory_order_acquire);

	if (held && sn_engine.now_ns - stage->taken_ns[slot] < STAGE_LOST_NS)
		return 0;
	if (held && !atomic_compare_exchange_strong(word, &held, 0))
		return 0;
	stage->taken_ns[slot] = sn_engine.now_ns;
	return ++stage->ticket;
}

static int stage_take(struct sn_pkt *pkt, struct sn_stage *stage)
{
	if (!stage->ticket)
		stage_begin(stage);
	for (uint32_t i = 0; i < SN_BOUNCE_SLOTS; i++) {
		pkt->bounce_slot = stage->hint++ % SN_BOUNCE_SLOTS;
		pkt->bounce_ticket = stage_try(stage, pkt->bounce_slot, stage_word(pkt));
		if (pkt->bounce_ticket)
			return 0;
	}
	return -EAGAIN;
}

static int stage_take_own(struct sn_pkt *pkt, void **payload)
{
	struct sn_stage *stage = &sn_engine.stage;
	int rc;

	if (!stage->arena) {
		void *arena =
			mmap(NULL, (size_t)SN_BOUNCE_SLOTS * SN_STAGE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (arena == MAP_FAILED)
			return -ENOMEM;
		stage->arena = arena;
	}
	rc = stage_take(pkt, stage);
	if (rc)
		return rc;
	*payload = stage->arena + (size_t)pkt->bounce_slot * SN_STAGE_BYTES;
	pkt->bounce = (uint64_t)*payload;
	return 0;
}

static int stage_take_datagram(struct sn_pkt *pkt, void **payload)
{
	int rc = stage_take(pkt, &sn_engine.datagrams);

	if (rc)
		return rc;
	*payload = datagram_payload(pkt);
	pkt->bounce = 1;
	return 0;
}

/* Payload up to SN_STAGE_BYTES: inline when small, else staged. -EAGAIN: no slot free now. */
int sn_wire_stage(struct sn_pkt *pkt, const struct iovec *src, uint32_t n_src, uint64_t bytes)
{
	struct iovec whole = { pkt->data, SN_PKT_INLINE };
	int rc;

	if (bytes > SN_PKT_INLINE) {
		rc = pkt->op == SN_PKT_UD ? stage_take_datagram(pkt, &whole.iov_base)
					  : stage_take_own(pkt, &whole.iov_base);
		if (rc)
			return rc;
		whole.iov_len = bytes;
		atomic_store_explicit(stage_word(pkt), pkt->bounce_ticket, memory_order_release);
	} else {
		pkt->n_inline = (uint32_t)bytes;
	}
	copy_pieces(&whole, 1, src, n_src, bytes);
	return 0;
}

void sn_wire_release(const struct sn_pkt *pkt)
{
	uint64_t ticket = pkt->bounce_ticket;

	if (pkt->flags & SN_PKT_F_LATE)
		return; /* its payload is the fabric's */
	if (pkt->bounce && pkt->src_proc < SN_MAX_PROCS && pkt->bounce_slot < SN_BOUNCE_SLOTS)
		atomic_compare_exchange_strong(stage_word(pkt), &ticket, 0);
}

/* ---- sending, at last ----------------------------------------------------------------------- */

/* A copy of all that is needed to deliver it later, without its sender. */
static int wire_hold(struct sn_pkt *pkt)
{
	struct sn_held *held = sn_held_begin(sn_engine.fabric, sn_engine.slot);
	uint64_t kept = pkt->length < SN_HELD_BYTES ? pkt->length : SN_HELD_BYTES;
	struct iovec src[SN_PKT_MAX_SGE], dst;

	if (!held) {
		sn_count(&sn_engine.fabric->nic[pkt->src_host][pkt->src_nic].count.dropped, 1);
		return -ENOSPC;
	}
	memcpy(&held->pkt, pkt, sizeof(*pkt));
	held->pkt.flags |= SN_PKT_F_LATE;
	if (pkt->n_sge || pkt->bounce) {
		dst = (struct iovec){ held->payload, SN_HELD_BYTES };
		copy_pieces(&dst, 1, src, pkt_source(pkt, src), kept);
		held->pkt.n_sge = 0;
		held->pkt.bounce = 1; /* who takes it has its own address for the payload */
		held->pkt.flags |= kept < pkt->length ? SN_PKT_F_CUT : 0;
		held->pkt.part = (uint32_t)kept;
	}
	sn_held_end(sn_engine.fabric, held);
	sn_wire_release(pkt);
	return 0;
}

static bool wire_take_cut(struct sn_nic *nic, struct sn_pkt *pkt)
{
	if (!atomic_load_explicit(&nic->cut_next, memory_order_relaxed))
		return false;
	if ((pkt->op != SN_PKT_SEND && pkt->op != SN_PKT_WRITE) || pkt->length < 2)
		return false;
	if (!atomic_exchange(&nic->cut_next, 0))
		return false;
	pkt->flags |= SN_PKT_F_CUT;
	pkt->part = (uint32_t)(pkt->length / 2);
	return true;
}

bool sn_wire_paused(const struct sn_qp *qp)
{
	return qp->dst_host >= 0 && sn_qp_is_connected(qp) &&
	       sn_path_paused(sn_engine.fabric, sn_engine.host, qp->dev->nic_index,
			      (uint32_t)qp->dst_host, (uint32_t)qp->dst_nic);
}

static bool wire_is_open(const struct sn_pkt *pkt)
{
	const struct sn_fabric *f = sn_engine.fabric;

	return pkt->dst_host < f->n_hosts && pkt->dst_nic < f->n_nics &&
	       pkt->dst_qpn < SN_QPN_MAX &&
	       sn_path_open(sn_engine.fabric, pkt->src_host, pkt->src_nic, pkt->dst_host,
			    pkt->dst_nic, pkt->op);
}

/* To whose inbox it goes. -ENOBUFS: that is full. */
static int wire_deliver(struct sn_nic *nic, struct sn_pkt *pkt)
{
	const struct sn_nic *dst = &sn_engine.fabric->nic[pkt->dst_host][pkt->dst_nic];
	uint32_t owner = atomic_load(&dst->qpn_owner[pkt->dst_qpn]);
	bool cut;
	int rc;

	if (!owner)
		return -ESRCH;
	cut = wire_take_cut(nic, pkt);
	rc = sn_inbox_push(sn_engine.fabric, owner - 1, pkt);
	if (cut)
		sn_fault_apply(sn_engine.fabric, SN_FAULT_PORT_DOWN, pkt->src_host, pkt->src_nic,
			       0);
	return rc;
}

/*
 * 0: on the wire, or lost there, which the sender cannot tell. -ENOBUFS: the receiver's inbox is
 * full, or the path is paused; send it again later. Staging is freed where the packet was lost.
 */
int sn_wire_send(const struct sn_qp *qp, struct sn_pkt *pkt)
{
	struct sn_nic *nic = qp->dev->nic;
	int rc = -ENOLINK;

	if (sn_wire_paused(qp)) {
		sn_wire_release(pkt);
		return -ENOBUFS;
	}
	wire_count(&nic->count, pkt);
	if (wire_is_open(pkt))
		rc = sn_held_wanted(nic, pkt) ? wire_hold(pkt) : wire_deliver(nic, pkt);
	if (rc)
		sn_wire_release(pkt);
	if (rc != -ENOBUFS) {
		wire_count_sent(&nic->count, pkt);
		return 0;
	}
	if (pkt_is_request(pkt)) /* it will be sent again */
		atomic_fetch_sub_explicit(&nic->count.tx_messages, 1, memory_order_relaxed);
	return rc;
}
