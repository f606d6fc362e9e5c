/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Records in Redis: SET with a PX lease, GET, DEL over one connection, made when it is needed. */
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
#include <sys/time.h>
#include <unistd.h>

#include "kvclient/backend.h"

#define KV_REDIS_MAX_ARGS 5

struct kv_redis {
	struct kv kv;
	struct kv_url url;
	redisContext *ctx;
	pid_t pid;
};

/* The functions of hiredis that are used, in the order of kv_hiredis_names. */
static struct {
	__typeof__(redisConnectFd) *connect_fd;
	__typeof__(redisCommandArgv) *command_argv;
	__typeof__(redisFree) *free;
	__typeof__(freeReplyObject) *free_reply;
} hi;

static const char *const kv_hiredis_names[] = {
	"redisConnectFd", "redisCommandArgv", "redisFree", "freeReplyObject", NULL,
};

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
 * The signal is blocked around a command, and one that the command raised is taken back.
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

static int kv_socket_wait_connected(int fd, uint64_t deadline_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int n, err = 0;

	do {
		n = poll(&pfd, 1, (int)kv_left_ms(deadline_ms));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	return -err;
}

/* Commands block in hiredis, so from here on the socket itself keeps the time. */
static int kv_socket_set_blocking(int fd, int flags, unsigned timeout_ms)
{
	struct timeval tv = {
		.tv_sec = timeout_ms / 1000,
		.tv_usec = (timeout_ms % 1000) * 1000,
	};
	int on = 1;

	if (fcntl(fd, F_SETFL, flags) || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)))
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return 0;
}

static int kv_socket_open(const struct addrinfo *ai, unsigned timeout_ms, uint64_t deadline_ms)
{
	int fd, flags, rc = 0;

	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, ai->ai_addr, ai->ai_addrlen))
		rc = errno == EINPROGRESS ? kv_socket_wait_connected(fd, deadline_ms) : -errno;
	if (!rc) {
		flags = fcntl(fd, F_GETFL);
		rc = kv_socket_set_blocking(fd, flags & ~O_NONBLOCK, timeout_ms);
	}
	if (rc) {
		close(fd);
		return rc;
	}
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
		fd = kv_socket_open(ai, r->kv.timeout_ms, deadline_ms);
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

/* One command on the present connection. Any failure but an error reply closes it. */
static int kv_redis_send(struct kv_redis *r, int argc, const char **argv, const size_t *len,
			 redisReply **out)
{
	struct kv_sigpipe sp;
	redisReply *reply;
	int rc;

	kv_sigpipe_hold(&sp);
	errno = 0;
	reply = hi.command_argv(r->ctx, argc, argv, len);
	kv_sigpipe_release(&sp);
	if (!reply) {
		rc = kv_redis_io_error(r->ctx, errno);
		kv_redis_disconnect(r);
		return kv_fail(&r->kv, rc, "no answer: %s", strerror(-rc));
	}
	if (reply->type == REDIS_REPLY_ERROR) {
		rc = kv_redis_reply_error(reply->str);
		kv_fail(&r->kv, rc, "the server says: %.120s", reply->str);
		hi.free_reply(reply);
		return rc;
	}
	*out = reply;
	return 0;
}

static int kv_redis_select(struct kv_redis *r)
{
	const char *argv[] = { "SELECT", NULL };
	size_t len[] = { 6, 0 };
	redisReply *reply;
	char db[8];
	int rc;

	if (!r->url.db)
		return 0;
	len[1] = (size_t)snprintf(db, sizeof(db), "%u", r->url.db);
	argv[1] = db;
	rc = kv_redis_send(r, 2, argv, len, &reply);
	if (rc) {
		kv_redis_disconnect(r);
		return rc;
	}
	hi.free_reply(reply);
	return 0;
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
	r->pid = getpid();
	return kv_redis_select(r);
}

/* The parent's connection would mix both processes' replies; this side only closes its copy. */
static void kv_redis_leave_parents(struct kv_redis *r)
{
	if (r->ctx && r->pid != getpid())
		kv_redis_disconnect(r);
}

/* All commands here may be executed twice, so an idle connection that broke is tried once more. */
static bool kv_redis_worth_retry(int rc)
{
	return rc == -ECONNRESET || rc == -EPIPE || rc == -ENOTCONN;
}

static int kv_redis_command(struct kv_redis *r, int argc, const char **argv, const size_t *len,
			    redisReply **out)
{
	bool fresh;
	int rc;

	kv_redis_leave_parents(r);
	fresh = !r->ctx;
	rc = fresh ? kv_redis_connect(r) : 0;
	if (rc)
		return rc;
	rc = kv_redis_send(r, argc, argv, len, out);
	if (fresh || !kv_redis_worth_retry(rc))
		return rc;
	rc = kv_redis_connect(r);
	return rc ? rc : kv_redis_send(r, argc, argv, len, out);
}

static int kv_redis_ping(struct kv *kv)
{
	const char *argv[] = { "PING" };
	const size_t len[] = { 4 };
	redisReply *reply;
	int rc;

	rc = kv_redis_command(to_redis(kv), 1, argv, len, &reply);
	if (!rc)
		hi.free_reply(reply);
	return rc;
}

static int kv_redis_put(struct kv *kv, const char *key, const void *val, size_t vlen,
			unsigned lease_ms)
{
	const char *argv[KV_REDIS_MAX_ARGS] = { "SET", key, val, "PX", NULL };
	size_t len[KV_REDIS_MAX_ARGS] = { 3, strlen(key), vlen, 2, 0 };
	redisReply *reply;
	char lease[16];
	int rc;

	len[4] = (size_t)snprintf(lease, sizeof(lease), "%u", lease_ms);
	argv[4] = lease;
	rc = kv_redis_command(to_redis(kv), 5, argv, len, &reply);
	if (!rc)
		hi.free_reply(reply);
	return rc;
}

static int kv_redis_take(struct kv *kv, const redisReply *reply, void *buf, size_t cap, size_t *len)
{
	if (reply->type == REDIS_REPLY_NIL)
		return kv_fail(kv, -ENOENT, "no such record");
	if (reply->type != REDIS_REPLY_STRING)
		return kv_fail(kv, -EPROTO, "the reply is not a string");
	*len = reply->len;
	if (reply->len > cap)
		return kv_fail(kv, -EMSGSIZE, "the record has %zu bytes", reply->len);
	memcpy(buf, reply->str, reply->len);
	return 0;
}

static int kv_redis_get(struct kv *kv, const char *key, void *buf, size_t cap, size_t *len)
{
	const char *argv[] = { "GET", key };
	const size_t arglen[] = { 3, strlen(key) };
	redisReply *reply;
	int rc;

	rc = kv_redis_command(to_redis(kv), 2, argv, arglen, &reply);
	if (rc)
		return rc;
	rc = kv_redis_take(kv, reply, buf, cap, len);
	hi.free_reply(reply);
	return rc;
}

static int kv_redis_del(struct kv *kv, const char *key)
{
	const char *argv[] = { "DEL", key };
	const size_t len[] = { 3, strlen(key) };
	redisReply *reply;
	int rc;

	rc = kv_redis_command(to_redis(kv), 2, argv, len, &reply);
	if (!rc)
		hi.free_reply(reply);
	return rc;
}

static void kv_redis_close(struct kv *kv)
{
	struct kv_redis *r = to_redis(kv);

	kv_redis_disconnect(r);
	free(r);
}

static const struct kv_ops kv_redis_ops = {
	.ping = kv_redis_ping,
	.put = kv_redis_put,
	.get = kv_redis_get,
	.del = kv_redis_del,
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
