// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * FETCH_ADD and CMP_SWAP on counters that one QP alone changes, so that every result is known when
 * the request is posted: an atomic executed twice or not at all shows in the next result.
 */
#include "atomics.h"
#include "bytes.h"
#include "complete.h"
#include "oob.h"
#include "pattern.h"
#include "post.h"
#include "qp.h"
#include "report.h"
#include "request.h"
#include "verify.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

enum { BURST = 4, RESULT_LEN = 8 };

struct atomic_spec {
	int counter;
	bool swap, wide; /* wide: its buffer has room for more; software NICs want 8 by ibv_wr_* */
	uint64_t compare_add;
	uint64_t swap_to;
	uint64_t after;
};

static struct atomic_spec atomic_spec_of(const struct vqp *q, int dir, uint64_t seq,
					 const uint64_t *counters)
{
	uint64_t h = hash_of(q, dir, seq, SALT_ATOMIC), v = mix64(h);
	struct atomic_spec s = { .counter = (int)(h % COUNTERS),
				 .swap = h & 0x100,
				 .wide = h & 0x800 };
	uint64_t now = counters[s.counter];

	if (!s.swap) {
		s.compare_add = v % 1000 + 1;
		s.after = now + s.compare_add;
		return s;
	}
	s.swap_to = v;
	s.compare_add = h & 0x600 ? now : now + 1;
	s.after = h & 0x600 ? v : now;
	return s;
}

/* Fills in the request and moves our own copy of the counter on. */
void atomic_request(struct vqp *q, struct request *r, uint64_t seq)
{
	struct atomic_spec s = atomic_spec_of(q, dir_tx(), seq, q->counters);
	uint8_t *to = slot_at(q, area_read(q), seq, SLOTS);
	bool wide = s.wide && !q->wr_api && !verify_instance->opt.plain;

	poison_check(q, "landing of an atomic", to, q->slot_len);
	r->opcode = s.swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
	r->raddr = q->remote.addr + area_ctrl(q) + CTRL_COUNTERS + (size_t)s.counter * 8;
	r->compare_add = s.compare_add;
	r->swap = s.swap_to;
	r->nsge = 1;
	r->sge[0] = (struct ibv_sge){ (uintptr_t)to,
				      wide ? (uint32_t)q->slot_len : (uint32_t)RESULT_LEN,
				      q->mr->lkey };
	r->expect.result = q->counters[s.counter];
	q->counters[s.counter] = s.after;
}

/*
 * An answer that came in a CQE is big endian on a ConnectX, and libmlx5 copies it as it is: so with
 * queue pairs whose requests are all signaled. Which way a queue pair has it, its first answer that
 * differs by that tells; from then on all must have it so.
 */
static uint64_t answer_of(struct vqp *q, const uint8_t *at, uint64_t expected)
{
	uint64_t got;

	memcpy(&got, at, sizeof(got));
	if (!q->sig_all || expected == be64toh(expected))
		return got;
	if (q->answers == ANSWERS_UNKNOWN)
		q->answers = be64toh(got) == expected ? ANSWERS_TURNED : ANSWERS_AS_THEY_ARE;
	return q->answers == ANSWERS_TURNED ? be64toh(got) : got;
}

void atomic_check(struct vqp *q, const struct expect *e)
{
	uint8_t *at = slot_at(q, area_read(q), e->seq, SLOTS);
	uint64_t got = answer_of(q, at, e->result);

	if (got != e->result)
		verify_fail(q, FAIL_WRONG_ATOMIC,
			    "atomic %" PRIu64 " returned %" PRIu64 ", should be %" PRIu64
			    " (difference %" PRId64 ")",
			    e->seq, got, e->result, (int64_t)(got - e->result));
	poison_fill(at, RESULT_LEN);
}

/*
 * The peer's counters must be what the first n atomics make, n between completed and posted; after
 * an error the atomics between the two may have happened or not, but in order and once.
 */
void atomic_verdict(struct vqp *q, const struct final_info *peer,
		    bool (*is_atomic)(const struct vqp *q, uint64_t seq))
{
	uint64_t at[COUNTERS] = { 0 };

	for (uint64_t n = 0; n <= q->tx_next; n++) {
		if (n >= q->tx_done && !memcmp(at, peer->counters, sizeof(at)) &&
		    (q->failed || n == q->tx_next))
			return;
		if (n < q->tx_next && is_atomic(q, n)) {
			struct atomic_spec s = atomic_spec_of(q, dir_tx(), n, at);

			at[s.counter] = s.after;
		}
	}
	verify_fail(q, FAIL_WRONG_ATOMIC,
		    "the counters match no state between %" PRIu64 " completed and %" PRIu64
		    " posted atomics",
		    q->tx_done, q->tx_next);
}

static bool always(const struct vqp *q, uint64_t seq)
{
	return true;
}

static bool atomics_step(struct vqp *q)
{
	unsigned int burst =
		1 + (unsigned int)(hash_of(q, dir_tx(), q->tx_next, SALT_BATCH) % BURST);

	while (q->initiator && burst-- && vqp_may_post(q) && sq_room(q, 1) &&
	       q->tx_next - q->tx_done < SLOTS) {
		struct request *r = batch_add(q);

		atomic_request(q, r, q->tx_next);
		r->expect.kind = KIND_DATA;
		r->expect.seq = q->tx_next++;
	}
	return post_step(q);
}

static void atomics_sent(struct vqp *q, const struct expect *e)
{
	atomic_check(q, e);
	q->tx_done = e->seq + 1;
}

static void atomics_received(struct vqp *q, const struct expect *e, const struct completion *c)
{
	if (!vqp_take_last(q, c))
		verify_fail(q, FAIL_INVENTED, "a message on a QP with atomics only");
}

static void atomics_start(struct vqp *q)
{
	poison_fill(q->mem + area_read(q), SLOTS * q->slot_len);
	recv_post(q, 0, NULL, 0);
}

static void atomics_finish(struct vqp *q, const struct final_info *peer)
{
	if (q->initiator)
		atomic_verdict(q, peer, always);
}

const struct pattern_ops pattern_atomic = {
	.name = "atomic",
	.may_fail = true,
	.start = atomics_start,
	.step = atomics_step,
	.sent = atomics_sent,
	.received = atomics_received,
	.finish = atomics_finish,
};
