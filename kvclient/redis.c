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
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kvclient/backend.h"

#define KV_REDIS_MAX_ARGS 5

/* A reply is a value and its head at most; what a server sends beyond it is not kept. */
#define KV_REDIS_REPLY_MAX (4 * KV_VALUE_MAX)

struct kv_redis {
	struct kv kv;
	struct kv_url url;
	redisContext *ctx;
	bool unsent; /* hiredis holds commands that are not written yet */
	pid_t pid;
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

static int kv_socket_wait(int fd, short events, uint64_t deadline_ms)
{
	struct pollfd pfd = { .fd = fd, .events = events };
	int n;

	do {
		n = poll(&pfd, 1, (int)kv_left_ms(deadline_ms));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n ? pfd.revents : -ETIMEDOUT;
}

static int kv_socket_connect(int fd, const struct addrinfo *ai, uint64_t deadline_ms)
{
	socklen_t len = sizeof(int);
	int rc, err = 0;

	if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	rc = kv_socket_wait(fd, POLLOUT, deadline_ms);
	if (rc < 0)
		return rc;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? -errno : -err;
}

static int kv_socket_open(const struct addrinfo *ai, uint64_t deadline_ms)
{
	int fd, rc, on = 1;

	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	rc = kv_socket_connect(fd, ai, deadline_ms);
	if (rc) {
		close(fd);
		return rc;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

/* Tries every address of the host; the last one's failure is the answer. */
static int kv_redis_socket(struct kv_redis *r)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	uint64_t deadline_ms = kv_now_ms() + r->kv.timeout_ms;
	struct addrinfo *list, *ai;
	int rc, fd = -EHOSTUNREACH;

	rc = getaddrinfo(r->url.host, r->url.port, &hints, &list);
	if (rc)
		return kv_fail(&r->kv, -EHOSTUNREACH, "%s", gai_strerror(rc));
	for (ai = list; ai; ai = ai->ai_next) {
		fd = kv_socket_open(ai, deadline_ms);
		if (fd >= 0)
			break;
	}
	freeaddrinfo(list);
	if (fd < 0)
		return kv_fail(&r->kv, fd, "cannot connect: %s", strerror(-fd));
	return fd;
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
		{ "NOAUTH", -EACCES },	{ "WRONGPASS", -EACCES },  { "NOPERM", -EACCES },
		{ "DENIED", -EACCES },	{ "READONLY", -EROFS },	   { "OOM", -ENOSPC },
		{ "LOADING", -EAGAIN }, { "MASTERDOWN", -EAGAIN }, { "BUSY", -EAGAIN },
		{ "MISCONF", -EIO },
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
	rc = kv_socket_wait(r->ctx->fd, r->unsent ? POLLIN | POLLOUT : POLLIN, deadline_ms);
	if (rc < 0)
		return rc;
	errno = 0;
	if ((rc & ~POLLOUT) && hi.read(r->ctx))
		return kv_redis_io_error(r->ctx, errno);
	return 0;
}

/* The next reply, error replies included. Any failure closes the connection. */
static int kv_redis_next(struct kv_redis *r, uint64_t deadline_ms, redisReply **out)
{
	void *reply = NULL;
	int rc = 0;

	while (!rc) {
		errno = 0;
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

/* One command on the present connection, for which any reply but an error will do. */
static int kv_redis_call(struct kv_redis *r, int argc, const char **argv, const size_t *len)
{
	uint64_t deadline_ms = kv_now_ms() + r->kv.timeout_ms;
	redisReply *reply;
	int rc;

	rc = kv_redis_append(r, argc, argv, len);
	if (!rc)
		rc = kv_redis_next(r, deadline_ms, &reply);
	if (rc)
		return rc;
	if (reply->type == REDIS_REPLY_ERROR)
		rc = kv_fail(&r->kv, kv_redis_reply_error(reply->str), "the server says: %.120s",
			     reply->str);
	hi.free_reply(reply);
	return rc;
}

static int kv_redis_select(struct kv_redis *r)
{
	const char *argv[] = { "SELECT", NULL };
	size_t len[] = { 6, 0 };
	char db[8];
	int rc;

	if (!r->url.db)
		return 0;
	len[1] = (size_t)snprintf(db, sizeof(db), "%u", r->url.db);
	argv[1] = db;
	rc = kv_redis_call(r, 2, argv, len);
	if (rc)
		kv_redis_disconnect(r);
	return rc;
}

static int kv_redis_connect(struct kv_redis *r)
{
	int fd;

	pthread_once(&hi_once, kv_hiredis_load);
	if (hi_rc)
		return kv_fail(&r->kv, -ELIBACC, "install %s, which redis:// addresses need",
			       KV_HIREDIS_SONAME);
	fd = kv_redis_socket(r);
	if (fd < 0)
		return fd;
	r->ctx = hi.connect_fd(fd);
	if (!r->ctx) {
		close(fd);
		return kv_fail(&r->kv, -ENOMEM, "no memory for a connection");
	}
	r->ctx->flags &= ~REDIS_BLOCK;
	r->unsent = false;
	r->pid = getpid();
	return kv_redis_select(r);
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

/* What the server refuses speaks of this operation; the connection is as good as before. */
static void kv_redis_answer(struct kv_redis *r, struct kv_op *op, const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_ERROR)
		kv_op_fail(&r->kv, op, kv_redis_reply_error(reply->str), "the server says: %.120s",
			   reply->str);
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

static int kv_redis_append_put(struct kv_redis *r, const struct kv_op *op)
{
	const char *argv[KV_REDIS_MAX_ARGS] = { "SET", op->key, op->val, "PX", NULL };
	size_t len[KV_REDIS_MAX_ARGS] = { 3, strlen(op->key), op->len, 2, 0 };
	char lease[16];

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

	len[3] = (size_t)snprintf(last, sizeof(last), "%u", KV_VALUE_MAX);
	argv[3] = last;
	return kv_redis_append(r, 4, argv, len);
}

static int kv_redis_append_op(struct kv_redis *r, const struct kv_op *op)
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

	return ops ? kv_redis_batch(r, ops, n) : kv_redis_call(r, 1, argv, len);
}

static int kv_redis_run(struct kv *kv, struct kv_op *ops, uint32_t n)
{
	struct kv_redis *r = to_redis(kv);
	struct kv_sigpipe sp;
	bool fresh;
	int rc;

	kv_redis_leave_parents(r);
	fresh = !r->ctx;
	kv_sigpipe_hold(&sp);
	rc = fresh ? kv_redis_connect(r) : 0;
	if (!rc)
		rc = kv_redis_try(r, ops, n);
	if (!fresh && kv_redis_worth_retry(rc)) {
		rc = kv_redis_connect(r);
		if (!rc)
			rc = kv_redis_try(r, ops, n);
	}
	kv_sigpipe_release(&sp);
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
	free(r);
}

static const struct kv_ops kv_redis_ops = {
	.ping = kv_redis_ping,
	.run = kv_redis_run,
	.close = kv_redis_close,
};

struct kv *kv_redis_new(const struct kv_url *url)
{
	struct kv_redis *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->kv.ops = &kv_redis_ops;
	r->url = *url;
	snprintf(r->kv.where, sizeof(r->kv.where), "redis at %.100s:%s", url->host, url->port);
	return &r->kv;
}
