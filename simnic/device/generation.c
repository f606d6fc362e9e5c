/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Generations: how a QP takes its buffers back from a process that reads them. */
#include <time.h>

#include "simnic/device/dev.h"
#include "simnic/device/engine.h"
#include "simnic/device/generation.h"
#include "simnic/device/qp.h"
#include "simnic/device/wire.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/packet.h"
#include "simnic/fabric/proc.h"

#define GEN_PULLS	((1u << SN_GEN_SHIFT) - 1)
#define GEN_WAIT_NS	5000
#define GEN_ASK_NS	1000000ULL     /* a pull takes microseconds: does the puller run? */
#define GEN_WAIT_MAX_NS 10000000000ULL /* after this the puller's process number is another's */

static _Atomic uint64_t *gen_word(uint32_t host, uint32_t nic, uint32_t qpn)
{
	return &sn_engine.fabric->nic[host][nic].qpn_gen[qpn & (SN_QPN_MAX - 1)];
}

void sn_gen_begin(struct sn_qp *qp)
{
	_Atomic uint64_t *word = gen_word(sn_engine.host, qp->dev->nic_index, qp->qpn);

	/* Clears what a puller that died left behind. */
	qp->gen = (atomic_load(word) >> SN_GEN_SHIFT) + 1;
	atomic_store(word, qp->gen << SN_GEN_SHIFT);
}

/*
 * True if nobody can be pulling from this QP: the process of the QP that it is connected to is
 * gone or stopped. A stopped process has read what it read, and asks again before it reads more. A
 * process without a processor may be in the middle of a pull.
 */
static bool nobody_pulls(const struct sn_qp *qp)
{
	uint32_t owner = sn_wire_owner(qp);
	int32_t pid = owner ? sn_proc_device(&sn_engine.fabric->proc[owner - 1]) : 0;

	return pid <= 0 || !sn_proc_any_thread_runs(pid);
}

void sn_gen_end(struct sn_qp *qp)
{
	_Atomic uint64_t *word = gen_word(sn_engine.host, qp->dev->nic_index, qp->qpn);
	struct timespec nap = { .tv_nsec = GEN_WAIT_NS };
	uint64_t start = sn_clock_ns(), ask = GEN_ASK_NS, waited;

	SN_ASSERT(qp->gen); /* begun, and not yet ended */
	atomic_fetch_add(word, 1u << SN_GEN_SHIFT);
	qp->gen = 0;
	while (atomic_load(word) & GEN_PULLS) {
		waited = sn_clock_ns() - start;
		if (waited > GEN_WAIT_MAX_NS || (waited > ask && nobody_pulls(qp)))
			break;
		/* asking reads files: a process that waits for a processor needs it more */
		if (waited > ask)
			ask = waited + GEN_ASK_NS;
		nanosleep(&nap, NULL);
	}
}

bool sn_gen_pull_begin(const struct sn_pkt *pkt)
{
	_Atomic uint64_t *word = gen_word(pkt->src_host, pkt->src_nic, pkt->src_qpn);
	uint64_t seen = atomic_load(word);

	do {
		if (seen >> SN_GEN_SHIFT != pkt->src_gen || (seen & GEN_PULLS) == GEN_PULLS)
			return false;
	} while (!atomic_compare_exchange_weak(word, &seen, seen + 1));
	return true;
}

void sn_gen_pull_end(const struct sn_pkt *pkt)
{
	_Atomic uint64_t *word = gen_word(pkt->src_host, pkt->src_nic, pkt->src_qpn);
	uint64_t seen = atomic_load(word);

	/* None: its process died in the meantime, and another has begun with its number. */
	while (seen & GEN_PULLS && !atomic_compare_exchange_weak(word, &seen, seen - 1))
		;
}
