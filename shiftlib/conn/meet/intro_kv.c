/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Questions to the KV, many in one round trip. Connections stand in line; whenever the KV's
 * thread is free it takes all that are there, up to a batch, so a store that is slow is asked
 * less often and for more. sh_intros.kv is that thread's alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "kvclient/kv.h"
#include "shiftlib/base/aside.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/meet/intro.h"
#include "shiftlib/conn/meet/intro_kv.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/address.h"
#include "shiftlib/control/auth.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/report/metrics.h"

#define BATCH_ITEMS	  64
#define BATCH_WITHDRAWALS 64
/* Nobody waits for a withdrawal: it waits for others, or for a question. */
#define WITHDRAW_WAIT_NS (50 * SH_NS_PER_MS)

struct withdrawal {
	struct list_node link;
	uint64_t instance;
	uint32_t nonce;
	char keys[2][KV_KEY_MAX + 1];
	int n;
};

/*
 * One round of questions to the KV, owned by the KV's thread, which fills and reads it with the
 * lock held and asks without.
 */
struct batch {
	uint32_t n_items, n_gone;
	struct sh_intro_item items[BATCH_ITEMS];
	struct withdrawal *gone[BATCH_WITHDRAWALS];
	struct kv_op ops[BATCH_ITEMS * 3 + BATCH_WITHDRAWALS * 2];
	uint32_t n_ops;
	uint8_t written[BATCH_ITEMS][KV_RECORD_MAX_LEN];
	uint8_t read[BATCH_ITEMS + BATCH_WITHDRAWALS * 2][KV_VALUE_MAX];
	uint32_t n_read;
	uint32_t contacts;
	uint32_t done, failed; /* operations, and those of them without an answer */
	uint64_t took_ns;      /* time of the last round trip; 0: there was none */
	int key_ret;	       /* -ENOKEY: the job has no secret */
	uint8_t key[KV_MAC_LEN];
	char error[KV_ERR_MAX];
};

/* ---- on the KV's thread, without the lock --------------------------------------------------- */

static int batch_kv_open(struct batch *b)
{
	const struct kv_options options = { .timeout_ms = sh.config.kv_timeout_ms,
					    .password_file = sh.config.kv_password_file,
					    .secret_file = sh.config.secret_file,
					    .aside = sh_aside_one };

	if (sh_intros.kv)
		return 0;
	return kv_open_with(sh.config.kv_url, &options, &sh_intros.kv, b->error, sizeof(b->error));
}

/* Copies what others need from the handle, which is this thread's alone. */
static void batch_kv_tell(struct batch *b)
{
	b->contacts = kv_contacts(sh_intros.kv);
	b->key_ret = kv_derive(sh_intros.kv, SH_AUTH_PURPOSE, b->key);
}

static struct kv_op *batch_op(struct batch *b, enum kv_op_type type, const char *key)
{
	struct kv_op *op = &b->ops[b->n_ops++];

	*op = (struct kv_op){ .type = type, .key = key };
	return op;
}

static void batch_add_get(struct batch *b, const char *key)
{
	struct kv_op *op = batch_op(b, KV_OP_GET, key);

	op->buf = b->read[b->n_read++];
	op->cap = KV_VALUE_MAX;
}

static void batch_add_puts(struct batch *b, struct sh_intro_item *item)
{
	uint8_t *value = b->written[item - b->items];
	size_t length;
	int i;

	item->put_ret = kv_record_encode(&item->own, value, KV_RECORD_MAX_LEN, &length);
	for (i = 0; !item->put_ret && i < item->n_own; i++) {
		struct kv_op *op = batch_op(b, KV_OP_PUT, item->own_keys[i]);

		op->val = value;
		op->len = length;
		op->lease_ms = sh.config.lease_ms;
	}
}

/* Returns the number of operations without an answer. "Not there" is an answer. */
static uint32_t batch_failed(const struct batch *b)
{
	uint32_t i, n = 0;

	for (i = 0; i < b->n_ops; i++)
		n += b->ops[i].ret && b->ops[i].ret != -ENOENT && !kv_refusal(b->ops[i].ret);
	return n;
}

