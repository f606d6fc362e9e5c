/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Compare-and-swap in two stages: see protocol.h. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "uid/protocol.h"

#ifdef SHIFT_UID_MUTANTS
enum uid_mutant uid_mutant;
#endif

#define SEQUENCE_BITS 48
#define SEQUENCE_MAX  ((1ull << SEQUENCE_BITS) - 1)

static_assert(sizeof(struct uid_record) == 32, "as other builds read it");

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t number(uint64_t mark, uint8_t instance, uint64_t sequence)
{
	return mark << 56 | (uint64_t)instance << SEQUENCE_BITS | (sequence & SEQUENCE_MAX);
}

static uint64_t sequence_of(uint64_t uid)
{
	return uid & SEQUENCE_MAX;
}

static uint64_t committed(uint64_t uid)
{
	return (uid & ((1ull << 56) - 1)) | UID_COMMITTED << 56;
}

bool uid_is_value(uint64_t value)
{
	return value >> 57 != UID_MARK >> 1;
}

bool uid_is_uid(uint64_t word)
{
	return word >> 56 == UID_MARK;
}

uint64_t uid_first_state(uint8_t instance)
{
	return number(UID_COMMITTED, instance, 0);
}

uint32_t uid_place(uint64_t uid)
{
	uint32_t instance = (uint32_t)(uid >> SEQUENCE_BITS) & (UID_INSTANCES - 1);

	return instance * UID_SLOTS + (uint32_t)(sequence_of(uid) % UID_SLOTS);
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint64_t uid_record_at(const struct uid_machine *m, uint64_t uid, size_t field)
{
	return m->region + uid_place(uid) * sizeof(struct uid_record) + field;
}

static struct uid_request cas(uint64_t addr, uint32_t rkey, uint64_t compare, uint64_t swap)
{
	return (struct uid_request){ .verb = UID_CAS,
				     .addr = addr,
				     .rkey = rkey,
				     .compare = compare,
				     .swap = swap,
				     .old = swap };
}

static struct uid_request move(enum uid_verb verb, uint64_t addr, uint32_t rkey,
			       struct uid_record *data, uint32_t from, uint32_t bytes)
{
	return (struct uid_request){
		.verb = verb, .addr = addr, .rkey = rkey, .data = data, .from = from, .bytes = bytes
	};
}

static int run(struct uid_machine *m, struct uid_request *requests, uint32_t n)
{
	return m->line->run(m->line, requests, n);
}

static int read_word(struct uid_machine *m, uint64_t addr, uint32_t rkey, uint64_t *word)
{
	struct uid_record data;
	struct uid_request r = move(UID_READ, addr, rkey, &data, 0, sizeof(data.state));
	int ret = run(m, &r, 1);

	*word = data.state;
	return ret;
}

static int read_state(struct uid_machine *m, uint64_t uid, uint64_t *state)
{
	return read_word(m, uid_record_at(m, uid, 0), m->rkey, state);
}

static int read_record(struct uid_machine *m, uint64_t uid, struct uid_record *record)
{
	struct uid_request r =
		move(UID_READ, uid_record_at(m, uid, 0), m->rkey, record, 0, sizeof(*record));

	return run(m, &r, 1);
}

/* ---- the second stage, of one's own and of others' operations -------------------------------- */

static struct uid_request commit(struct uid_machine *m, uint64_t uid, struct uid_record *data)
{
	data->state = committed(uid);
	if (UID_IS_MUTANT(COMMIT_BY_WRITE))
		return move(UID_WRITE, uid_record_at(m, uid, 0), m->rkey, data, 0,
			    sizeof(data->state));
	return cas(uid_record_at(m, uid, 0), m->rkey, uid, committed(uid));
}

/*
 * Confirms an operation. No effect if that was done before: then neither the state nor the word is
 * the UID.
 */
static int confirm(struct uid_machine *m, uint64_t uid, uint64_t addr, uint32_t rkey, uint64_t swap)
{
	struct uid_record data;
	struct uid_request first = commit(m, uid, &data), second = cas(addr, rkey, uid, swap);
	struct uid_request both[] = { first, second };

	if (UID_IS_MUTANT(CONFIRM_BEFORE_COMMIT)) {
		both[0] = second;
		both[1] = first;
	}
	return run(m, both, 2);
}

/*
 * Finishes the operation of another's UID, met in a word. While the UID is in a word, its value is
 * that of the record. Later the value read here may belong to a later UID, but then the CAS finds
 * no word to swap.
 */
static int finish_for(struct uid_machine *m, uint64_t uid, uint64_t addr, uint32_t rkey)
{
	struct uid_record record;
	int ret = read_record(m, uid, &record);

	return ret ? ret : confirm(m, uid, addr, rkey, record.swap);
}

/* ---- the first stage ------------------------------------------------------------------------- */

static uint64_t *own_state(struct uid_machine *m)
{
	return &m->states[sequence_of(m->op.uid) % UID_SLOTS];
}

static void next_uid(struct uid_machine *m)
{
	m->sequence++;
	if (UID_IS_MUTANT(SLOT_REUSED))
		m->sequence = m->sequence % 2;
	m->op.uid = number(UID_MARK, m->instance, m->sequence);
}

static struct uid_request set_state(struct uid_machine *m, struct uid_record *record)
{
	uint64_t at = uid_record_at(m, m->op.uid, 0);

	if (UID_IS_MUTANT(RECORD_BY_WRITE))
		return move(UID_WRITE, at, m->rkey, record, 0, sizeof(record->state));
	return cas(at, m->rkey, *own_state(m), m->op.uid);
}

/* Handles a swap that failed because the word was something else. */
static int lost(struct uid_machine *m, uint64_t word)
{
	if (uid_is_uid(word))
		return finish_for(m, word, m->op.addr, m->op.rkey);
	if (!m->op.faa && word != m->op.expect) {
		m->op.stage = UID_IDLE;
		m->op.old = word;
	}
	return 0;
}

/*
 * Runs the first stage. all[2].old is preset to the new UID, which no word had before: still
 * there, it says that the CAS completed without its answer.
 */
static int install(struct uid_machine *m)
{
	const size_t head = offsetof(struct uid_record, swap);
	struct uid_op *op = &m->op;
	struct uid_record record;
	struct uid_request all[3];
	int ret;

	next_uid(m);
	record = (struct uid_record){ op->uid, op->swap, op->addr, op->rkey };
	all[0] = move(UID_WRITE, uid_record_at(m, op->uid, head), m->rkey, &record, head,
		      sizeof(record) - head);
	all[1] = set_state(m, &record);
	all[2] = cas(op->addr, op->rkey, op->expect, op->uid);
	op->stage = UID_UNKNOWN;
	ret = run(m, all, 3);
	if (ret)
		return ret;
	*own_state(m) = op->uid;
	op->old = all[2].old;
	if (op->old == op->expect) {
		op->stage = UID_DONE;
		return 0;
	}
	if (op->old == op->uid && !UID_IS_MUTANT(UNKNOWN_IS_LOST))
		return 0;
	op->stage = UID_BEGIN;
	return lost(m, op->old);
}

/*
 * Reads the word, and only then the record: between the reads the UID may be taken out of the
 * word.
 */
static int read_both(struct uid_machine *m, uint64_t *word, uint64_t *state)
{
	const struct uid_op *op = &m->op;
	int ret;

	if (UID_IS_MUTANT(RECORD_FIRST)) {
		ret = read_state(m, op->uid, state);
		return ret ? ret : read_word(m, op->addr, op->rkey, word);
	}
	ret = read_word(m, op->addr, op->rkey, word);
	return ret ? ret : read_state(m, op->uid, state);
}

static int look(struct uid_machine *m)
{
	struct uid_op *op = &m->op;
	uint64_t word, state;
	int ret = read_both(m, &word, &state);

	if (ret)
		return ret;
	*own_state(m) = state;
	if (word == op->uid || state == committed(op->uid)) {
		op->stage = UID_DONE;
		op->old = op->expect;
		return 0;
	}
	op->stage = UID_BEGIN;
	return lost(m, word);
}

static int begin(struct uid_machine *m)
{
	struct uid_op *op = &m->op;
	uint64_t word;
	int ret;

	if (!op->faa)
		return install(m);
	ret = read_word(m, op->addr, op->rkey, &word);
	if (ret || uid_is_uid(word))
		return ret ? ret : finish_for(m, word, op->addr, op->rkey);
	op->expect = word;
	op->swap = word + op->add;
	if (uid_is_value(op->swap))
		return install(m);
	op->stage = UID_IDLE;
	return ERANGE;
}

static int done(struct uid_machine *m)
{
	int ret = confirm(m, m->op.uid, m->op.addr, m->op.rkey, m->op.swap);

	if (ret)
		return ret;
	*own_state(m) = committed(m->op.uid);
	m->op.stage = UID_IDLE;
	return 0;
}

static int step(struct uid_machine *m)
{
	switch (m->op.stage) {
	case UID_BEGIN: return begin(m);
	case UID_UNKNOWN: return look(m);
	case UID_DONE: return done(m);
	case UID_IDLE: break;
	}
	return 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

int uid_finish(struct uid_machine *m, uint64_t *old)
{
	int ret = 0;

	while (!ret && m->op.stage != UID_IDLE)
		ret = step(m);
	if (!ret)
		*old = m->op.old;
	return ret;
}

static int begin_op(struct uid_machine *m, const struct uid_op *op)
{
	if (m->op.stage != UID_IDLE)
		return EBUSY;
	if (op->addr % sizeof(uint64_t) || !uid_is_value(op->expect) || !uid_is_value(op->swap))
		return EINVAL;
	m->op = *op;
	m->op.stage = UID_BEGIN;
	return 0;
}

int uid_begin_cas(struct uid_machine *m, uint64_t addr, uint32_t rkey, uint64_t expect,
		  uint64_t swap)
{
	const struct uid_op op = { .addr = addr, .rkey = rkey, .expect = expect, .swap = swap };

	return begin_op(m, &op);
}

int uid_begin_faa(struct uid_machine *m, uint64_t addr, uint32_t rkey, uint64_t add)
{
	const struct uid_op op = { .faa = true, .addr = addr, .rkey = rkey, .add = add };

	return begin_op(m, &op);
}

int uid_read(struct uid_machine *m, uint64_t addr, uint32_t rkey, uint64_t *value)
{
	int ret;

	if (addr % sizeof(uint64_t))
		return EINVAL;
	for (;;) {
		ret = read_word(m, addr, rkey, value);
		if (ret || !uid_is_uid(*value))
			return ret;
		ret = finish_for(m, *value, addr, rkey);
		if (ret)
			return ret;
	}
}

/*
 * Finishes what the last owner of the instance left. One operation runs at a time, so only the
 * last one can be left. Others may have finished it since its state was read; once its UID is not
 * in the word, the state changes no more.
 */
static int finish_last(struct uid_machine *m)
{
	uint64_t uid = number(UID_MARK, m->instance, m->sequence), word;
	uint64_t *state = &m->states[m->sequence % UID_SLOTS];
	struct uid_record record;
	int ret = read_record(m, uid, &record);

	if (ret || !m->sequence || UID_IS_MUTANT(LEFT_ALONE))
		return ret;
	ret = read_word(m, record.addr, (uint32_t)record.rkey, &word);
	if (ret || word != uid)
		return ret ? ret : read_state(m, uid, state);
	ret = confirm(m, uid, record.addr, (uint32_t)record.rkey, record.swap);
	if (!ret)
		*state = committed(uid);
	return ret;
}

int uid_open(struct uid_machine *m)
{
	uint32_t i;
	int ret;

	if (m->region % sizeof(struct uid_record))
		return EINVAL;
	m->sequence = 0;
	for (i = 0; i < UID_SLOTS; i++) {
		ret = read_state(m, number(UID_MARK, m->instance, i), &m->states[i]);
		if (ret)
			return ret;
		if (uid_is_value(m->states[i]))
			return EINVAL;
		if (sequence_of(m->states[i]) > m->sequence)
			m->sequence = sequence_of(m->states[i]);
	}
	return finish_last(m);
}
