// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What NCCL's protocols LL and LL128 do: the receiver has eight slots, the flags are inside of the
 * data, and the receiver polls memory for the flag of its step, not a completion queue. The sender
 * posts the next message of a slot only when it has polled the completion of the slot's last one.
 *
 * A unit has one flag. LL: 8 bytes, of which 4 are data. LL128: a line of 128 bytes, of which the
 * last 8 are the flag. A line arrives as a whole if the NIC writes a line from its beginning to its
 * end, as software NICs do without `simnicctl torn-lines`, and if the processor keeps stores and
 * loads in order, as x86 does: the flag is read before the data. Elsewhere the check of lines says
 * nothing of SHIFT.
 */
#include "bytes.h"
#include "complete.h"
#include "credit.h"
#include "oob.h"
#include "pattern.h"
#include "post.h"
#include "qp.h"
#include "report.h"
#include "request.h"
#include "verify.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
	STEPS = 8, /* NCCL_STEPS: slots of the receiver */
	UNITS = 256,
	LINES = 32,
	LINE_WORDS = 16,
	BURST = 3,
	CREDIT_EVERY = 2,
	KNOWN = 64,
	AGAIN_EVERY = 64, /* of the mutant "older-again" */
	AGAIN_BEHIND = STEPS + 4,
};

/* What one message is posted as. NCCL's adaptive routing takes the second. */
enum form { FORM_WRITE, FORM_WRITE_THEN_IMM, FORM_WRITE_WITH_IMM, FORMS };

/* A slot of the receiver. Flags count from 1; 0 is a unit that nothing was written to. */
struct slot {
	uint64_t flag[UNITS]; /* of each unit, as it was seen last */
	unsigned int arrived; /* units of the next message */
};

struct slots {
	enum form form;
	unsigned int words; /* of 8 bytes, in a unit */
	unsigned int units; /* in a slot */
	struct slot slot[STEPS];
	struct {
		uint64_t flag, base;
	} known[KNOWN]; /* where the bytes of messages begin that were asked for last */
};

static const struct slots *slots_of(const struct vqp *q)
{
	return q->slots;
}

/* ---- the content of messages ---------------------------------------------------------------- */

static unsigned int units_of(const struct vqp *q, int dir, uint64_t seq)
{
	uint64_t h = hash_of(q, dir, seq, SALT_SPEC);
	unsigned int most = slots_of(q)->units;

	return 1 + (unsigned int)(mix64(h) % (h % 4 ? most : (most + 7) / 8));
}

static uint64_t base_of(const struct vqp *q, int dir, uint64_t flag)
{
	struct slots *s = q->slots;

	if (s->known[flag % KNOWN].flag != flag) {
		s->known[flag % KNOWN].base = hash_of(q, dir, flag, SALT_DATA);
		s->known[flag % KNOWN].flag = flag;
	}
	return s->known[flag % KNOWN].base;
}

/* Word @i of unit @unit in the message that has @flag. */
static uint64_t word_of(const struct vqp *q, int dir, uint64_t flag, unsigned int unit,
			unsigned int i)
{
	unsigned int words = slots_of(q)->words;
	uint64_t data;

	if (!flag)
		return 0;
	if (words > 1 && i == words - 1)
		return flag;
	data = mix64(base_of(q, dir, flag) + unit * LINE_WORDS + i);
	return words > 1 ? data : (uint32_t)data | flag << 32;
}

static uint64_t flag_of(const struct vqp *q, const uint64_t *unit)
{
	unsigned int words = slots_of(q)->words;
	uint64_t w = __atomic_load_n(unit + words - 1, __ATOMIC_ACQUIRE);

	return words > 1 ? w : w >> 32;
}

static uint32_t message_fill(struct vqp *q, uint64_t seq)
{
	uint64_t *to = (uint64_t *)slot_at(q, area_send(q), seq, SLOTS);
	unsigned int n = units_of(q, dir_tx(), seq), words = slots_of(q)->words;

	for (unsigned int u = 0; u < n; u++)
		for (unsigned int i = 0; i < words; i++)
			*to++ = word_of(q, dir_tx(), seq + 1, u, i);
	return n * words * 8;
}

/* ---- the sender ----------------------------------------------------------------------------- */

/* Its completion is polled before the next message of the slot is posted. */
static uint64_t window(void)
{
	return verify_instance->opt.mutant == MUTANT_TOO_SOON ? SLOTS - 1 : STEPS;
}

static struct request *build_write(struct vqp *q, uint64_t seq, uint32_t len)
{
	struct request *r = batch_add(q);

	r->opcode = IBV_WR_RDMA_WRITE;
	r->raddr = q->remote.addr + area_write(q) + seq % STEPS * q->slot_len;
	r->nsge = 1;
	r->sge[0] = (struct ibv_sge){ (uintptr_t)slot_at(q, area_send(q), seq, SLOTS), len,
				      q->mr->lkey };
	r->expect.kind = KIND_PART;
	r->expect.seq = seq;
	return r;
}