static int batch_run(struct batch *b)
{
	uint64_t begun = sh_now_ns();
	int ret = kv_run(sh_intros.kv, b->ops, b->n_ops);
	uint32_t failed = batch_failed(b);

	b->done += b->n_ops;
	b->failed += failed;
	if (b->n_ops)
		b->took_ns = sh_now_ns() - begun;
	if (ret || failed)
		strncpy(b->error, kv_last_error(sh_intros.kv), sizeof(b->error) - 1);
	return ret;
}

/* Reads the results, in the order in which the operations were added. */
static void batch_read_items(struct batch *b)
{
	const struct kv_op *op = b->ops;
	uint32_t i;
	int k;

	for (i = 0; i < b->n_items; i++) {
		struct sh_intro_item *item = &b->items[i];

		for (k = 0; item->put && !item->put_ret && k < item->n_own; k++, op++)
			item->put_ret = op->ret;
		if (!item->get)
			continue;
		item->get_ret = op->ret ? op->ret : kv_record_decode(&item->peer, op->buf, op->got);
		op++;
	}
}

static void batch_items(struct batch *b)
{
	uint32_t i;

	b->n_ops = b->n_read = 0;
	for (i = 0; i < b->n_items; i++) {
		if (b->items[i].put)
			batch_add_puts(b, &b->items[i]);
		if (b->items[i].get)
			batch_add_get(b, b->items[i].peer_key);
	}
	(void)batch_run(b); /* each operation has its own answer */
	batch_read_items(b);
}

static bool withdrawal_ours(const struct withdrawal *gone, const struct kv_op *op)
{
	struct kv_record found;

	return !op->ret && !kv_record_decode(&found, op->buf, op->got) &&
	       found.instance == gone->instance && found.nonce == gone->nonce;
}

/* Only what is still ours: the QPN may be another process' by now, with an entry of its own. */
static void batch_withdraw(struct batch *b)
{
	const char *ours[BATCH_WITHDRAWALS * 2];
	uint32_t i, n = 0;
	struct kv_op *op;
	int k;

	b->n_ops = b->n_read = 0;
	for (i = 0; i < b->n_gone; i++)
		for (k = 0; k < b->gone[i]->n; k++)
			batch_add_get(b, b->gone[i]->keys[k]);
	(void)batch_run(b);
	op = b->ops;
	for (i = 0; i < b->n_gone; i++)
		for (k = 0; k < b->gone[i]->n; k++, op++)
			if (withdrawal_ours(b->gone[i], op))
				ours[n++] = b->gone[i]->keys[k];
	b->n_ops = 0;
	for (i = 0; i < n; i++)
		batch_op(b, KV_OP_DEL, ours[i]);
	(void)batch_run(b);
}

static void batch_fail(struct batch *b, int ret)
{
	uint32_t i;

	b->done = b->failed = b->n_items; /* none of their operations was asked */
	for (i = 0; i < b->n_items; i++)
		b->items[i].put_ret = b->items[i].get_ret = ret;
}

static void batch_ask(struct batch *b)
{
	int ret = batch_kv_open(b);

	if (ret) {
		batch_fail(b, ret);
		return;
	}
	if (b->n_items)
		batch_items(b);
	if (b->n_gone)
		batch_withdraw(b);
	batch_kv_tell(b);
}

/* ---- the line ------------------------------------------------------------------------------- */

/* Withdrawals alone wait until they fill a batch, or are due. */
static bool line_pressing(void)
{
	return !list_empty(&sh_intros.line) || sh_intros.n_withdrawals >= BATCH_WITHDRAWALS ||
	       (sh_intros.n_withdrawals && sh_intros.hurried);
}

static void withdrawals_wait(void) SH_LOCKED
{
	sh_intros.withdraw_at = sh_now_ns() + WITHDRAW_WAIT_NS;
	sh_wake_at(sh_intros.withdraw_at);
}

