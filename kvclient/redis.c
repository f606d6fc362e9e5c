/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Records in Redis: SET with a PX lease, GETRANGE and DEL, many in one round trip, over one
 * connection that is made when it is needed.
 *
 * hiredis writes commands and parses replies; when to do either is decided here, by poll(): both
 * directions are served while a batch is on its way, so it cannot deadlock however small the socket
 * buffers are, and one time-out holds for the whole of it, however slowly the bytes drip in.
 */
#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/redis_tls.h"

#define KV_REDIS_MAX_ARGS 5

/* A reply is a value and its head at most; what a server sends beyond it is not kept. */
#define KV_REDIS_REPLY_MAX (2 * KV_SEALED_MAX)

/* After a failure, calls fail at once for a while: thousands of ranks must not all come back at the
 * same moment, and a thousand operations must not wait for the same dead server one by one. */
#define KV_RETRY_MIN_MS 25u
#define KV_RETRY_MAX_MS 5000u

/* All shall meet at one address again. */
#define KV_HOME_MS 30000u

struct kv_redis {
	struct kv kv;
	char *password_file;
	redisContext *ctx;
	bool unsent; /* hiredis holds commands that are not written yet */
	bool leave;  /* the server cannot serve us: the next connection begins behind it */
	pid_t pid;
	unsigned at; /* the address of ctx */
	unsigned first;
	uint64_t home_at_ms;
	unsigned n_failed; /* calls in a row */
	uint64_t retry_at_ms;
	int failed_rc;
	char failed[KV_ERR_MAX];
	unsigned n_addresses;
	struct kv_address address[];
};

/* The functions of hiredis that are used, in the order of kv_hiredis_names. */
static struct {
	__typeof__(redisConnectFd) *connect_fd;
	__typeof__(redisAppendCommandArgv) *append;
	__typeof__(redisBufferWrite) *write;
	__typeof__(redisBufferRead) *read;
	__typeof__(redisGetReplyFromReader) *parse;
	__typeof__(redisFree) *free;
	__typeof__(freeReplyObject) *free_reply;
} hi;

static const char *const kv_hiredis_names[] = {
	"redisConnectFd",	   "redisAppendCommandArgv",
	"redisBufferWrite",	   "redisBufferRead",
	"redisGetReplyFromReader", "redisFree",
	"freeReplyObject",	   NULL,
};

static_assert(sizeof(hi) / sizeof(void *) + 1 == sizeof(kv_hiredis_names) / sizeof(char *),
	      "one name a function");

static pthread_once_t hi_once = PTHREAD_ONCE_INIT;
static int hi_rc;

static void kv_hiredis_load(void)
{
	void *slots[sizeof(hi) / sizeof(void *)];

	hi_rc = kv_dl_load(KV_HIREDIS_SONAME, kv_hiredis_names, slots);
	if (!hi_rc)
		memcpy(&hi, slots, sizeof(hi));
}

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

static void kv_redis_disconnect(struct kv_redis *r)
{
	if (r->ctx)
		hi.free(r->ctx);
	r->ctx = NULL;
}

static int kv_redis_io_error(const redisContext *ctx, int saved_errno)
{
	switch (ctx->err) {
	case REDIS_ERR_EOF: return -ECONNRESET;
	case REDIS_ERR_PROTOCOL: return -EPROTO;
	case REDIS_ERR_OOM: return -ENOMEM;
	default: break;
	}
	if (saved_errno == EAGAIN || saved_errno == EWOULDBLOCK || saved_errno == ETIMEDOUT)
		return -ETIMEDOUT;
	return saved_errno ? -saved_errno : -EIO;
}

/* Error replies start with a word; where it says nothing to us, the caller gets -EIO. */
static int kv_redis_reply_error(const char *text)
{
	static const struct {
		const char *word;
		int rc;
	} words[] = {
		{ "NOAUTH", -EACCES },	{ "WRONGPASS", -EACCES },    { "NOPERM", -EACCES },
		{ "DENIED", -EACCES },	{ "READONLY", -EROFS },	     { "OOM", -ENOSPC },
		{ "LOADING", -EAGAIN }, { "MASTERDOWN", -EAGAIN },   { "BUSY", -EAGAIN },
		{ "MISCONF", -EIO },	{ "WRONGTYPE", -EBADMSG },   { "MOVED", -EREMOTE },
		{ "ASK ", -EREMOTE },	{ "CLUSTERDOWN", -EREMOTE },
	};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(text, words[i].word, strlen(words[i].word)))
			return words[i].rc;
	return -EIO;
}

