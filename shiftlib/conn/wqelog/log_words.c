/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Each carrier whose sender asks gets a word of its own to write to, and a tag that no other
 * carrier of this process has had, nor will. Words lie in memory that is never given back, so a
 * NIC that hangs may write to one whose connection is gone; but what it writes has the tag of
 * that. A region is as large as its word, so that nobody reaches another one.
 *
 * The memory is shared with children of a fork. There it is the parent's, as are its
 * connections: a child that has connections of its own, and could give the same tags, takes
 * none of it.
 */
#include <endian.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/mapped.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/wqelog/log_words.h"
#include "shiftlib/conn/wqelog/wqe_log.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/core.h"
#include "shiftlib/core/settle.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/memory.h"

enum { WORDS_CHUNK = 2048 }; /* connections */

/* Of one connection. */
struct sh_log_words {
	_Atomic uint64_t word[SH_WQE_LOG_WORDS];
};

static struct {
	struct sh_log_words *spare[WORDS_CHUNK]; /* words of connections that are gone */
	uint32_t n_spare, left;			 /* left: at next */
	struct sh_log_words *next;
	uint32_t last_tag;
	uint64_t instance; /* the process whose words these are */
} words;

/* ---- memory ---------------------------------------------------------------------------------- */

/* Shared: a child's copy on write would leave the NIC with the child's pages. */
static bool words_more(void)
{
	void *at = mmap(NULL, WORDS_CHUNK * sizeof(*words.next), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return false;
	words.next = at;
	words.left = WORDS_CHUNK;
	return true;
}

static struct sh_log_words *words_take(void)
{
	if (words.instance != sh.instance)
		memset(&words, 0, sizeof(words));
	words.instance = sh.instance;
	if (words.n_spare)
		return words.spare[--words.n_spare];
	if (!words.left && !words_more())
		return NULL;
	words.left--;
	return words.next++;
}

/*
 * Gives a connection's words back. Words beyond a chunk's number stay unused, and so do a
 * parent's, which may use them still.
 */
void sh_wqe_log_free(struct sh_qp *qp)
{
	if (qp->log.words && qp->log.instance == words.instance && words.n_spare < WORDS_CHUNK)
		words.spare[words.n_spare++] = qp->log.words;
	qp->log.words = NULL;
}

/* ---- is there order? ------------------------------------------------------------------------- */

/* Can this process read it? It cannot where the memory is a GPU's. */
static bool words_readable(struct sh_mr *mr)
{
	if (!mr->readable)
		mr->readable = sh_mapped_readable(mr->addr, mr->length);
	return mr->readable;
}

/* A WRITE into any of its memory comes there before a later one to the host's memory. */
static bool words_in_order(const struct sh_pd *pd)
{
	struct sh_mr *mr;

	if (pd->unordered || pd->unprotected)
		return false;
	list_for_each (&pd->mrs, mr, struct sh_mr, link)
		if ((mr->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
		    !words_readable(mr))
			return false;
	return true;
}

static enum sh_wire_log_why words_refusal(const struct sh_qp *qp)
{
	if (!(qp->app.attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return SH_WIRE_LOG_WHY_RIGHTS;
	return words_in_order(qp->pd) ? SH_WIRE_LOG_WHY_NONE : SH_WIRE_LOG_WHY_ORDER;
}

/* ---- its place ------------------------------------------------------------------------------- */

struct place_job {
	struct sh_job job;
	struct sh_qp *qp;
	uint32_t epoch;
	struct ibv_qp *real;
	struct ibv_pd *pd;
	void *at;
	struct ibv_mr *mr;
};

void sh_wqe_log_drop(struct ibv_mr *mr)
{
	if (mr)
		sh.real->dereg_mr(mr);
}

static void words_refuse(struct sh_qp *qp, uint32_t carrier, enum sh_wire_log_why why) SH_LOCKED
{
	const struct sh_wire_log answer = { .kind = SH_WIRE_LOG_REFUSED,
					    .why = (uint8_t)why,
					    .carrier = carrier };

	sh_messages_send_log(qp, &answer);
}

static _Atomic uint64_t *words_of(const struct sh_qp *qp, uint32_t epoch)
{
	return &qp->log.words->word[epoch % SH_WQE_LOG_WORDS];
}

static void words_give(struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED
{
	uint32_t i = carrier->epoch % SH_WQE_LOG_WORDS;
	const struct sh_wire_log answer = { .kind = SH_WIRE_LOG_PLACE,
					    .carrier = carrier->epoch,
					    .rkey = carrier->log.mr->rkey,
					    .tag = qp->log.word[i].tag,
					    .addr = (uintptr_t)words_of(qp, carrier->epoch) };

	sh_messages_send_log(qp, &answer);
}

static bool words_given(const struct sh_qp *qp, uint32_t epoch)
{
	uint32_t i = epoch % SH_WQE_LOG_WORDS;

	return qp->log.words && qp->log.word[i].given && qp->log.word[i].carrier == epoch;
}

static void place_run(struct sh_job *job)
{
	struct place_job *task = (struct place_job *)job;

	sh.real->thread_inside();
	task->mr = sh.real->reg_mr(task->pd, task->at, sizeof(uint64_t),
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/* 0 is what memory holds that nobody has written to. */
static uint32_t words_tag(void)
{
	return ++words.last_tag ? words.last_tag : ++words.last_tag;
}

static void place_made(struct sh_qp *qp, struct sh_carrier *carrier, struct ibv_mr *mr) SH_LOCKED
{
	uint32_t i = carrier->epoch % SH_WQE_LOG_WORDS;

	carrier->log.mr = mr;
	qp->log.word[i].given = true;
	qp->log.word[i].carrier = carrier->epoch;
	qp->log.word[i].tag = words_tag();
	words_give(qp, carrier);
}

static void place_done(struct sh_job *job)
{
	struct place_job *task = (struct place_job *)job;
	struct sh_qp *qp = task->qp;
	struct sh_carrier *carrier;

	sh_lock();
	carrier = sh_carrier_find(qp, task->epoch);
	if (carrier && carrier->qp == task->real)
		carrier->log.making = false;
	else
		carrier = NULL;
	if (carrier && task->mr && qp->conn_id) {
		place_made(qp, carrier, task->mr);
		task->mr = NULL;
	} else if (carrier && !task->mr && qp->conn_id) {
		words_refuse(qp, task->epoch, SH_WIRE_LOG_WHY_MEMORY);
	}
	sh_unlock();
	sh_wqe_log_drop(task->mr);
	sh_lock();
	sh_job_end(&task->qp->pd->busy);
	sh_job_end(&qp->busy);
	sh_unlock();
	free(task);
}

static bool place_submit(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	struct sh_worker *worker = sh_carrier_worker(carrier);
	struct place_job *task = worker ? calloc(1, sizeof(*task)) : NULL;

	if (!task)
		return false;
	*task = (struct place_job){ .job = { .fn = place_run, .done = place_done },
				    .qp = qp,
				    .epoch = carrier->epoch,
				    .real = carrier->qp,
				    .pd = carrier->qp->pd,
				    .at = words_of(qp, carrier->epoch) };
	sh_job_begin(&qp->busy);
	sh_job_begin(&qp->pd->busy);
	if (!sh_worker_submit(worker, &task->job))
		return true;
	sh_job_end(&qp->pd->busy);
	sh_job_end(&qp->busy);
	free(task);
	return false;
}

static void words_make(struct sh_qp *qp, struct sh_carrier *carrier) SH_LOCKED
{
	if (!qp->log.words) {
		qp->log.words = words_take();
		qp->log.instance = sh.instance;
	}
	carrier->log.making = qp->log.words && place_submit(qp, carrier);
	if (!carrier->log.making)
		words_refuse(qp, carrier->epoch, SH_WIRE_LOG_WHY_MEMORY);
}

/*
 * Tells where the word of a carrier is. Of a carrier that is not made yet, or is given up,
 * nothing is said: the peer asks again, or does not use it.
 */
static void words_asked_place(struct sh_qp *qp, uint32_t epoch) SH_LOCKED
{
	struct sh_carrier *carrier = sh_carrier_find(qp, epoch);
	enum sh_wire_log_why why = words_refusal(qp);

	if (!carrier || !carrier->qp || carrier->to_error || carrier->log.making)
		return;
	if (why)
		words_refuse(qp, epoch, why);
	else if (carrier->log.mr && words_given(qp, epoch))
		words_give(qp, carrier);
	else if (carrier->log.mr)
		place_made(qp, carrier, carrier->log.mr);
	else
		words_make(qp, carrier);
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* Can what lies in that carrier, or in one before, execute nothing more here? */
static bool words_quiesced(const struct sh_qp *qp, uint32_t carrier)
{
	const struct sc_conn *c = &qp->core;

	return (int32_t)(carrier - c->epoch) < 0 && (c->move == SC_MOVE_NONE || c->count_final);
}

static void words_asked_what(struct sh_qp *qp, uint32_t epoch) SH_LOCKED
{
	struct sh_wire_log answer = { .kind = SH_WIRE_LOG_NOTHING, .carrier = epoch };
	uint32_t tag = qp->log.word[epoch % SH_WQE_LOG_WORDS].tag;
	enum sh_wire_log_why why = words_refusal(qp);

	if (!words_quiesced(qp, epoch))
		return;
	if (why) {
		words_refuse(qp, epoch, why);
		return;
	}
	if (words_given(qp, epoch) &&
	    sc_log_read(le64toh(atomic_load(words_of(qp, epoch))), tag, &answer.number))
		answer.kind = SH_WIRE_LOG_SAYS;
	sh_messages_send_log(qp, &answer);
}

/* Answers a question of the peer, which repeats it until it is answered. */
void sh_log_words_asked(struct sh_qp *qp, const struct sh_wire_log *ask)
{
	if (ask->kind == SH_WIRE_LOG_READ)
		words_asked_what(qp, ask->carrier);
	else
		words_asked_place(qp, ask->carrier);
}
