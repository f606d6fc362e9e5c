/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Records in Redis: SET with a PX lease, GETRANGE and DEL, many in one round trip, over one
 * connection that is made when it is needed. In a cluster the operations that another server has
 * are done over a connection to that server, in a round trip of their own.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "kvclient/check.h"
#include "kvclient/net.h"
#include "kvclient/redis.h"
#include "kvclient/redis_cluster.h"
#include "kvclient/seal.h"

#define KV_REDIS_MAX_ARGS 5

/*
 * After a failure, calls fail at once for a while: thousands of ranks must not all come back at the
 * same moment, and a thousand operations must not wait for the same dead server one by one.
 */
#define KV_RETRY_MIN_MS 25u
#define KV_RETRY_MAX_MS 5000u

/* How often servers of a cluster may redirect a batch before it is given up. */
#define KV_REDIRECTS_MAX 5

/* The operations of one call. Server 0 is the present connection, others are the cluster's. */
struct redis_batch {
	struct kv_op *ops;
	uint32_t n;
	uint64_t deadline_ms;
	uint8_t at[KV_RUN_MAX];	  /* server of each open operation in this round */
	uint8_t once[KV_RUN_MAX]; /* server that takes its next try, but not its key; 0: none */
};

static struct kv_redis *to_redis(struct kv *kv)
{
	return (struct kv_redis *)kv;
}

/*
 * OpenSSL writes with write(), so a server that went away raises SIGPIPE, which ends most programs.
 * The signal is blocked around a batch, and one that the batch raised is taken back.
 */
struct kv_sigpipe {
	sigset_t saved;
	bool was_pending;
};

static void kv_sigpipe_hold(struct kv_sigpipe *sp)
{
	sigset_t set;

	sigpending(&set);
	sp->was_pending = sigismember(&set, SIGPIPE);
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, &sp->saved);
}

static void kv_sigpipe_release(struct kv_sigpipe *sp)
{
	static const struct timespec no_wait;
	int saved_errno = errno;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	if (!sp->was_pending)
		while (sigtimedwait(&set, NULL, &no_wait) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &sp->saved, NULL);
	errno = saved_errno;
}

/* All commands here may be executed twice, so a connection that broke is tried once more. */
static bool kv_redis_worth_retry(int rc)
{
	return rc == -ECONNRESET || rc == -EPIPE || rc == -ENOTCONN;
}

/*
 * Fails this operation alone, unless a cluster says who has its key. If the server is no master or
 * not ready, others may be: leave it.
 */
static void kv_redis_refused(struct kv_redis *r, struct redis_batch *b, uint32_t i,
			     const char *text)
{
	const struct kv_address *address = &r->address[r->at];
	int rc = kv_cluster_redirect(r, b->at[i], text, &b->once[i]);

	if (rc > 0)
		return; /* still open: the next round asks there */
	if (!rc)
		rc = kv_redis_reply_error(text);
	if ((rc == -EROFS || rc == -EAGAIN) && !b->at[i])
		r->leave = r->n_addresses > 1 || *address->master;
	kv_op_fail(&r->kv, &b->ops[i], rc, "the server says: %.120s", text);
}

static void kv_redis_answer(struct kv_redis *r, struct redis_batch *b, uint32_t i,
			    const struct kv_reply *reply)
{
	struct kv_op *op = &b->ops[i];

	if (reply->type == KV_REPLY_ERROR)
		kv_redis_refused(r, b, i, reply->text);
	else if (op->type != KV_OP_GET)
		op->ret = 0;
	else if (reply->type == KV_REPLY_NIL || (reply->type == KV_REPLY_STRING && !reply->len))
		kv_op_fail(&r->kv, op, -ENOENT, "no such record");
	else if (reply->type != KV_REPLY_STRING)
		kv_op_fail(&r->kv, op, -EPROTO, "the reply is not a string");
	else
		kv_op_take(&r->kv, op, reply->text, reply->len);
}

static int kv_redis_append_put(struct kv_redis *r, struct kv_link *link, struct kv_op *op)
{
	const char *argv[KV_REDIS_MAX_ARGS] = { "SET", op->key, NULL, "PX", NULL };
	size_t len[KV_REDIS_MAX_ARGS] = { 3, strlen(op->key), 0, 2, 0 };
	uint8_t sealed[KV_SEALED_MAX];
	char lease[16];
	int rc;

	rc = kv_seal(&r->kv, op, sealed, &len[2]);
	if (rc)
		return rc;
	argv[2] = (const char *)sealed;
	len[4] = (size_t)snprintf(lease, sizeof(lease), "%u", op->lease_ms);
	argv[4] = lease;
	return kv_link_append(&r->kv, link, 5, argv, len);
}

/* GETRANGE, as anyone who can write the key may have put half a gigabyte there. */
static int kv_redis_append_get(struct kv_redis *r, struct kv_link *link, const struct kv_op *op)
{
	const char *argv[] = { "GETRANGE", op->key, "0", NULL };
	size_t len[] = { 8, strlen(op->key), 1, 0 };
	char last[16];

	len[3] = (size_t)snprintf(last, sizeof(last), "%u", KV_SEALED_MAX);
	argv[3] = last;
	return kv_link_append(&r->kv, link, 4, argv, len);
}