/* The connection is closed: what may still arrive on it would answer the wrong command. */
static int kv_redis_lost(struct kv_redis *r, int rc)
{
	kv_redis_disconnect(r);
	return kv_fail(&r->kv, rc, "no answer: %s", strerror(-rc));
}

static int kv_redis_append(struct kv_redis *r, int argc, const char **argv, const size_t *len)
{
	r->unsent = true;
	return hi.append(r->ctx, argc, argv, len) ? kv_redis_lost(r, -ENOMEM) : 0;
}

/* Writes and reads as much as is possible now, and waits where it is nothing. */
static int kv_redis_progress(struct kv_redis *r, uint64_t deadline_ms)
{
	int rc, done = 1;

	errno = 0;
	if (r->unsent && hi.write(r->ctx, &done))
		return kv_redis_io_error(r->ctx, errno);
	r->unsent = !done;
	rc = kv_net_wait(r->ctx->fd, r->unsent ? POLLIN | POLLOUT : POLLIN, deadline_ms);
	if (rc < 0)
		return rc;
	errno = 0;
	if ((rc & ~POLLOUT) && hi.read(r->ctx))
		return kv_redis_io_error(r->ctx, errno);
	return 0;
}

/*
 * Commands of ours are answered by nothing but these. An array is not begun with: hiredis makes room for
 * as many elements as it says to have, and goes on for as long as they come.
 */
static bool kv_redis_reply_odd(const struct kv_redis *r)
{
	const redisReader *reader = r->ctx->reader;

	return reader->pos < reader->len && !memchr("+-:$", reader->buf[reader->pos], 4);
}

/* The next reply, error replies included. Any failure closes the connection. */
static int kv_redis_next(struct kv_redis *r, uint64_t deadline_ms, redisReply **out)
{
	bool begun = false;
	void *reply = NULL;
	int rc = 0;

	while (!rc) {
		errno = 0;
		if (!begun && kv_redis_reply_odd(r)) {
			rc = -EPROTO;
			break;
		}
		begun = begun || r->ctx->reader->pos < r->ctx->reader->len;
		if (hi.parse(r->ctx, &reply))
			rc = kv_redis_io_error(r->ctx, errno);
		else if (reply)
			break;
		else if (r->ctx->reader->len - r->ctx->reader->pos > KV_REDIS_REPLY_MAX)
			rc = -EPROTO;
		else
			rc = kv_redis_progress(r, deadline_ms);
	}
	*out = reply;
	return rc ? kv_redis_lost(r, rc) : 0;
}

static int kv_redis_any_reply(struct kv_redis *r, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ERROR)
		return 0;
	return kv_fail(&r->kv, kv_redis_reply_error(reply->str), "the server says: %.120s",
		       reply->str);
}

/* One command on the present connection; @judge says what its reply means. */
static int kv_redis_call(struct kv_redis *r, int argc, const char **argv, const size_t *len,
			 int (*judge)(struct kv_redis *r, const redisReply *reply))
{
	uint64_t deadline_ms = kv_now_ms() + r->kv.timeout_ms;
	redisReply *reply;
	int rc;

	rc = kv_redis_append(r, argc, argv, len);
	if (!rc)
		rc = kv_redis_next(r, deadline_ms, &reply);
	if (rc)
		return rc;
	rc = judge(r, reply);
	hi.free_reply(reply);
	return rc;
}

/* A server that knows no AUTH repeats its arguments: only the first word is told. */
static int kv_redis_auth_reply(struct kv_redis *r, const redisReply *reply)
{
	int rc;

	if (reply->type != REDIS_REPLY_ERROR)
		return 0;
	rc = kv_redis_reply_error(reply->str);
	return kv_fail(&r->kv, rc == -EIO ? -EACCES : rc,
		       "the server refuses user or password (%.*s)", (int)strcspn(reply->str, " "),
		       reply->str);
}

static int kv_redis_auth_with(struct kv_redis *r, const char *password, size_t n)
{
	const char *user = r->address[r->at].user;
	const char *argv[] = { "AUTH", user, password };
	size_t len[] = { 4, strlen(user), n };
	int argc = 3;

	if (!*user) {
		argv[1] = password;
		len[1] = n;
		argc = 2;
	}
	return kv_redis_call(r, argc, argv, len, kv_redis_auth_reply);
}

/* The file is read each time: passwords change while jobs run. */
static int kv_redis_auth(struct kv_redis *r)
{
	const struct kv_address *address = &r->address[r->at];
	const char *file = *address->password_file ? address->password_file : r->password_file;
	char password[KV_PASSWORD_MAX];
	ssize_t n;
	int rc;

	if (*address->password)
		return kv_redis_auth_with(r, address->password, strlen(address->password));
	if (!file)
		return 0;
	n = kv_files_read_secret(&r->kv, file, password, sizeof(password));
	rc = n < 0 ? (int)n : kv_redis_auth_with(r, password, (size_t)n);
	explicit_bzero(password, sizeof(password));
	return rc;
}

