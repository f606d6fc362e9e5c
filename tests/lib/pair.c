// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Words to the runner, the line between both processes, and opened devices. */
#include "tests/lib/pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int sock = -1;

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

void must(bool ok, const char *what)
{
	if (ok)
		return;
	say("FAILED %s: %s", what, strerror(errno));
	_exit(1);
}

/* For calls that return an errno value instead of setting errno. */
void must_zero(int ret, const char *what)
{
	errno = ret < 0 ? errno : ret;
	must(!ret, what);
}

void hear(const char *word)
{
	char line[64] = "";

	must(fgets(line, sizeof(line), stdin), "a word of the runner");
	line[strcspn(line, "\n")] = 0;
	must(!strcmp(line, word), word);
}

uint64_t options_seeded(int argc, char **argv)
{
	uint64_t seed = 1;
	int c;

	while ((c = getopt(argc, argv, "sp:S:")) != -1) {
		if (c == 's')
			opt.server = true;
		else if (c == 'p')
			opt.port = atoi(optarg);
		else if (c == 'S')
			seed = strtoull(optarg, NULL, 0);
		else
			exit(2);
	}
	return seed;
}

double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- the line ------------------------------------------------------------------------------- */

/* It stays open: another process may have called already when the first was answered. */
static int line_accept(const struct sockaddr_in *at)
{
	static int listener = -1;
	int on = 1;

	if (listener < 0) {
		listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(listener >= 0, "socket");
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		must_zero(bind(listener, (const struct sockaddr *)at, sizeof(*at)), "bind");
		must_zero(listen(listener, 8), "listen");
	}
	return accept(listener, NULL, NULL);
}

static int line_dial(const struct sockaddr_in *to)
{
	int tries, fd;

	for (tries = 0; tries < 400; tries++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(fd >= 0, "socket");
		if (!connect(fd, (const struct sockaddr *)to, sizeof(*to)))
			return fd;
		close(fd);
		usleep(50000);
	}
	return -1;
}

void line_open(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)opt.port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;

	sock = opt.server ? line_accept(&sa) : line_dial(&sa);
	must(sock >= 0, "the line to the other process");
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void swap(const void *mine, void *theirs, size_t len)
{
	ssize_t n;
	size_t done;

	must(send(sock, mine, len, MSG_NOSIGNAL) == (ssize_t)len, "send on the line");
	for (done = 0; done < len; done += (size_t)n) {
		n = recv(sock, (char *)theirs + done, len - done, 0);
		must(n > 0, "receive on the line");
	}
}

void meet(void)
{
	char mine = 'm', theirs;

	swap(&mine, &theirs, 1);
}

bool both_told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	bool mine = poll(&in, 1, 0) == 1, theirs;

	swap(&mine, &theirs, sizeof(mine));
	return mine || theirs;
}

/* ---- what the software ConnectX tells ------------------------------------------------------- */

unsigned int reachable_by(const char *dev, const void *addr, uint64_t length)
{
	static unsigned int (*ask)(const char *, const void *, uint64_t);

	if (!ask)
		ask = (unsigned int (*)(const char *, const void *, uint64_t))dlsym(
			RTLD_DEFAULT, "simnic_test_reachable_by");
	must(ask, "the software ConnectX");
	return ask(dev, addr, length);
}

unsigned int reachable(const void *addr, uint64_t length)
{
	return reachable_by(NULL, addr, length);
}

void await_shadow(const void *addr, uint64_t length)
{
	double end = now_s() + 20;

	while (reachable(addr, length) < 2) {
		must(now_s() < end, "a shadow within 20 s");
		usleep(100);
	}
}

void await_unreachable(const void *addr, uint64_t length)
{
	double end = now_s() + 20;

	while (reachable(addr, length)) {
		must(now_s() < end, "memory that no NIC can write to any more within 20 s");
		usleep(100);
	}
}

/* ---- devices -------------------------------------------------------------------------------- */

void nic_open(struct nic *nic, const char *dev)
{
	struct ibv_device **list;
	int i, n = 0;

	memset(nic, 0, sizeof(*nic));
	list = ibv_get_device_list(&n);
	must(list, "ibv_get_device_list");
	for (i = 0; i < n && !nic->ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), dev))
			nic->ctx = ibv_open_device(list[i]);
	must(nic->ctx, "ibv_open_device");
	ibv_free_device_list(list);
	must_zero(ibv_query_port(nic->ctx, PORT, &nic->port), "ibv_query_port");
	must_zero(ibv_query_gid(nic->ctx, PORT, opt.gid_index, &nic->gid), "ibv_query_gid");
	nic->pd = ibv_alloc_pd(nic->ctx);
	must(nic->pd, "ibv_alloc_pd");
}

void nic_close(struct nic *nic)
{
	must_zero(ibv_dealloc_pd(nic->pd), "ibv_dealloc_pd");
	must_zero(ibv_close_device(nic->ctx), "ibv_close_device");
}