static int kv_redis_append_op(struct kv_redis *r, struct kv_link *link, struct kv_op *op)
{
	const char *argv[] = { "DEL", op->key };
	const size_t len[] = { 3, strlen(op->key) };

	switch (op->type) {
	case KV_OP_PUT: return kv_redis_append_put(r, link, op);
	case KV_OP_GET: return kv_redis_append_get(r, link, op);
	case KV_OP_DEL: return kv_link_append(&r->kv, link, 2, argv, len);
	}
	return -EINVAL;
}

/* ---- one server's operations ---------------------------------------------------------------- */

static bool batch_is_of(const struct redis_batch *b, uint32_t i, uint8_t server)
{
	return b->ops[i].ret == KV_OP_OPEN && b->at[i] == server;
}

static int batch_send(struct kv_redis *r, struct redis_batch *b, struct kv_link *link,
		      uint8_t server)
{
	const char *asking = "ASKING";
	const size_t len = 6;
	int rc = 0;

	for (uint32_t i = 0; i < b->n && !rc; i++) {
		if (!batch_is_of(b, i, server))
			continue;
		if (b->once[i])
			rc = kv_link_append(&r->kv, link, 1, &asking, &len);
		if (!rc)
			rc = kv_redis_append_op(r, link, &b->ops[i]);
	}
	return rc;
}

/* The reply of an operation, behind that of its ASKING, if it had one. */
static int batch_reply(struct kv_redis *r, struct redis_batch *b, struct kv_link *link, uint32_t i,
		       struct kv_reply **reply)
{
	int rc = 0;

	if (b->once[i])
		rc = kv_link_next(&r->kv, link, b->deadline_ms, 0, reply);
	if (b->once[i] && !rc)
		link->resp->free_reply(*reply);
	b->once[i] = 0;
	return rc ? rc : kv_link_next(&r->kv, link, b->deadline_ms, 0, reply);
}

static int batch_receive(struct kv_redis *r, struct redis_batch *b, struct kv_link *link,
			 uint8_t server)
{
	struct kv_reply *reply;
	int rc;

	for (uint32_t i = 0; i < b->n; i++) {
		if (!batch_is_of(b, i, server))
			continue;
		rc = batch_reply(r, b, link, i, &reply);
		if (rc)
			return rc;
		kv_redis_answer(r, b, i, reply);
		link->resp->free_reply(reply);
	}
	return 0;
}

static int batch_exchange(struct kv_redis *r, struct redis_batch *b, struct kv_link *link,
			  uint8_t server)
{
	int rc = batch_send(r, b, link, server);

	return rc ? rc : batch_receive(r, b, link, server);
}

/*
 * Another server of the cluster. Its failure is that of its own operations; where an idle
 * connection turns out to be closed they stay open.
 */
static void batch_elsewhere(struct kv_redis *r, struct redis_batch *b, uint8_t server)
{
	uint32_t contacts = r->kv.contacts;
	struct kv_link *link;
	int rc;

	rc = kv_cluster_link(r, server, b->deadline_ms, &link);
	if (!rc)
		rc = batch_exchange(r, b, link, server);
	if (!rc)
		return;
	if (contacts == r->kv.contacts && kv_redis_worth_retry(rc)) {
		kv_cluster_drop(r, server, 0);
		r->kv.err_rc = 0;
		return;
	}
	kv_cluster_drop(r, server, rc);
	for (uint32_t i = 0; i < b->n; i++)
		if (batch_is_of(b, i, server))
			kv_op_fail(&r->kv, &b->ops[i], rc, "no answer: %s", strerror(-rc));
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* Says who is to do each open operation. Returns the highest server; -1: nothing is open. */
static int batch_assign(const struct kv_redis *r, struct redis_batch *b)
{
	int highest = -1;

	for (uint32_t i = 0; i < b->n; i++) {
		if (b->ops[i].ret != KV_OP_OPEN)
			continue;
		b->at[i] = b->once[i] ? b->once[i] : kv_cluster_server(r->cluster, b->ops[i].key);
		if (b->at[i] > highest)
			highest = b->at[i];
	}
	return highest;
}

static bool batch_any_of(const struct redis_batch *b, uint8_t server)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (batch_is_of(b, i, server))
			return true;
	return false;
}

/* Returns the failure of the present connection, which is closed then. */
static int batch_round(struct kv_redis *r, struct redis_batch *b, int highest)
{
	int rc = 0;

	if (batch_any_of(b, 0))
		rc = batch_exchange(r, b, r->link, 0);
	for (int server = 1; server <= highest && !rc; server++)
		if (batch_any_of(b, (uint8_t)server))
			batch_elsewhere(r, b, (uint8_t)server);
	if (rc)
		kv_redis_disconnect(r); /* drops commands that were appended and never written */
	kv_redis_name(r);
	return rc;
}