static int kv_redis_select(struct kv_redis *r)
{
	const char *argv[] = { "SELECT", NULL };
	size_t len[] = { 6, 0 };
	char db[8];

	if (!r->address[r->at].db)
		return 0;
	len[1] = (size_t)snprintf(db, sizeof(db), "%u", r->address[r->at].db);
	argv[1] = db;
	return kv_redis_call(r, 2, argv, len, kv_redis_any_reply);
}

static void kv_redis_name(struct kv_redis *r)
{
	const struct kv_address *a = &r->address[r->at];

	if (a->transport == KV_TRANSPORT_UNIX)
		snprintf(r->kv.where, sizeof(r->kv.where), "redis at %.108s", a->path);
	else
		snprintf(r->kv.where, sizeof(r->kv.where), "redis at %.100s:%s", a->host, a->port);
}

static int kv_redis_connect_to(struct kv_redis *r, unsigned at, unsigned timeout_ms)
{
	uint64_t deadline_ms = kv_now_ms() + timeout_ms;
	int fd, rc;

	r->at = at;
	kv_redis_name(r);
	fd = kv_net_connect(&r->kv, &r->address[at], deadline_ms);
	if (fd < 0)
		return fd;
	r->ctx = hi.connect_fd(fd);
	if (!r->ctx) {
		close(fd);
		return kv_fail(&r->kv, -ENOMEM, "no memory for a connection");
	}
	r->unsent = r->leave = false;
	r->pid = getpid();
	rc = r->address[at].transport == KV_TRANSPORT_TLS
		     ? kv_tls_start(&r->kv, r->ctx, &r->address[at], kv_left_ms(deadline_ms))
		     : 0;
	r->ctx->flags &= ~REDIS_BLOCK;
	if (!rc)
		rc = kv_redis_auth(r);
	if (!rc)
		rc = kv_redis_select(r);
	if (rc)
		kv_redis_disconnect(r);
	else
		r->kv.contacts++;
	return rc;
}

/* Any of the addresses, each with its share of the time. */
static int kv_redis_connect(struct kv_redis *r)
{
	uint64_t deadline_ms = kv_now_ms() + r->kv.timeout_ms;
	unsigned i, first = r->first;
	int rc = -EINVAL;

	pthread_once(&hi_once, kv_hiredis_load);
	if (hi_rc)
		return kv_fail(&r->kv, -ELIBACC, "install %s, which redis:// addresses need",
			       KV_HIREDIS_SONAME);
	r->first = 0;
	for (i = 0; i < r->n_addresses; i++) {
		rc = kv_redis_connect_to(r, (first + i) % r->n_addresses,
					 kv_left_ms(deadline_ms) / (r->n_addresses - i));
		if (!rc)
			break;
	}
	r->home_at_ms = kv_now_ms() + r->kv.home_ms;
	return rc;
}

/* The present connection is kept unless an earlier address is there. */
static void kv_redis_go_home(struct kv_redis *r)
{
	redisContext *here = r->ctx;
	unsigned i, at = r->at;
	bool unsent = r->unsent;

	if (!here || !at || kv_now_ms() < r->home_at_ms)
		return;
	for (i = 0; i < at; i++) {
		r->ctx = NULL;
		if (!kv_redis_connect_to(r, i, r->kv.timeout_ms / r->n_addresses)) {
			hi.free(here);
			return;
		}
	}
	r->ctx = here;
	r->at = at;
	r->unsent = unsent;
	kv_redis_name(r);
	r->home_at_ms = kv_now_ms() + r->kv.home_ms;
}

/* The parent's connection would mix both processes' replies; this side only closes its copy. */
static void kv_redis_leave_parents(struct kv_redis *r)
{
	if (r->ctx && r->pid != getpid())
		kv_redis_disconnect(r);
}

/* All commands here may be executed twice, so a connection that broke is tried once more. */
static bool kv_redis_worth_retry(int rc)
{
	return rc == -ECONNRESET || rc == -EPIPE || rc == -ENOTCONN;
}

/* It speaks of this operation, unless the server is no master or not ready: there may be others. */
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
		kv_redis_disconnect(r); /* with what was appended and never written */
	for (i = 0; i < n && !rc; i++) {
		if (ops[i].ret != KV_OP_OPEN)
			continue;
		rc = kv_redis_next(r, deadline_ms, &reply);
		if (rc)
			break;
		kv_redis_answer(r, &ops[i], reply);
		hi.free_reply(reply);
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
