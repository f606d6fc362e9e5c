/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The staging slots of a process: taken, filled, given back. */
#include <errno.h>
#include <sys/mman.h>

#include "simnic/device/copy.h"
#include "simnic/device/engine.h"
#include "simnic/device/stage.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/packet.h"
#include "simnic/fabric/proc.h"

#define STAGE_LOST_NS 2000000000ULL /* age after which the receiver has died with the slot */
#define STAGE_WAIT_NS 10000000ULL   /* time that a datagram waits for a slot */

/* The word that says whose the packet's staging slot is. */
static _Atomic uint64_t *stage_word(const struct sn_pkt *pkt)
{
	struct sn_proc *from = &sn_engine.fabric->proc[pkt->src_proc % SN_MAX_PROCS];
	uint32_t slot = pkt->bounce_slot % SN_BOUNCE_SLOTS;

	return sn_pkt_is_datagram(pkt->op) ? &from->datagram[slot] : &from->bounce[slot];
}

static void *datagram_payload(const struct sn_pkt *pkt)
{
	return sn_engine.fabric->proc[pkt->src_proc % SN_MAX_PROCS]
		.datagram_payload[pkt->bounce_slot % SN_BOUNCE_SLOTS];
}

uint32_t sn_stage_source(const struct sn_pkt *pkt, struct iovec *src)
{
	uint32_t i;

	if (pkt->bounce && sn_pkt_is_datagram(pkt->op) && !(pkt->flags & SN_PKT_F_LATE)) {
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

int sn_stage_check(const struct sn_pkt *pkt)
{
	if (!pkt->bounce || pkt->flags & SN_PKT_F_LATE)
		return 0;
	return atomic_load(stage_word(pkt)) == pkt->bounce_ticket ? 0 : -ESTALE;
}

/*
 * No ticket that the last owner of this process' slot had; what it left on the wire gets its time.
 */
static void stage_begin(struct sn_stage *stage)
{
	stage->ticket = sn_engine.now_ns;
	for (uint32_t i = 0; i < SN_BOUNCE_SLOTS; i++)
		stage->taken_ns[i] = sn_engine.now_ns;
	stage->last_ns = sn_engine.now_ns;
}

/* Takes a slot and returns its ticket; 0: the slot is taken. */
static uint64_t stage_try(struct sn_stage *stage, uint32_t slot, _Atomic uint64_t *word)
{
	uint64_t held = atomic_load_explicit(word, memory_order_acquire);

	if (held && sn_engine.now_ns - stage->taken_ns[slot] < STAGE_LOST_NS)
		return 0;
	if (held && !atomic_compare_exchange_strong(word, &held, 0))
		return 0;
	stage->taken_ns[slot] = stage->last_ns = sn_engine.now_ns;
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

	/*
	 * Nobody reads. A hardware sender would not wait for a reader, and its datagram would be
	 * lost.
	 */
	if (rc && sn_engine.now_ns - sn_engine.datagrams.last_ns > STAGE_WAIT_NS)
		return -ENOSPC;
	if (rc)
		return rc;
	*payload = datagram_payload(pkt);
	pkt->bounce = 1;
	return 0;
}

int sn_stage_put(struct sn_pkt *pkt, const struct iovec *src, uint32_t n_src, uint64_t bytes)
{
	void *to = pkt->data;
	int rc;

	SN_ASSERT(bytes <= (sn_pkt_is_datagram(pkt->op) ? SN_UD_MTU : SN_STAGE_BYTES));
	if (bytes > SN_PKT_INLINE) {
		rc = sn_pkt_is_datagram(pkt->op) ? stage_take_datagram(pkt, &to)
						 : stage_take_own(pkt, &to);
		if (rc)
			return rc;
		atomic_store_explicit(stage_word(pkt), pkt->bounce_ticket, memory_order_release);
	} else {
		pkt->n_inline = (uint32_t)bytes;
	}
	sn_copy_out(to, src, n_src, bytes);
	return 0;
}

void sn_stage_release(const struct sn_pkt *pkt)
{
	uint64_t ticket = pkt->bounce_ticket;

	if (pkt->flags & SN_PKT_F_LATE)
		return; /* the payload is the fabric's */
	if (pkt->bounce && pkt->src_proc < SN_MAX_PROCS && pkt->bounce_slot < SN_BOUNCE_SLOTS)
		atomic_compare_exchange_strong(stage_word(pkt), &ticket, 0);
}
