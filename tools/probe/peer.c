/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The way between client and agent: JSON, one object a line, over TCP or to a child process. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/probe/dev.h"
#include "tools/probe/end.h"
#include "tools/probe/peer.h"
#include "tools/probe/probe.h"

static int peer_init(struct pr_peer *peer, int fd)
{
	struct timeval limit = { .tv_sec = PR_ANSWER_S };
	int one = 1;

	memset(peer, 0, sizeof(*peer));
	peer->fd = fd;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return 0;
}

/* ---- how it begins --------------------------------------------------------------------------- */

static int resolve(const char *host, const char *port, struct addrinfo **out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE };
	int rc = getaddrinfo(host, port, &hints, out);

	return rc ? pr_fail("%.100s, port %.20s: %s", host ? host : "this host", port,
			    gai_strerror(rc))
		  : 0;
}

static int no_server(const char *host, const char *port, int err)
{
	if (err == ECONNREFUSED)
		return pr_fail("nobody listens on %.100s, port %.20s; start shiftctl probe-hw "
			       "--listen there "
			       "first",
			       host, port);
	return pr_fail("cannot reach %.100s, port %.20s: %s", host, port, strerror(err));
}

int pr_peer_connect(struct pr_peer *peer, const char *host, const char *port)
{
	struct addrinfo *list, *at;
	int fd = -1, err = 0;

	if (resolve(host, port, &list))
		return -1;
	for (at = list; at && fd < 0; at = at->ai_next) {
		fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
		if (fd < 0 || !connect(fd, at->ai_addr, at->ai_addrlen))
			continue;
		err = errno;
		close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	return fd < 0 ? no_server(host, port, err) : peer_init(peer, fd);
}

static int bind_one(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol), one = 1,
	    err;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, 1))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* An IPv6 socket takes IPv4 as well, so it comes first. */
static int bind_any(const struct addrinfo *list)
{
	int fd = -1;

	for (int family = AF_INET6; fd < 0; family = AF_INET) {
		for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
			if (at->ai_family == family)
				fd = bind_one(at);
		if (family == AF_INET || (fd < 0 && errno == EADDRINUSE))
			break;
	}
	return fd;
}

int pr_peer_listen(struct pr_peer *peer, const char *port)
{
	struct addrinfo *list;
	int server, fd, err;

	if (resolve(NULL, port, &list))
		return -1;
	server = bind_any(list);
	err = errno;
	freeaddrinfo(list);
	if (server < 0 && err == EADDRINUSE)
		return pr_fail(
			"port %.20s is in use by another program; choose one with -p, at both ends",
			port);
	if (server < 0)
		return pr_fail("cannot listen on port %.20s: %s", port, strerror(err));
	fprintf(stderr, "shift-probe: waiting for one client, on port %s\n", port);
	fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	err = errno;
	close(server);
	return fd < 0 ? pr_fail("accept: %s", strerror(err)) : peer_init(peer, fd);
}

/*
 * Spawned, not forked: before Linux 5.12 the first write behind a fork parts registered memory from
 * what the NIC sees.
 */
static int child_run(struct pr_peer *peer, int fd, const struct pr_dev *dev)
{
	char number[16], gid[16];
	char *argv[] = { "shift-probe",	    "--agent-fd", number, "-d",
			 (char *)dev->name, "-x",	  gid,	  NULL };

	snprintf(number, sizeof(number), "%d", fd);
	snprintf(gid, sizeof(gid), "%d", dev->gid_index);
	if (dev->gid_index < 0)
		argv[5] = NULL;
	return posix_spawn(&peer->child, "/proc/self/exe", NULL, NULL, argv, environ);
}

int pr_peer_spawn(struct pr_peer *peer, const struct pr_dev *dev)
{
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return pr_fail("socketpair: %s", strerror(errno));
	fcntl(pair[0], F_SETFD, FD_CLOEXEC);
	peer_init(peer, pair[0]);
	err = child_run(peer, pair[1], dev);
	close(pair[1]);
	return err ? pr_fail("cannot start a second process: %s", strerror(err)) : 0;
}