/* Not the last message of its slot, and its bytes are still at the source. */
static void build_older(struct vqp *q, uint64_t seq)
{
	build_write(q, seq, units_of(q, dir_tx(), seq) * slots_of(q)->words * 8);
}

static void slots_build(struct vqp *q)
{
	uint64_t seq = q->tx_next++;
	struct request *r = build_write(q, seq, message_fill(q, seq));

	if (slots_of(q)->form == FORM_WRITE_THEN_IMM) {
		r = batch_add(q);
		r->raddr = q->remote.addr + area_write(q);
		r->expect.seq = seq;
	}
	r->expect.kind = KIND_DATA;
	r->expect.signaled = true;
	if (slots_of(q)->form != FORM_WRITE) {
		r->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		r->imm = imm_of(q, dir_tx(), seq);
	}
	if (verify_instance->opt.mutant == MUTANT_OLDER_AGAIN &&
	    seq % AGAIN_EVERY == AGAIN_EVERY - 1)
		build_older(q, seq - AGAIN_BEHIND);
}

static void slots_step_sender(struct vqp *q)
{
	unsigned int burst =
		1 + (unsigned int)(hash_of(q, dir_tx(), q->tx_next, SALT_BATCH) % BURST);

	while (burst-- && vqp_may_post(q) && sq_room(q, 3) && q->tx_next - q->tx_done < window() &&
	       q->tx_next - credit_read(q) < STEPS)
		slots_build(q);
}

static void slots_sent(struct vqp *q, const struct expect *e)
{
	if (e->kind == KIND_DATA)
		q->tx_done = e->seq + 1;
}

/* ---- the receiver --------------------------------------------------------------------------- */

/* The message that is to come into a slot next. */
static uint64_t next_of(const struct vqp *q, unsigned int slot)
{
	return q->rx_next + (slot + STEPS - q->rx_next % STEPS) % STEPS;
}

/* A unit that has neither the flag it had nor that of the slot's next message. */
static _Noreturn void flag_is_wrong(const struct vqp *q, uint64_t seq, unsigned int unit,
				    uint64_t flag, uint64_t had)
{
	verify_fail(q, flag < had ? FAIL_WENT_BACK : FAIL_WRONG_BYTES,
		    "slot %" PRIu64 ", unit %u: flag %" PRIu64 " behind flag %" PRIu64
		    ", next is %" PRIu64,
		    seq % STEPS, unit, flag, had, seq + 1);
}

/* Data of a unit: of the message that has @flag, or of the next one where that may be under way. */
static void unit_check(const struct vqp *q, const uint64_t *at, unsigned int unit, uint64_t flag,
		       uint64_t next)
{
	unsigned int words = slots_of(q)->words;

	for (unsigned int i = 0; i + 1 < words; i++) {
		uint64_t got = __atomic_load_n(at + i, __ATOMIC_RELAXED);

		if (got != word_of(q, dir_rx(), flag, unit, i) &&
		    got != word_of(q, dir_rx(), next, unit, i))
			verify_fail(q, FAIL_TORN,
				    "line %u with flag %" PRIu64 ": word %u is %016" PRIx64
				    ", should be %016" PRIx64,
				    unit, flag, i, got, word_of(q, dir_rx(), flag, unit, i));
	}
}

/* A unit of LL is one word: the flag and the data. */
static void word_check(const struct vqp *q, uint64_t got, unsigned int unit, uint64_t flag)
{
	uint64_t right = word_of(q, dir_rx(), flag, unit, 0);

	if (got != right)
		verify_fail(q, FAIL_TORN,
			    "unit %u: %016" PRIx64 " with flag %" PRIu64 ", should be %016" PRIx64,
			    unit, got, flag, right);
}

/* One look at a unit; @next is 0 if no message may be under way there. */
static void unit_look(struct vqp *q, uint64_t seq, unsigned int unit, uint64_t next)
{
	const struct slots *s = slots_of(q);
	struct slot *slot = &q->slots->slot[seq % STEPS];
	const uint64_t *at =
		(const uint64_t *)slot_at(q, area_write(q), seq, STEPS) + (size_t)unit * s->words;
	uint64_t word = __atomic_load_n(at, __ATOMIC_ACQUIRE), had = slot->flag[unit];
	uint64_t flag = s->words > 1 ? flag_of(q, at) : word >> 32;

	if (flag != had && (!next || flag != next))
		flag_is_wrong(q, seq, unit, flag, had);
	if (flag != had) {
		slot->flag[unit] = flag;
		slot->arrived++;
	}
	if (s->words > 1)
		unit_check(q, at, unit, flag, next ? next : flag);
	else
		word_check(q, word, unit, flag);
}