static int kv_redis_batch(struct kv_redis *r, struct kv_op *ops, uint32_t n)
{
	struct redis_batch b = {
		.ops = ops,
		.n = n,
		.deadline_ms = kv_now_ms() + r->kv.timeout_ms,
	};
	int highest, rc = 0;

	KV_ASSERT(n <= KV_RUN_MAX);
	for (int round = 0; round <= KV_REDIRECTS_MAX && !rc; round++) {
		highest = batch_assign(r, &b);
		if (highest < 0)
			return 0;
		rc = batch_round(r, &b, highest);
	}
	for (uint32_t i = 0; i < n && !rc; i++)
		if (ops[i].ret == KV_OP_OPEN)
			kv_op_fail(&r->kv, &ops[i], -EREMOTE,
				   "servers of the cluster name each other for this key");
	return rc;
}

/* @ops NULL: a PING. */
static int kv_redis_try(struct kv_redis *r, struct kv_op *ops, uint32_t n)
{
	const char *argv[] = { "PING" };
	const size_t len[] = { 4 };
	int rc;

	if (ops)
		return kv_redis_batch(r, ops, n);
	rc = kv_link_call(&r->kv, r->link, kv_now_ms() + r->kv.timeout_ms, 1, argv, len,
			  kv_redis_any_reply);
	if (r->link->lost)
		kv_redis_disconnect(r);
	return rc;
}

static int kv_redis_once(struct kv_redis *r, struct kv_op *ops, uint32_t n)
{
	bool fresh;
	int rc;

	kv_redis_leave_parents(r);
	kv_redis_go_home(r);
	fresh = !r->link;
	rc = fresh ? kv_redis_connect(r) : 0;
	if (!rc)
		rc = kv_redis_try(r, ops, n);
	if (!fresh && kv_redis_worth_retry(rc)) {
		rc = kv_redis_connect(r);
		if (!rc)
			rc = kv_redis_try(r, ops, n);
	}
	if (r->leave && r->link) {
		r->first = (r->at + 1) % r->n_addresses;
		kv_redis_disconnect(r);
	}
	return rc;
}

/* Doubled with each failure, and anywhere in the second half of it. */
static void kv_redis_failed(struct kv_redis *r, int rc)
{
	unsigned shift = r->n_failed < 8 ? r->n_failed : 8;
	unsigned ms = KV_RETRY_MIN_MS << shift, spread = 0;

	if (ms > KV_RETRY_MAX_MS)
		ms = KV_RETRY_MAX_MS;
	if (getrandom(&spread, sizeof(spread), GRND_NONBLOCK) != sizeof(spread))
		spread = (unsigned)getpid();
	r->n_failed++;
	r->retry_at_ms = kv_now_ms() + ms / 2 + spread % (ms / 2);
	r->failed_rc = rc;
	memcpy(r->failed, r->kv.err, sizeof(r->failed));
}

static int kv_redis_still_failed(struct kv_redis *r)
{
	memcpy(r->kv.err, r->failed, sizeof(r->kv.err));
	r->kv.err_rc = r->failed_rc;
	return r->failed_rc;
}

static int kv_redis_run(struct kv *kv, struct kv_op *ops, uint32_t n)
{
	struct kv_redis *r = to_redis(kv);
	struct kv_sigpipe sp;
	int rc;

	if (ops && r->n_failed && kv_now_ms() < r->retry_at_ms)
		return kv_redis_still_failed(r);
	kv_sigpipe_hold(&sp);
	rc = kv_redis_once(r, ops, n);
	kv_sigpipe_release(&sp);
	if (rc)
		kv_redis_failed(r, rc);
	else
		r->n_failed = 0;
	return rc;
}

static int kv_redis_ping(struct kv *kv)
{
	return kv_redis_run(kv, NULL, 0);
}

static void kv_redis_close(struct kv *kv)
{
	struct kv_redis *r = to_redis(kv);

	kv_redis_disconnect(r);
	kv_cluster_free(r->cluster);
	explicit_bzero(r->address, r->n_addresses * sizeof(r->address[0]));
	free(r->password_file);
	free(r);
}

static const struct kv_ops kv_redis_ops = {
	.ping = kv_redis_ping,
	.run = kv_redis_run,
	.close = kv_redis_close,
};

struct kv *kv_redis_new(const struct kv_url *url, const char *password_file)
{
	size_t bytes = url->n_addresses * sizeof(url->address[0]);
	struct kv_redis *r = calloc(1, sizeof(*r) + bytes);

	if (!r)
		return NULL;
	if (password_file && *password_file) {
		r->password_file = strdup(password_file);
		if (!r->password_file) {
			free(r);
			return NULL;
		}
	}
	r->kv.ops = &kv_redis_ops;
	r->kv.home_ms = KV_HOME_MS;
	r->n_addresses = url->n_addresses;
	memcpy(r->address, url->address, bytes);
	kv_redis_name(r);
	return &r->kv;
}