static void batch_take(struct batch *b) SH_LOCKED
{
	struct withdrawal *gone;
	struct sh_qp *qp;

	b->n_items = b->n_gone = 0;
	b->contacts = b->done = b->failed = 0;
	b->took_ns = 0;
	b->key_ret = -ENOKEY;
	b->error[0] = 0;
	list_for_each (&sh_intros.line, qp, struct sh_qp, intro.line) {
		if (b->n_items == BATCH_ITEMS)
			break;
		list_del(&qp->intro.line);
		list_init(&qp->intro.line);
		if (sh_intro_fill(qp, &b->items[b->n_items]))
			b->n_items++;
		else
			qp->intro.queued = false;
	}
	list_for_each (&sh_intros.withdrawals, gone, struct withdrawal, link) {
		if (b->n_gone == BATCH_WITHDRAWALS)
			break;
		list_del(&gone->link);
		b->gone[b->n_gone++] = gone;
	}
	sh_intros.n_withdrawals -= b->n_gone;
	sh_intros.hurried &= sh_intros.n_withdrawals > 0;
}

/* A file on this machine has its rights; a server has whoever reaches it. */
static void batch_warn_of_trust(const struct batch *b)
{
	if (sh_intros.warned || b->contacts == 0 || b->key_ret != -ENOKEY ||
	    strncmp(sh.config.kv_url, "redis", strlen("redis")))
		return;
	sh_intros.warned = true;
	sh_log(SH_LOG_WARN,
	       "the job has no secret: whoever can write to its KV server, or send to its NICs, "
	       "can end "
	       "its connections or get their traffic after a fault; set SHIFT_SECRET_FILE");
}

static void batch_answer(struct batch *b) SH_LOCKED
{
	uint32_t i;

	batch_warn_of_trust(b);
	if (sh_peers_sign() && !b->key_ret && sh_auths_begin(&sh_peers.auths, b->key))
		sh_error_once(
			"no memory for the keys of datagrams: the job runs without protection");
	sh_metrics_kv(b->done, b->failed, b->took_ns);
	sh_intro_contact(b->contacts);
	sh_outbox_hold();
	for (i = 0; i < b->n_items; i++) {
		const struct sh_intro_item *item = &b->items[i];
		struct sh_qp *qp = sh_conns_find(item->conn_id);

		if (!qp || qp->nonce != item->nonce)
			continue; /* it ended meanwhile */
		qp->intro.queued = false;
		sh_intro_answer(qp, item, b->error);
	}
	sh_outbox_release();
	for (i = 0; i < b->n_gone; i++)
		free(b->gone[i]);
	sh_kick();
}

/*
 * The job of the KV's thread: takes batches while something is in line. The last withdrawals of
 * a process are still sent, and nobody is left to hear of the answers.
 */
static void line_run(struct sh_job *job)
{
	struct batch *b = malloc(sizeof(*b));

	(void)job;
	sh.real->thread_inside();
	sh_job_lock();
	while (b && line_pressing()) {
		batch_take(b);
		sh_job_unlock();
		batch_ask(b);
		sh_job_lock();
		batch_answer(b);
	}
	sh_intros.running = false; /* the worker reads nothing of the job any more */
	if (sh_intros.n_withdrawals)
		withdrawals_wait();
	sh_job_unlock();
	if (b)
		explicit_bzero(b->key, sizeof(b->key));
	free(b);
}

/* Starts the job. Without memory or a thread, what is in line waits for the next start. */
static void line_start(void)
{
	sh_intros.withdraw_at = 0; /* the job takes all that is in line */
	if (sh_intros.running || sh.stopping)
		return;
	if (!sh_intros.worker)
		sh_intros.worker = sh_worker_start("shift-kv");
	sh_intros.job = (struct sh_job){ .fn = line_run, .patient = true };
	sh_intros.running = sh_intros.worker && !sh_worker_submit(sh_intros.worker, &sh_intros.job);
}

void sh_intro_line_up(struct sh_qp *qp)
{
	if (!qp->intro.queued)
		list_add_tail(&sh_intros.line, &qp->intro.line);
	qp->intro.queued = true;
	line_start();
}

void sh_intro_line_remove(struct sh_qp *qp)
{
	if (!list_empty(&qp->intro.line))
		list_del(&qp->intro.line);
	list_init(&qp->intro.line);
	qp->intro.queued = qp->intro.waits = false;
}

