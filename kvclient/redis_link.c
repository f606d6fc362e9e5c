/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A connection to one Redis server: made, authenticated, written and read.
 *
 * Both directions are served while a batch is on its way, so it cannot deadlock however small the
 * socket buffers are, and one time-out holds for the whole batch, however slowly the bytes drip in.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/check.h"
#include "kvclient/files.h"
#include "kvclient/net.h"
#include "kvclient/redis_link.h"
#include "kvclient/tls.h"

#define LINK_READ_BYTES 16384u

int kv_redis_reply_error(const char *text)
{
	static const struct {
		const char *word;
		int rc;
	} words[] = {
		{ "NOAUTH", -EACCES },	   { "WRONGPASS", -EACCES },   { "NOPERM", -EACCES },
		{ "DENIED", -EACCES },	   { "READONLY", -EROFS },     { "OOM", -ENOSPC },
		{ "LOADING", -EAGAIN },	   { "MASTERDOWN", -EAGAIN },  { "BUSY", -EAGAIN },
		{ "MISCONF", -EIO },	   { "WRONGTYPE", -EBADMSG },  { "MOVED", -EREMOTE },
		{ "ASK ", -EREMOTE },	   { "CLUSTERDOWN", -EAGAIN }, { "TRYAGAIN", -EAGAIN },
		{ "NOREPLICAS", -EAGAIN },
	};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(text, words[i].word, strlen(words[i].word)))
			return words[i].rc;
	return -EIO;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* TLS 1.3: a server that refuses the client's certificate says so behind the handshake. */
static int link_lost(struct kv *kv, struct kv_link *link, int rc)
{
	link->lost = true;
	if (link->tls && (rc == -ECONNRESET || rc == -EPIPE))
		return kv_fail(kv, rc,
			       "the server ended the TLS connection: it may not accept this "
			       "client's certificate (cert and key of the address)");
	return kv_fail(kv, rc, "no answer: %s", strerror(-rc));
}

static bool link_unsent(const struct kv_link *link)
{
	return link->sent < link->end;
}

static bool link_make_room(struct kv_link *link, size_t n)
{
	size_t room = link->room ? link->room : LINK_READ_BYTES;
	char *out;

	if (!link_unsent(link))
		link->sent = link->end = 0;
	while (room - link->end < n)
		room *= 2;
	if (room == link->room)
		return true;
	out = realloc(link->out, room);
	if (!out)
		return false;
	link->out = out;
	link->room = room;
	return true;
}

int kv_link_append(struct kv *kv, struct kv_link *link, int argc, const char **argv,
		   const size_t *len)
{
	size_t n;
	char *command = link->resp->command(argc, argv, len, &n);
	bool made = command && link_make_room(link, n);

	KV_ASSERT(!link->lost);
	if (made) {
		memcpy(link->out + link->end, command, n);
		link->end += n;
	}
	if (command) {
		explicit_bzero(command, n); /* it may hold a password */
		link->resp->free_command(command);
	}
	return made ? 0 : link_lost(kv, link, -ENOMEM);
}

static ssize_t socket_result(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN : -errno;
}

/* Writes what the socket takes now; a call of TLS takes a record of it. */
static int link_write(struct kv_link *link)
{
	while (link_unsent(link)) {
		char *at = link->out + link->sent;
		size_t n = link->end - link->sent;
		ssize_t rc =
			link->tls
				? kv_tls_write(link->tls, at, n)
				: socket_result(send(link->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT));

		if (rc < 0)
			return rc == -EAGAIN ? 0 : (int)rc;
		explicit_bzero(at, (size_t)rc);
		link->sent += (size_t)rc;
	}
	return 0;
}

/* Reads what is there now, which may be nothing. */
static int link_read(struct kv_link *link)
{
	char bytes[LINK_READ_BYTES];
	ssize_t n;

	n = link->tls ? kv_tls_read(link->tls, bytes, sizeof(bytes))
		      : socket_result(recv(link->fd, bytes, sizeof(bytes), MSG_DONTWAIT));
	if (n == -EAGAIN)
		return 0;
	if (n <= 0)
		return n ? (int)n : -ECONNRESET;
	return link->resp->feed(link->reader, bytes, (size_t)n);
}

static short link_events(const struct kv_link *link)
{
	if (!link_unsent(link))
		return POLLIN;
	return link->tls ? kv_tls_events(link->tls) | POLLIN : POLLIN | POLLOUT;
}

/* Writes and reads as much as is possible now, and waits where it is nothing. */
static int link_progress(struct kv_link *link, uint64_t deadline_ms)
{
	int rc = link_write(link);

	if (rc)
		return rc;
	if (!link->tls || !kv_tls_pending(link->tls)) {
		rc = kv_net_wait(link->fd, link_events(link), deadline_ms);
		if (rc < 0 || !(rc & ~POLLOUT))
			return rc < 0 ? rc : 0;
	}
	return link_read(link);
}

/* ---- commands ------------------------------------------------------------------------------- */

int kv_link_next(struct kv *kv, struct kv_link *link, uint64_t deadline_ms, size_t max_elements,
		 struct kv_reply **out)
{
	int rc;

	KV_ASSERT(!link->lost);
	for (;;) {
		rc = link->resp->next(link->reader, KV_REDIS_REPLY_MAX, max_elements, out);
		if (!rc)
			rc = link_progress(link, deadline_ms);
		if (rc)
			break;
	}
	return rc < 0 ? link_lost(kv, link, rc) : 0;
}

