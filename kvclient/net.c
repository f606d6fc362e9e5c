/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sockets to Redis servers: never blocking, never inherited by programs, never late. */
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/dl.h"
#include "kvclient/net.h"
#include "kvclient/url.h"

int kv_net_wait(int fd, short events, uint64_t deadline_ms)
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

static int kv_net_finish(int fd, uint64_t deadline_ms)
{
	socklen_t len = sizeof(int);
	int rc, err = 0;

	rc = kv_net_wait(fd, POLLOUT, deadline_ms);
	if (rc < 0)
		return rc;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? -errno : -err;
}

/*
 * True if the socket is connected to itself: it connected to a port of this host at which nobody
 * listens, and was given that very port for its own end. Such a socket would keep the server from
 * coming back.
 */
static bool kv_net_to_itself(int fd)
{
	struct sockaddr_storage own = { 0 }, peer = { 0 };
	socklen_t n_own = sizeof(own), n_peer = sizeof(peer);

	return !getsockname(fd, (struct sockaddr *)&own, &n_own) &&
	       !getpeername(fd, (struct sockaddr *)&peer, &n_peer) && own.ss_family != AF_UNIX &&
	       n_own == n_peer && !memcmp(&own, &peer, n_own);
}

static int kv_net_open(const struct sockaddr *to, socklen_t len, uint64_t deadline_ms)
{
	int fd, rc = 0;

	fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, to, len))
		rc = errno == EINPROGRESS ? kv_net_finish(fd, deadline_ms) : -errno;
	if (!rc && kv_net_to_itself(fd))
		rc = -ECONNREFUSED;
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

static uint64_t kv_net_share(const struct addrinfo *ai, uint64_t deadline_ms)
{
	unsigned n = 0;

	for (; ai; ai = ai->ai_next)
		n++;
	return kv_now_ms() + kv_left_ms(deadline_ms) / n;
}

/*
 * Tries every address of the host, each with its share of the time; the last failure is the
 * answer.
 */
static int kv_net_tcp(struct kv *kv, const struct kv_address *address, uint64_t deadline_ms)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list, *ai;
	int rc, on = 1, fd = -EHOSTUNREACH;

	kv_fork_hold();
	rc = getaddrinfo(address->place.host, address->place.port, &hints, &list);
	kv_fork_release();
	if (rc)
		return kv_fail(kv, -EHOSTUNREACH, "%s", gai_strerror(rc));
	for (ai = list; ai && fd < 0; ai = ai->ai_next)
		fd = kv_net_open(ai->ai_addr, ai->ai_addrlen, kv_net_share(ai, deadline_ms));
	freeaddrinfo(list);
	if (fd < 0)
		return kv_fail(kv, fd, "cannot connect: %s", strerror(-fd));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

/* The backlog of a Unix socket answers -EAGAIN when it is full: as busy as a refusal. */
static int kv_net_unix(struct kv *kv, const struct kv_address *address, uint64_t deadline_ms)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd;

	static_assert(sizeof(address->path) <= sizeof(to.sun_path), "a path that fits");
	strcpy(to.sun_path, address->path);
	fd = kv_net_open((const struct sockaddr *)&to, sizeof(to), deadline_ms);
	return fd < 0 ? kv_fail(kv, fd, "cannot connect: %s", strerror(-fd)) : fd;
}

int kv_net_connect(struct kv *kv, const struct kv_address *address, uint64_t deadline_ms)
{
	switch (address->transport) {
	case KV_TRANSPORT_TCP:
	case KV_TRANSPORT_TLS: return kv_net_tcp(kv, address, deadline_ms);
	case KV_TRANSPORT_UNIX: return kv_net_unix(kv, address, deadline_ms);
	}
	return -EINVAL;
}
