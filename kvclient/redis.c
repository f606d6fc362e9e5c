/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Records in Redis: SET with a PX lease, GETRANGE and DEL, many in one round trip, over one
 * connection that is made when it is needed.
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
#include "kvclient/seal.h"

#define KV_REDIS_MAX_ARGS 5

/*
 * After a failure, calls fail at once for a while: thousands of ranks must not all come back at the
 * same moment, and a thousand operations must not wait for the same dead server one by one.
 */
#define KV_RETRY_MIN_MS 25u
#define KV_RETRY_MAX_MS 5000u

static struct kv_redis *to_redis(struct kv *kv)
{
	return (struct kv_redis *)kv;
}

/*
 * hiredis writes with write(), so a server that went away raises SIGPIPE, which ends most programs.
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

/* Fails this operation alone. If the server is no master or not ready, others may be: leave it. */
static void kv_redis_refused(struct kv_redis *r, struct kv_op *op, const char *text)
{
	int rc = kv_redis_reply_error(text);

	if (rc == -EROFS || rc == -EAGAIN)
		r->leave = r->n_addresses > 1;
	kv_op_fail(&r->kv, op, rc, "the server says: %.120s%s", text,
		   rc == -EREMOTE ? " (Redis Cluster needs a proxy)" : "");
}

static void kv_redis_answer(struct kv_redis *r, struct kv_op *op, const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_ERROR)
		kv_redis_refused(r, op, reply->str);
	else if (op->type != KV_OP_GET)
		op->ret = 0;
	else if (reply->type == REDIS_REPLY_NIL ||
		 (reply->type == REDIS_REPLY_STRING && !reply->len))
		kv_op_fail(&r->kv, op, -ENOENT, "no such record");
	else if (reply->type != REDIS_REPLY_STRING)
		kv_op_fail(&r->kv, op, -EPROTO, "the reply is not a string");
	else
		kv_op_take(&r->kv, op, reply->str, reply->len);
}

static int kv_redis_append_put(struct kv_redis *r, struct kv_op *op)
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
	return kv_redis_append(r, 5, argv, len);
}

/* GETRANGE, as anyone who can write the key may have put half a gigabyte there. */
static int kv_redis_append_get(struct kv_redis *r, const struct kv_op *op)
{
	const char *argv[] = { "GETRANGE", op->key, "0", NULL };
	size_t len[] = { 8, strlen(op->key), 1, 0 };
	char last[16];

	len[3] = (size_t)snprintf(last, sizeof(last), "%u", KV_SEALED_MAX);
	argv[3] = last;
	return kv_redis_append(r, 4, argv, len);
}

static int kv_redis_append_op(struct kv_redis *r, struct kv_op *op)
{
	const char *argv[] = { "DEL", op->key };
	const size_t len[] = { 3, strlen(op->key) };

	switch (op->type) {
	case KV_OP_PUT: return kv_redis_append_put(r, op);
	case KV_OP_GET: return kv_redis_append_get(r, op);
	case KV_OP_DEL: return kv_redis_append(r, 2, argv, len);
	}
	return -EINVAL;
}

/* All open operations on the present connection. */
static int kv_redis_batch(struct kv_redis *r, struct kv_op *ops, uint32_t n)
{
	uint64_t deadline_ms = kv_now_ms() + r->kv.timeout_ms;
	redisReply *reply;
	uint32_t i;
	int rc = 0;

	for (i = 0; i < n && !rc; i++)
		if (ops[i].ret == KV_OP_OPEN)
			rc = kv_redis_append_op(r, &ops[i]);
	if (rc)
		kv_redis_disconnect(r); /* drops commands that were appended and never written */
	for (i = 0; i < n && !rc; i++) {
		if (ops[i].ret != KV_OP_OPEN)
			continue;
		rc = kv_redis_next(r, deadline_ms, &reply);
		if (rc)
			break;
		kv_redis_answer(r, &ops[i], reply);
		KV_ASSERT(ops[i].ret != KV_OP_OPEN);
		kv_hiredis.free_reply(reply);
	}
	return rc;
}

/* @ops NULL: a PING. */
static int kv_redis_try(struct kv_redis *r, struct kv_op *ops, uint32_t n)
{
	const char *argv[] = { "PING" };
	const size_t len[] = { 4 };

	return ops ? kv_redis_batch(r, ops, n) : kv_redis_call(r, 1, argv, len, kv_redis_any_reply);
}

static int kv_redis_once(struct kv_redis *r, struct kv_op *ops, uint32_t n)
{
	bool fresh;
	int rc;

	kv_redis_leave_parents(r);
	kv_redis_go_home(r);
	fresh = !r->ctx;
	rc = fresh ? kv_redis_connect(r) : 0;
	if (!rc)
		rc = kv_redis_try(r, ops, n);
	if (!fresh && kv_redis_worth_retry(rc)) {
		rc = kv_redis_connect(r);
		if (!rc)
			rc = kv_redis_try(r, ops, n);
	}
	if (r->leave && r->ctx) {
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
