/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connection to a Redis server: made, authenticated, kept, and moved back to an earlier
 * address.
 *
 * hiredis writes commands and parses replies; poll() here decides when. Both directions are served
 * while a batch is on its way, so it cannot deadlock however small the socket buffers are, and one
 * time-out holds for the whole batch, however slowly the bytes drip in.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/check.h"
#include "kvclient/dl.h"
#include "kvclient/files.h"
#include "kvclient/net.h"
#include "kvclient/redis.h"
#include "kvclient/seal.h"
#include "kvclient/redis_tls.h"

/* A reply is a value and its head at most; what a server sends beyond it is not kept. */
#define KV_REDIS_REPLY_MAX (2 * KV_SEALED_MAX)

struct kv_hiredis kv_hiredis;

static const char *const kv_hiredis_names[] = {
	"redisConnectFd",	   "redisAppendCommandArgv",
	"redisBufferWrite",	   "redisBufferRead",
	"redisGetReplyFromReader", "redisFree",
	"freeReplyObject",	   NULL,
};

static_assert(sizeof(kv_hiredis) / sizeof(void *) + 1 == sizeof(kv_hiredis_names) / sizeof(char *),
	      "one name a function");

static pthread_once_t hi_once = PTHREAD_ONCE_INIT;
static int hi_rc;

static void kv_hiredis_load(void)
{
	void *slots[sizeof(kv_hiredis) / sizeof(void *)];

	hi_rc = kv_dl_load(KV_HIREDIS_SONAME, kv_hiredis_names, slots);
	if (!hi_rc)
		memcpy(&kv_hiredis, slots, sizeof(kv_hiredis));
}

void kv_redis_disconnect(struct kv_redis *r)
{
	if (r->ctx)
		kv_hiredis.free(r->ctx);
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

int kv_redis_reply_error(const char *text)
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

int kv_redis_append(struct kv_redis *r, int argc, const char **argv, const size_t *len)
{
	KV_ASSERT(r->ctx);
	r->unsent = true;
	return kv_hiredis.append(r->ctx, argc, argv, len) ? kv_redis_lost(r, -ENOMEM) : 0;
}

/* Writes, or without done reads. Neither waits; with TLS both are libcrypto's. */
static int kv_redis_held(redisContext *ctx, int *done)
{
	int ret;

	kv_fork_hold();
	ret = done ? kv_hiredis.write(ctx, done) : kv_hiredis.read(ctx);
	kv_fork_release();
	return ret;
}

/* Writes and reads as much as is possible now, and waits where it is nothing. */
static int kv_redis_progress(struct kv_redis *r, uint64_t deadline_ms)
{
	int rc, done = 1;

	errno = 0;
	if (r->unsent && kv_redis_held(r->ctx, &done))
		return kv_redis_io_error(r->ctx, errno);
	r->unsent = !done;
	rc = kv_net_wait(r->ctx->fd, r->unsent ? POLLIN | POLLOUT : POLLIN, deadline_ms);
	if (rc < 0)
		return rc;
	errno = 0;
	if ((rc & ~POLLOUT) && kv_redis_held(r->ctx, NULL))
		return kv_redis_io_error(r->ctx, errno);
	return 0;
}

/*
 * True if the next reply begins with anything but the four kinds that our commands get. An array
 * is not begun: hiredis makes room for as many elements as it says to have, and goes on for as
 * long as they come.
 */
static bool kv_redis_reply_odd(const struct kv_redis *r)
{
	const redisReader *reader = r->ctx->reader;

	return reader->pos < reader->len && !memchr("+-:$", reader->buf[reader->pos], 4);
}

int kv_redis_next(struct kv_redis *r, uint64_t deadline_ms, redisReply **out)
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
		if (kv_hiredis.parse(r->ctx, &reply))
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

int kv_redis_any_reply(struct kv_redis *r, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ERROR)
		return 0;
	return kv_fail(&r->kv, kv_redis_reply_error(reply->str), "the server says: %.120s",
		       reply->str);
}

int kv_redis_call(struct kv_redis *r, int argc, const char **argv, const size_t *len,
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
	kv_hiredis.free_reply(reply);
	return rc;
}

/* Said to a new connection, whatever it asks first. */
static bool is_full(const char *text)
{
	static const char said[] = { "ERR max number of clients" };

	return !strncmp(text, said, sizeof(said) - 1);
}

/* A server that knows no AUTH repeats its arguments: only the first word is told. */
static int kv_redis_auth_reply(struct kv_redis *r, const redisReply *reply)
{
	int rc;

	if (reply->type != REDIS_REPLY_ERROR)
		return 0;
	rc = kv_redis_reply_error(reply->str);
	if (is_full(reply->str))
		return kv_fail(&r->kv, -EAGAIN, "the server has as many clients as it takes");
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

void kv_redis_name(struct kv_redis *r)
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

	KV_ASSERT(at < r->n_addresses && !r->ctx);
	r->at = at;
	kv_redis_name(r);
	fd = kv_net_connect(&r->kv, &r->address[at], deadline_ms);
	if (fd < 0)
		return fd;
	if (r->kv.aside)
		r->kv.aside(&fd);
	r->ctx = kv_hiredis.connect_fd(fd);
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

int kv_redis_connect(struct kv_redis *r)
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

void kv_redis_go_home(struct kv_redis *r)
{
	redisContext *here = r->ctx;
	unsigned i, at = r->at;
	bool unsent = r->unsent;

	if (!here || !at || kv_now_ms() < r->home_at_ms)
		return;
	for (i = 0; i < at; i++) {
		r->ctx = NULL;
		if (!kv_redis_connect_to(r, i, r->kv.timeout_ms / r->n_addresses)) {
			kv_hiredis.free(here);
			return;
		}
	}
	r->ctx = here;
	r->at = at;
	r->unsent = unsent;
	kv_redis_name(r);
	r->home_at_ms = kv_now_ms() + r->kv.home_ms;
}

void kv_redis_leave_parents(struct kv_redis *r)
{
	if (r->ctx && r->pid != getpid())
		kv_redis_disconnect(r);
}
