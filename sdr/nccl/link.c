/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "link.h"
#include "address.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

enum { IDLE_S = 5, ASK_S = 3, ASKED = 3, BACKLOG = 16 };

/* A host that is gone says nothing: TCP asks it. */
static void watch(int fd, uint64_t timeout_ns)
{
	const int on = 1, idle = IDLE_S, ask = ASK_S, asked = ASKED;
	const unsigned timeout_ms = (unsigned)(timeout_ns / 1000000);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &ask, sizeof(ask));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &asked, sizeof(asked));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static void begin(struct plug_link *l, int fd)
{
	l->fd = fd;
	l->n_in = l->n_out = l->out_at = 0;
}

int plug_link_listen(struct sockaddr_storage *address)
{
	socklen_t size = plug_address_size(address);
	int err, fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (!bind(fd, (struct sockaddr *)address, size) && !listen(fd, BACKLOG) &&
	    !getsockname(fd, (struct sockaddr *)address, &size))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int plug_link_connect(struct plug_link *l, const struct sockaddr_storage *address,
		      uint64_t timeout_ns)
{
	int err, fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	watch(fd, timeout_ns);
	begin(l, fd);
	if (!connect(fd, (const struct sockaddr *)address, plug_address_size(address)) ||
	    errno == EINPROGRESS)
		return 0;
	err = -errno;
	plug_link_close(l);
	return err;
}

int plug_link_accept(struct plug_link *l, int listener, uint64_t timeout_ns)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED ? -EAGAIN
										       : -errno;
	watch(fd, timeout_ns);
	begin(l, fd);
	return 0;
}

int plug_link_is_up(struct plug_link *l)
{
	struct sockaddr_storage other;
	socklen_t size = sizeof(other);
	int err = 0;

	if (!getpeername(l->fd, (struct sockaddr *)&other, &size))
		return 0;
	size = sizeof(err);
	getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &err, &size);
	return err ? -err : -EAGAIN;
}

int plug_link_flush(struct plug_link *l)
{
	ssize_t n;

	while (l->out_at < l->n_out) {
		n = send(l->fd, l->out + l->out_at, l->n_out - l->out_at, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
		l->out_at += (size_t)n;
	}
	return 0;
}

static void put32(uint8_t *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

int plug_link_put(struct plug_link *l, enum plug_frame_type type, const void *bytes, size_t length)
{
	int err = plug_link_flush(l);

	if (err)
		return err;
	if (length > PLUG_FRAME_MAX)
		return -EMSGSIZE;
	put32(l->out, type);
	put32(l->out + 4, (uint32_t)length);
	memcpy(l->out + PLUG_FRAME_HEAD, bytes, length);
	l->n_out = PLUG_FRAME_HEAD + length;
	l->out_at = 0;
	err = plug_link_flush(l);
	return err == -EAGAIN ? 0 : err;
}

/* Reads what is missing of the first frame, and no byte behind it. */
static int fill(struct plug_link *l, size_t wanted)
{
	ssize_t n;

	while (l->n_in < wanted) {
		n = recv(l->fd, l->in + l->n_in, wanted - l->n_in, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EWOULDBLOCK)
			return -EAGAIN;
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		l->n_in += (size_t)n;
	}
	return 0;
}

int plug_link_get(struct plug_link *l, struct plug_frame *frame)
{
	int err = fill(l, PLUG_FRAME_HEAD);
	uint32_t length;

	if (err)
		return err;
	length = get32(l->in + 4);
	if (length > PLUG_FRAME_MAX)
		return -EPROTO;
	err = fill(l, PLUG_FRAME_HEAD + length);
	if (err)
		return err;
	frame->type = (enum plug_frame_type)get32(l->in);
	frame->length = length;
	memcpy(frame->bytes, l->in + PLUG_FRAME_HEAD, length);
	l->n_in = 0;
	return 0;
}

uint64_t plug_link_rtt_ns(const struct plug_link *l)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	getsockopt(l->fd, IPPROTO_TCP, TCP_INFO, &info, &size);
	return (uint64_t)info.tcpi_rtt * 1000;
}

void plug_link_close(struct plug_link *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

void plug_words_put(uint8_t *bytes, const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t word = htole64(words[i]);

		memcpy(bytes + 8 * i, &word, sizeof(word));
	}
}

void plug_words_get(const uint8_t *bytes, uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		memcpy(&words[i], bytes + 8 * i, sizeof(words[i]));
		words[i] = le64toh(words[i]);
	}
}
