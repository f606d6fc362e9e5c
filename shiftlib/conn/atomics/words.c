/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Both ends of the question what a word holds. Question and answer are repeated as often as
 * messages are lost: behind the quiesce of the carrier that the requests lie in, the answer
 * does not change any more (core/owner.c). The end that answers waits for that quiesce, and
 * reads no word that the asker could not have reached by an atomic.
 */
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
#include "shiftlib/base/log.h"
#include "shiftlib/conn/atomics/words.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/settle.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/memory.h"

enum { WORDS_MAX = 256, LOOKS = 8 };

struct sh_words {
	uint32_t carrier, n;
	struct sh_wire_word word[WORDS_MAX]; /* ASK: not told yet */
};

/* ---- who asks ------------------------------------------------------------------------------- */

static bool words_usable(const struct sh_qp *qp)
{
	return sh.config.atomics_owner && qp->peer;
}

static struct sh_wire_word *words_find(const struct sh_qp *qp, uint64_t addr, uint32_t rkey)
{
	struct sh_words *words = qp->words;

	if (!words || words->carrier != qp->active->epoch)
		return NULL;
	for (uint32_t i = 0; i < words->n; i++)
		if (words->word[i].addr == addr && words->word[i].rkey == rkey)
			return &words->word[i];
	return NULL;
}

static void words_fill(const struct sh_qp *qp, struct sp_request *requests, uint32_t n)
{
	for (uint32_t i = 0; i < n && qp->words; i++) {
		const struct sh_wire_word *word;

		if (!sc_owner_asks(&requests[i]))
			continue;
		word = words_find(qp, requests[i].addr, requests[i].rkey);
		requests[i].told = word && word->kind == SH_WIRE_WORD_TOLD;
		requests[i].word = requests[i].told ? word->value : 0;
	}
}

/* NULL: there is no room for it. */
static struct sh_wire_word *words_want(struct sh_qp *qp, const struct sp_request *request)
{
	struct sh_wire_word *word = words_find(qp, request->addr, request->rkey);
	struct sh_words *words = qp->words;

	if (word)
		return word;
	if (!words)
		words = qp->words = calloc(1, sizeof(*words));
	if (!words)
		return NULL;
	if (words->carrier != qp->active->epoch)
		words->n = 0;
	words->carrier = qp->active->epoch;
	if (words->n == WORDS_MAX)
		return NULL;
	word = &words->word[words->n++];
	*word = (struct sh_wire_word){ .kind = SH_WIRE_WORD_ASK,
				       .carrier = words->carrier,
				       .addr = request->addr,
				       .rkey = request->rkey };
	return word;
}

static bool words_ask(struct sh_qp *qp, const struct sp_request *requests, uint32_t n) SH_LOCKED
{
	bool waits = false;

	for (uint32_t i = 0; i < n && words_usable(qp); i++) {
		const struct sh_wire_word *word;

		if (!sc_owner_asks(&requests[i]))
			continue;
		word = words_want(qp, &requests[i]);
		if (!word || word->kind != SH_WIRE_WORD_ASK)
			continue;
		waits = true;
		sh_messages_send_word(qp, word);
	}
	return waits;
}

static bool words_meet(const struct sp_request *a, const struct sp_request *b)
{
	return a->bytes && b->bytes && a->addr < b->addr + b->bytes && b->addr < a->addr + a->bytes;
}

static bool words_would_tell(const struct sh_qp *qp, const struct sp_request *requests, uint32_t n,
			     uint32_t i)
{
	if (!words_usable(qp) || !sc_owner_asks(&requests[i]))
		return false;
	for (uint32_t k = 0; k < n; k++)
		if (k != i &&
		    (words_meet(&requests[k], &requests[i]) || (k > i && requests[k].send_fence)))
			return false;
	return true;
}