/* Each unit of a slot: none goes back, and none comes that was not posted for want of credit. */
static void slot_look(struct vqp *q, unsigned int index)
{
	uint64_t seq = next_of(q, index);
	bool may = !q->last_seen && seq < q->granted + STEPS;
	unsigned int n = may ? units_of(q, dir_rx(), seq) : 0;

	for (unsigned int u = 0; u < slots_of(q)->units; u++)
		unit_look(q, seq, u, u < n ? seq + 1 : 0);
}

/* Looks at all slots and takes the messages that are there. */
static bool slots_take(struct vqp *q)
{
	uint64_t before = q->rx_next;
	struct slot *next;

	for (unsigned int i = 0; i < STEPS; i++)
		slot_look(q, i);
	for (next = &q->slots->slot[q->rx_next % STEPS];
	     next->arrived && next->arrived == units_of(q, dir_rx(), q->rx_next);
	     next = &q->slots->slot[q->rx_next % STEPS]) {
		next->arrived = 0;
		q->rx_next++;
	}
	return q->rx_next != before;
}

static bool slots_step_receiver(struct vqp *q)
{
	bool moved = slots_take(q);

	if (!q->last_seen && q->rx_next - q->granted >= CREDIT_EVERY && sq_room(q, 1) &&
	    !atomic_load(&verify_instance->paused))
		credit_give(q);
	return moved;
}

static void slots_refill(struct vqp *q)
{
	recv_post(q, q->rx_posted++, NULL, 0);
}

static void check_header(struct vqp *q, const struct expect *e, const struct completion *c)
{
	uint32_t len = slots_of(q)->form == FORM_WRITE_THEN_IMM
			       ? 0
			       : units_of(q, dir_rx(), e->seq) * slots_of(q)->words * 8;

	if (slots_of(q)->form == FORM_WRITE)
		verify_fail(q, FAIL_INVENTED, "a receive of a WRITE without immediate");
	if (c->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
		verify_fail(q, FAIL_WRONG_OPCODE, "opcode %d for a write with immediate",
			    c->opcode);
	if (!(c->flags & IBV_WC_WITH_IMM) || c->imm != imm_of(q, dir_rx(), e->seq))
		verify_fail(q, FAIL_WRONG_IMM,
			    "message %" PRIu64 ": immediate %08x, should be %08x", e->seq, c->imm,
			    imm_of(q, dir_rx(), e->seq));
	if (c->byte_len != len)
		verify_fail(q, FAIL_WRONG_LENGTH, "message %" PRIu64 ": byte_len %u, should be %u",
			    e->seq, c->byte_len, len);
}

/* Whoever has the completion finds all units in memory. */
static void slots_received(struct vqp *q, const struct expect *e, const struct completion *c)
{
	slots_take(q);
	if (vqp_take_last(q, c))
		return;
	check_header(q, e, c);
	if (q->rx_next <= e->seq)
		verify_fail(q, FAIL_LOST,
			    "message %" PRIu64 " was received, %u of %u units are there", e->seq,
			    q->slots->slot[e->seq % STEPS].arrived, units_of(q, dir_rx(), e->seq));
	slots_refill(q);
}

/* ---- both ----------------------------------------------------------------------------------- */

static void slots_start(struct vqp *q)
{
	bool lines = q->pattern == PATTERN_SLOTS128;

	q->slots = calloc(1, sizeof(*q->slots));
	if (!q->slots)
		verify_fail(q, FAIL_SETUP, "no memory");
	q->slots->form = (enum form)(hash_of(q, 0, 4, SALT_STYLE) % FORMS);
	if (verify_instance->opt.mutant == MUTANT_TOO_SOON)
		q->slots->form = FORM_WRITE; /* the peer counts the others: they do not run again */
	q->slots->words = lines ? LINE_WORDS : 1;
	q->slots->units = lines ? LINES : UNITS;
	if (q->slots->units * q->slots->words * 8 > verify_instance->opt.max_size)
		q->slots->units = verify_instance->opt.max_size / q->slots->words / 8;
	do
		slots_refill(q);
	while (!q->initiator && q->rx_posted < RQ_DEPTH);
}

static bool slots_step(struct vqp *q)
{
	bool moved = false;

	if (q->initiator)
		slots_step_sender(q);
	else
		moved = slots_step_receiver(q);
	return post_step(q) || moved;
}

static void slots_finish(struct vqp *q, const struct final_info *peer)
{
	if (!q->initiator && !q->failed)
		slots_take(q);
	free(q->slots);
	q->slots = NULL;
}

const struct pattern_ops pattern_slots = {
	.name = "slots",
	.polls_memory = true,
	.start = slots_start,
	.step = slots_step,
	.sent = slots_sent,
	.received = slots_received,
	.finish = slots_finish,
};

const struct pattern_ops pattern_slots128 = {
	.name = "slots128",
	.polls_memory = true,
	.start = slots_start,
	.step = slots_step,
	.sent = slots_sent,
	.received = slots_received,
	.finish = slots_finish,
};
