/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A TCP connection beside the messages, where no key-value store is told (meet.c): frames of a
 * length in four bytes and that many bytes. Each wait has an end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sdr/tools/perf.h"

enum { FRAME_MAX = 1 << 16 };

static int sock = -1;
static bool by_kv;

static volatile sig_atomic_t was_interrupted;

static void on_signal(int number)
{
	(void)number;
	was_interrupted = 1;
}

/* The first one is taken; another one ends the program as ever. */
static void take_signals(void)
{
	struct sigaction once = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGINT, &once, NULL);
	sigaction(SIGTERM, &once, NULL);
}

bool oob_interrupted(void)
{
	return was_interrupted;
}

static int left_ms(uint64_t until)
{
	uint64_t now = now_ns();

	return now >= until ? 0 : (int)((until - now) / 1000000) + 1;
}

static bool await(int fd, short events, uint64_t until)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, left_ms(until)) > 0 && !was_interrupted;
}

/* Why a wait came to nothing. */
static void nothing_came(const char *else_what)
{
	complain("%s", was_interrupted ? "interrupted" : else_what);
}

/* -1, and errno. */
static int listen_on(const void *any, socklen_t size)
{
	int fd = socket(((const struct sockaddr *)any)->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1, zero = 0, err;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (((const struct sockaddr *)any)->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (!bind(fd, any, size) && !listen(fd, 1))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* Listens by both versions of IP; on a host without IPv6 by the other alone. */
static int listen_by_any(int port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = listen_on(&six, sizeof(six));

	if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
		fd = listen_on(&four, sizeof(four));
	return fd;
}

static int listen_once(int port, int wait_s)
{
	int fd = listen_by_any(port), accepted = -1;

	if (fd < 0) {
		complain("TCP port %d: %s", port, strerror(errno));
	} else if (!await(fd, POLLIN, now_ns() + (uint64_t)wait_s * 1000000000ull)) {
		if (was_interrupted)
			nothing_came("");
		else
			complain("no client came to TCP port %d within %d s: start it, or give "
				 "--wait",
				 port, wait_s);
	} else {
		accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	}
	if (fd >= 0)
		close(fd);
	return accepted;
}

/* A host that does not answer at all must not take longer than there is. 0, or errno. */
static int connect_by(int fd, const struct addrinfo *a, uint64_t until)
{
	socklen_t size = sizeof(int);
	int err = 0;

	if (!connect(fd, a->ai_addr, a->ai_addrlen))
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	if (!await(fd, POLLOUT, until))
		return ETIMEDOUT;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) ? errno : err;
}

/*
 * Returns -1, and errno, if none answers. Each address has a share of the time, so that a silent
 * one does not keep the others from their turn.
 */
static int connect_once(const struct addrinfo *list, uint64_t until)
{
	uint64_t now, left = 0;
	int err = EADDRNOTAVAIL, fd;

	for (const struct addrinfo *a = list; a; a = a->ai_next)
		left++;
	for (const struct addrinfo *a = list; a; a = a->ai_next, left--) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0) {
			err = errno;
			continue;
		}
		now = now_ns();
		err = connect_by(fd, a, now < until ? now + (until - now) / left : now);
		if (!err && !fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK))
			return fd;
		close(fd);
	}
	errno = err;
	return -1;
}

/* The server may not be there yet. */
static int connect_until(const struct options *o)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	uint64_t until = now_ns() + o->wait_s * 1000000000ull;
	struct timespec nap = { .tv_nsec = 20000000 };
	char port[8];
	int err, fd;

	snprintf(port, sizeof(port), "%d", o->port);
	err = getaddrinfo(o->host, port, &hints, &list);
	if (err) {
		complain("%s: %s", o->host, gai_strerror(err));
		return -1;
	}
	while ((fd = connect_once(list, until)) < 0 && now_ns() < until && !was_interrupted)
		nanosleep(&nap, NULL);
	if (fd < 0 && was_interrupted)
		nothing_came("");
	else if (fd < 0)
		complain("no server at %s, TCP port %d, within %d s: %s", o->host, o->port,
			 o->wait_s, strerror(errno));
	freeaddrinfo(list);
	return fd;
}

bool oob_open(const struct options *o)
{
	take_signals();
	by_kv = o->kv != NULL;
	if (by_kv)
		return meet_open(o);
	sock = o->client ? connect_until(o) : listen_once(o->port, o->wait_s);
	return sock >= 0;
}

void oob_close(void)
{
	if (by_kv)
		meet_close();
	by_kv = false;
	if (sock >= 0)
		close(sock);
	sock = -1;
}

static bool send_all(const void *data, size_t size)
{
	const uint8_t *at = data;

	for (ssize_t n; size; at += n, size -= (size_t)n) {
		n = send(sock, at, size, 0);
		if (n <= 0) {
			complain("the other end is gone: %s", strerror(errno));
			return false;
		}
	}
	return true;
}

bool oob_send(const void *data, uint32_t size)
{
	uint32_t be = htonl(size);

	if (by_kv)
		return meet_send(data, size);
	return send_all(&be, sizeof(be)) && send_all(data, size);
}

static bool receive_all(void *data, size_t size, uint64_t until)
{
	uint8_t *at = data;
	ssize_t n;

	for (; size; at += n, size -= (size_t)n) {
		if (!await(sock, POLLIN, until)) {
			nothing_came("the other end says nothing");
			return false;
		}
		n = recv(sock, at, size, 0);
		if (n <= 0) {
			complain("the other end has ended");
			return false;
		}
	}
	return true;
}

bool oob_receive(void *data, uint32_t *size, int wait_s)
{
	uint64_t until = now_ns() + wait_s * 1000000000ull;
	uint32_t be, n;

	if (by_kv)
		return meet_receive(data, size, wait_s);
	if (!receive_all(&be, sizeof(be), until))
		return false;
	n = ntohl(be);
	if (n > *size || n > FRAME_MAX) {
		complain("the other end is no sdr_perf");
		return false;
	}
	*size = n;
	return receive_all(data, n, until);
}

bool oob_hear(void)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };

	if (by_kv)
		return meet_hear();
	return poll(&p, 1, 0) > 0;
}

bool oob_gone(void)
{
	uint8_t byte;

	if (was_interrupted) {
		complain("interrupted");
		return true;
	}
	if (by_kv)
		return meet_gone();
	if (!oob_hear() || recv(sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		return false;
	complain("the other end has ended");
	return true;
}