void sh_intro_line_withdraw(uint32_t nonce, char keys[][KV_KEY_MAX + 1], int n)
{
	struct withdrawal *gone = malloc(sizeof(*gone));

	if (!gone)
		return;
	gone->instance = sh.instance;
	gone->nonce = nonce;
	for (gone->n = 0; gone->n < n; gone->n++)
		memcpy(gone->keys[gone->n], keys[gone->n], strlen(keys[gone->n]) + 1);
	list_add_tail(&sh_intros.withdrawals, &gone->link);
	if (++sh_intros.n_withdrawals >= BATCH_WITHDRAWALS)
		line_start();
	else if (!sh_intros.running && !sh_intros.withdraw_at)
		withdrawals_wait();
}

/* Sends withdrawals that wait for others. */
static void line_hurry(void)
{
	sh_intros.hurried = sh_intros.n_withdrawals;
	if (sh_intros.hurried)
		line_start();
}

struct sh_worker *sh_intros_take_worker(void)
{
	struct sh_worker *worker;

	line_hurry();
	worker = sh_intros.worker;
	sh_intros.worker = NULL;
	return worker;
}

static void intros_run(uint64_t now)
{
	if (sh_intros.withdraw_at && now >= sh_intros.withdraw_at)
		line_hurry();
}

static uint64_t intros_next_timer(void)
{
	return sh_intros.withdraw_at;
}

static void intros_reset(void)
{
	memset(&sh_intros, 0, sizeof(sh_intros));
	list_init(&sh_intros.line);
	list_init(&sh_intros.waiting);
	list_init(&sh_intros.withdrawals);
}

const struct sh_module sh_intros_module = { .name = "introductions",
					    .reset = intros_reset,
					    .run = intros_run,
					    .next_timer = intros_next_timer };

/* ---- GIDs ----------------------------------------------------------------------------------- */

struct gid_job {
	struct sh_job job;
	struct sh_nic *nic;
	uint32_t conn_id, nonce;
	uint8_t index;
	union ibv_gid gid;
	uint8_t kind;
	uint16_t vlan;
	bool known;
};

static void gid_run(struct sh_job *job)
{
	struct gid_job *task = (struct gid_job *)job;

	sh.real->thread_inside();
	task->known = task->nic->ctx &&
		      !sh.real->query_gid(task->nic->ctx, SH_INTRO_PORT, task->index, &task->gid);
	if (!task->known)
		return;
	task->kind = sh_gid_kind(task->nic->ctx, SH_INTRO_PORT, task->index, &task->gid);
	task->vlan = sh_gid_vlan(task->nic->ctx, SH_INTRO_PORT, task->index);
}

static void gid_done(struct sh_job *job)
{
	struct gid_job *task = (struct gid_job *)job;
	struct sh_nic *nic = task->nic;
	struct sh_qp *qp;

	sh_lock();
	if (task->known) {
		nic->gid.valid = true;
		nic->gid.index = task->index;
		nic->gid.kind = task->kind;
		nic->gid.vlan = task->vlan;
		memcpy(nic->gid.gid, task->gid.raw, sizeof(nic->gid.gid));
	}
	qp = sh_conns_find(task->conn_id);
	if (qp && qp->nonce == task->nonce && !job->canceled) {
		qp->intro.queued = false;
		qp->intro.gid_unknown = !task->known;
		sh_intro_start(qp);
		sh_kick();
	}
	sh_job_end(&nic->busy);
	sh_unlock();
	free(task);
}

bool sh_intro_ask_gid(struct sh_qp *qp, uint8_t index)
{
	struct sh_nic *nic = qp->ctx->nic;
	struct gid_job *task = calloc(1, sizeof(*task));

	if (!task)
		return false;
	*task = (struct gid_job){ .job = { .fn = gid_run, .done = gid_done },
				  .nic = nic,
				  .conn_id = qp->conn_id,
				  .nonce = qp->nonce,
				  .index = index };
	sh_job_begin(&nic->busy);
	if (!sh_worker_submit(nic->worker, &task->job))
		return true;
	sh_job_end(&nic->busy);
	free(task);
	return false;
}