int kv_redis_any_reply(struct kv *kv, const struct kv_reply *reply)
{
	if (reply->type != KV_REPLY_ERROR)
		return 0;
	return kv_fail(kv, kv_redis_reply_error(reply->text), "the server says: %.120s",
		       reply->text);
}

int kv_link_call(struct kv *kv, struct kv_link *link, uint64_t deadline_ms, int argc,
		 const char **argv, const size_t *len,
		 int (*judge)(struct kv *kv, const struct kv_reply *reply))
{
	struct kv_reply *reply;
	int rc;

	rc = kv_link_append(kv, link, argc, argv, len);
	if (!rc)
		rc = kv_link_next(kv, link, deadline_ms, 0, &reply);
	if (rc)
		return rc;
	rc = judge(kv, reply);
	link->resp->free_reply(reply);
	return rc;
}

/* ---- the first commands --------------------------------------------------------------------- */

/* Said to a new connection, whatever it asks first. */
static bool is_full(const char *text)
{
	static const char said[] = { "ERR max number of clients" };

	return !strncmp(text, said, sizeof(said) - 1);
}

/* A server that knows no AUTH repeats its arguments: only the first word is told. */
static int auth_reply(struct kv *kv, const struct kv_reply *reply)
{
	int rc;

	if (reply->type != KV_REPLY_ERROR)
		return 0;
	rc = kv_redis_reply_error(reply->text);
	if (is_full(reply->text))
		return kv_fail(kv, -EAGAIN, "the server has as many clients as it takes");
	return kv_fail(kv, rc == -EIO ? -EACCES : rc, "the server refuses user or password (%.*s)",
		       (int)strcspn(reply->text, " "), reply->text);
}

static int auth_with(struct kv *kv, struct kv_link *link, const char *user, const char *password,
		     size_t n, uint64_t deadline_ms)
{
	const char *argv[] = { "AUTH", user, password };
	size_t len[] = { 4, strlen(user), n };
	int argc = 3;

	if (!*user) {
		argv[1] = password;
		len[1] = n;
		argc = 2;
	}
	return kv_link_call(kv, link, deadline_ms, argc, argv, len, auth_reply);
}

/* The file is read each time: passwords change while jobs run. */
static int link_auth(struct kv *kv, struct kv_link *link, const struct kv_address *address,
		     const char *file, uint64_t deadline_ms)
{
	char password[KV_PASSWORD_MAX];
	ssize_t n;
	int rc;

	if (*address->password)
		return auth_with(kv, link, address->user, address->password,
				 strlen(address->password), deadline_ms);
	if (*address->password_file)
		file = address->password_file;
	if (!file)
		return 0;
	n = kv_files_read_secret(kv, file, password, sizeof(password));
	rc = n < 0 ? (int)n : auth_with(kv, link, address->user, password, (size_t)n, deadline_ms);
	explicit_bzero(password, sizeof(password));
	return rc;
}

static int link_select(struct kv *kv, struct kv_link *link, unsigned number, uint64_t deadline_ms)
{
	const char *argv[] = { "SELECT", NULL };
	size_t len[] = { 6, 0 };
	char db[8];

	if (!number)
		return 0;
	len[1] = (size_t)snprintf(db, sizeof(db), "%u", number);
	argv[1] = db;
	return kv_link_call(kv, link, deadline_ms, 2, argv, len, kv_redis_any_reply);
}

static struct kv_link *link_new(const struct kv_resp *resp)
{
	struct kv_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->resp = resp;
	link->fd = -1;
	link->pid = getpid();
	link->reader = resp->open();
	if (!link->reader) {
		free(link);
		return NULL;
	}
	return link;
}

static int link_connect(struct kv *kv, struct kv_link *link, const struct kv_address *address,
			uint64_t deadline_ms)
{
	link->fd = kv_net_connect(kv, address, deadline_ms);
	if (link->fd < 0)
		return link->fd;
	if (kv->aside)
		kv->aside(&link->fd);
	if (address->transport != KV_TRANSPORT_TLS)
		return 0;
	return kv_tls_new(kv, address, link->fd, deadline_ms, &link->tls);
}

int kv_link_open(struct kv *kv, const struct kv_address *address, const char *password_file,
		 uint64_t deadline_ms, struct kv_link **out)
{
	const struct kv_resp *resp = kv_resp(kv);
	struct kv_link *link = resp ? link_new(resp) : NULL;
	int rc;

	if (!resp)
		return -ELIBACC;
	if (!link)
		return kv_fail(kv, -ENOMEM, "no memory for a connection");
	rc = link_connect(kv, link, address, deadline_ms);
	if (!rc)
		rc = link_auth(kv, link, address, password_file, deadline_ms);
	if (!rc)
		rc = link_select(kv, link, address->db, deadline_ms);
	if (rc)
		kv_link_close(link);
	else
		*out = link;
	return rc;
}

void kv_link_close(struct kv_link *link)
{
	if (!link)
		return;
	kv_tls_free(link->tls);
	if (link->fd >= 0)
		close(link->fd);
	link->resp->close(link->reader);
	if (link->out)
		explicit_bzero(link->out, link->room);
	free(link->out);
	free(link);
}