void pr_peer_end(struct pr_peer *peer)
{
	if (peer->fd > 0)
		close(peer->fd);
	if (peer->child > 0)
		waitpid(peer->child, NULL, 0);
	peer->fd = peer->child = 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

static int peer_gone(struct pr_peer *peer, const char *how)
{
	peer->gone = true;
	return pr_fail("the peer is gone: %s", how);
}

static int write_all(struct pr_peer *peer, const char *text, size_t len)
{
	while (len) {
		ssize_t n = send(peer->fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return peer_gone(peer, strerror(errno));
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

int pr_send(struct pr_peer *peer, json_t *message)
{
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	int rc;

	json_decref(message);
	if (!text)
		return pr_fail("a message cannot be packed");
	rc = peer->gone ? pr_fail("the peer is gone") : write_all(peer, text, strlen(text));
	free(text);
	return rc ? rc : write_all(peer, "\n", 1);
}

bool pr_answer_waits(const struct pr_peer *peer)
{
	struct pollfd fd = { peer->fd, POLLIN, 0 };

	return memchr(peer->buf, '\n', peer->used) || poll(&fd, 1, 0) > 0;
}

static int read_more(struct pr_peer *peer)
{
	struct pollfd fd = { peer->fd, POLLIN, 0 };
	ssize_t n;

	if (peer->used == sizeof(peer->buf))
		return peer_gone(peer, "what it says is too long");
	if (poll(&fd, 1, PR_ANSWER_S * 1000) <= 0)
		return peer_gone(peer, "no answer for a minute");
	n = read(peer->fd, peer->buf + peer->used, sizeof(peer->buf) - peer->used);
	if (n <= 0)
		return peer_gone(peer, n ? strerror(errno) : "it closed the connection");
	peer->used += (size_t)n;
	return 0;
}

json_t *pr_receive(struct pr_peer *peer)
{
	char *newline;
	json_t *message;
	size_t len;

	if (peer->gone && pr_fail("the peer is gone"))
		return NULL;
	while (!(newline = memchr(peer->buf, '\n', peer->used)))
		if (read_more(peer))
			return NULL;
	len = (size_t)(newline - peer->buf);
	message = json_loadb(peer->buf, len, 0, NULL);
	peer->used -= len + 1;
	memmove(peer->buf, newline + 1, peer->used);
	if (!json_is_object(message)) {
		json_decref(message);
		peer_gone(peer, "what it says is no shift-probe's");
		return NULL;
	}
	return message;
}

/* ---- questions ------------------------------------------------------------------------------- */

static json_t *answer_check(json_t *answer)
{
	const char *error = json_string_value(json_object_get(answer, "error"));

	if (!error)
		return answer;
	pr_fail("at the peer: %.200s", error);
	json_decref(answer);
	return NULL;
}

static json_t *ask_packed(struct pr_peer *peer, json_t *question)
{
	if (pr_send(peer, question))
		return NULL;
	return answer_check(pr_receive(peer));
}

json_t *pr_ask(struct pr_peer *peer, const char *fmt, ...)
{
	json_t *question;
	va_list ap;

	va_start(ap, fmt);
	question = json_vpack_ex(NULL, 0, fmt, ap);
	va_end(ap);
	return ask_packed(peer, question);
}

int pr_tell(struct pr_peer *peer, const char *fmt, ...)
{
	json_t *message, *answer;
	va_list ap;

	va_start(ap, fmt);
	message = json_vpack_ex(NULL, 0, fmt, ap);
	va_end(ap);
	answer = ask_packed(peer, message);
	json_decref(answer);
	return answer ? 0 : -1;
}

long long pr_int(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

json_t *pr_addr_pack(const struct pr_addr *addr)
{
	char gid[33];

	for (int i = 0; i < 16; i++)
		snprintf(gid + 2 * i, 3, "%02x", addr->gid.raw[i]);
	return json_pack("{s:i, s:i, s:i, s:I, s:i, s:I, s:s}", "qpn", (int)addr->qpn, "psn",
			 (int)addr->psn, "lid", (int)addr->lid, "rkey", (json_int_t)addr->rkey,
			 "mtu", (int)addr->mtu, "raddr", (json_int_t)addr->raddr, "gid", gid);
}

int pr_addr_unpack(const json_t *json, struct pr_addr *addr)
{
	const char *gid = json_string_value(json_object_get(json, "gid"));
	unsigned byte;

	*addr = (struct pr_addr){
		.qpn = (uint32_t)pr_int(json, "qpn"),
		.psn = (uint32_t)pr_int(json, "psn"),
		.lid = (uint32_t)pr_int(json, "lid"),
		.rkey = (uint32_t)pr_int(json, "rkey"),
		.mtu = (uint32_t)pr_int(json, "mtu"),
		.raddr = (uint64_t)pr_int(json, "raddr"),
	};
	for (int i = 0; i < 16; i++) {
		if (!gid || sscanf(gid + 2 * i, "%2x", &byte) != 1)
			return pr_fail("an address that makes no sense");
		addr->gid.raw[i] = (uint8_t)byte;
	}
	return 0;
}