static void words_answered(struct sh_qp *qp, const struct sh_wire_word *told)
{
	struct sh_wire_word *word = words_find(qp, told->addr, told->rkey);

	if (!word || word->kind != SH_WIRE_WORD_ASK || told->carrier != qp->words->carrier)
		return;
	word->kind = told->kind;
	word->value = told->value;
	if (told->kind == SH_WIRE_WORD_REFUSED)
		sh_log(SH_LOG_WARN,
		       "QP 0x%06x: its peer cannot read a word of an atomic of unknown fate (not "
		       "in "
		       "host memory, or not registered any more): without it the connection ends",
		       qp->qp->qp_num);
}

void sh_words_forget(struct sh_qp *qp)
{
	free(qp->words);
	qp->words = NULL;
}

/* ---- who answers ---------------------------------------------------------------------------- */

/* Can what lies in that carrier, or in one before, execute nothing more here? */
static bool words_quiesced(const struct sh_qp *qp, uint32_t carrier)
{
	const struct sc_conn *c = &qp->core;

	return (int32_t)(carrier - c->epoch) < 0 && (c->move == SC_MOVE_NONE || c->count_final);
}

/*
 * Reads the word through the kernel, which fails if the application has taken the pages away.
 * Two equal reads in a row show that nobody wrote it meanwhile.
 */
static bool words_load(uint64_t at, uint64_t *value)
{
	uint64_t again;
	struct iovec to[2] = { { value, sizeof(*value) }, { &again, sizeof(again) } };
	struct iovec from = { (void *)(uintptr_t)at, sizeof(*value) };

	for (int i = 0; i < LOOKS; i++) {
		if (process_vm_readv(getpid(), &to[0], 1, &from, 1, 0) != sizeof(*value) ||
		    process_vm_readv(getpid(), &to[1], 1, &from, 1, 0) != sizeof(*value))
			return false;
		if (*value == again)
			return true;
	}
	return false;
}

static bool words_within(const struct sh_mr *mr, const struct sh_wire_word *word)
{
	return mr->mr->rkey == word->rkey && (mr->access & IBV_ACCESS_REMOTE_ATOMIC) &&
	       !mr->dmabuf && !mr->leaving && mr->alone == SH_ALONE_NOT && word->addr >= mr->iova &&
	       mr->length >= sizeof(uint64_t) &&
	       word->addr - mr->iova <= mr->length - sizeof(uint64_t);
}

static bool words_read(const struct sh_qp *qp, const struct sh_wire_word *word, uint64_t *value)
{
	const struct sh_mr *mr;

	if (!qp->pd || word->addr % sizeof(uint64_t) ||
	    !(qp->app.attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC))
		return false;
	list_for_each (&qp->pd->mrs, mr, struct sh_mr, link)
		if (words_within(mr, word))
			return !sh_mr_is_another(mr) &&
			       words_load((uintptr_t)mr->addr + (word->addr - mr->iova), value);
	return false;
}

/* Answers if the carrier is quiesced; else nothing is said, and the peer asks again. */
static void words_tell(struct sh_qp *qp, const struct sh_wire_word *asked) SH_LOCKED
{
	struct sh_wire_word answer = *asked;

	if (!words_quiesced(qp, asked->carrier))
		return;
	answer.kind =
		words_read(qp, asked, &answer.value) ? SH_WIRE_WORD_TOLD : SH_WIRE_WORD_REFUSED;
	sh_messages_send_word(qp, &answer);
}

static bool words_message(struct sh_qp *qp, const struct sh_wire_record *record) SH_LOCKED
{
	if (record->type != SH_WIRE_WORD)
		return false;
	if (record->word.kind == SH_WIRE_WORD_ASK)
		words_tell(qp, &record->word);
	else
		words_answered(qp, &record->word);
	return true;
}

/* ---- the part ------------------------------------------------------------------------------- */

/* Adds the words that were told of the carrier in use; never asks. */
static bool words_told(struct sh_qp *qp, struct sp_request *requests, uint32_t n,
		       struct sc_counts *counts)
{
	(void)counts;
	words_fill(qp, requests, n);
	return false;
}

const struct sh_conn_part sh_words_part = {
	.name = "words",
	.life.reset = sh_words_forget,
	.move.quiesces = sh_words_forget,
	.fate = { .tell = words_told, .ask = words_ask, .would_tell = words_would_tell },
	.news.message = words_message,
};
