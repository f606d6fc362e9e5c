// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The TCP line between both ends: addresses, barriers, final counts. No data check uses it. */
#include "oob.h"
#include "verify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static int oob_listen(const struct sockaddr_in *at)
{
	int on = 1, sock = -1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!bind(fd, (const struct sockaddr *)at, sizeof(*at)) && !listen(fd, 1))
		sock = accept(fd, NULL, NULL);
	if (sock < 0)
		sock = -errno;
	close(fd);
	return sock;
}

static int oob_dial(const struct sockaddr_in *to)
{
	int rc = -ECONNREFUSED;

	for (int tries = 0; tries < 200; tries++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return -errno;
		if (!connect(fd, (const struct sockaddr *)to, sizeof(*to)))
			return fd;
		rc = -errno;
		close(fd);
		usleep(50000);
	}
	return rc;
}

int oob_open(struct verify *v)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)v->opt.port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const char *address = v->opt.server ? v->opt.listen : v->opt.host;
	int on = 1;

	if (address && inet_pton(AF_INET, address, &sa.sin_addr) != 1)
		return -EINVAL;
	v->sock = v->opt.server ? oob_listen(&sa) : oob_dial(&sa);
	if (v->sock < 0)
		return v->sock;
	setsockopt(v->sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return 0;
}

static int move_all(int sock, void *buf, size_t len, bool out)
{
	for (size_t done = 0; done < len;) {
		char *at = (char *)buf + done;
		ssize_t n = out ? send(sock, at, len - done, MSG_NOSIGNAL)
				: recv(sock, at, len - done, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		done += (size_t)n;
	}
	return 0;
}

int oob_exchange(int sock, const void *mine, void *theirs, size_t len)
{
	int rc = move_all(sock, (void *)(uintptr_t)mine, len, true);

	return rc ? rc : move_all(sock, theirs, len, false);
}
