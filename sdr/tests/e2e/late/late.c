/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One end of a connection with a single slot, which does what it is told by lines on its standard input and says what it
 * saw. Its packet lifetime is a lie: ids are used again at once, so that what is late meets the next message.
 *
 * usage: late DEV BACKEND GENERATIONS [KEY [PATIENCE_S]]
 *
 * DEV: several with commas. KEY: 16 characters, by which control datagrams are signed, or "-".
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "sdr/include/sdr/sdr.h"

enum { SIZE = 64 << 10, CHUNK = 8 << 10, KEY = 16 };

static struct sdr_context *ctx;
static struct sdr_qp *qp;
static struct sdr_mr *mr;
static struct sdr_recv_req *recv_req;
static uint8_t *mem;
static uint64_t message;
static int patience_s = 20;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "late: %s: %s (%s)\n", what, strerror(errno), qp ? sdr_qp_why(qp) : "");
	exit(1);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void say(const char *word, uint64_t number)
{
	printf("%s %llu\n", word, (unsigned long long)number);
	fflush(stdout);
}

/* Polls until f() is done or it takes too long. */
static void until(int (*f)(void), const char *what)
{
	double end = now_s() + patience_s;
	int ret;

	while ((ret = f()) == -EAGAIN || !ret) {
		sdr_poll(ctx);
		if (now_s() > end) {
			fprintf(stderr, "late: %s: not within %d s (%s)\n", what, patience_s,
				sdr_qp_why(qp));
			exit(1);
		}
	}
	errno = ret < 0 ? -ret : 0;
	must(ret > 0, what);
}

static uint8_t byte_of(uint64_t n, size_t i)
{
	return (uint8_t)(n * 37 + i * 11 + (i >> 8) * 3 + 1);
}

static int post(void)
{
	struct sdr_recv_wr wr = { mr, mem, SIZE };
	int err = sdr_recv_post(qp, &wr, &recv_req);

	return err ? err : 1;
}

static struct sdr_send_req *send_req;

static int begin_send(void)
{
	struct sdr_send_wr wr = { mr, mem, SIZE, (uint32_t)message };
	int err = sdr_send_post(qp, &wr, &send_req);

	return err ? err : 1;
}

static int end_send(void)
{
	return sdr_send_poll(send_req);
}

static size_t chunks_here(size_t *all)
{
	const sdr_word *bits;
	size_t sum = 0;

	must(!sdr_recv_bitmap_get(recv_req, &bits, all), "bitmap");
	for (size_t i = 0; i < *all; i++)
		sum += bits[i / 64] >> (i % 64) & 1;
	return sum;
}

static int is_whole(void)
{
	size_t all;

	return chunks_here(&all) == all;
}

/* No bit, and no byte that is not the one that was put there. */
static void look_clean(uint8_t expected)
{
	size_t all, i = 0, here = chunks_here(&all);

	while (i < SIZE && mem[i] == expected)
		i++;
	say(here || i < SIZE ? "DIRTY" : "CLEAN", here * 1000000 + i);
}

static void degraded_check_whole(void)
{
	size_t i = 0;

	until(is_whole, "a message");
	while (i < SIZE && mem[i] == byte_of(message, i))
		i++;
	say(i < SIZE ? "WRONG" : "WHOLE", i);
}

static void connect_to(const char *hex)
{
	uint8_t info[SDR_QP_INFO_MAX];
	size_t n = 0;
	unsigned byte;

	while (n < sizeof(info) && sscanf(hex + 2 * n, "%2x", &byte) == 1)
		info[n++] = (uint8_t)byte;
	errno = -sdr_qp_connect(qp, info, n);
	must(!errno, "connect");
	say("CONNECTED", 0);
}

static void do_send(uint64_t n)
{
	message = n;
	for (size_t i = 0; i < SIZE; i++)
		mem[i] = byte_of(n, i);
	until(begin_send, "send");
	until(end_send, "its end");
	say("SENT", n);
}

static void do_post(uint64_t n, uint8_t fill)
{
	message = n;
	memset(mem, fill, SIZE);
	until(post, "receive");
	say("POSTED", n);
}

static void do_complete(void)
{
	errno = -sdr_recv_complete(recv_req);
	must(!errno, "complete");
	memset(mem, 0x11, SIZE);
	say("COMPLETED", message);
}

static int has_lost(void)
{
	struct sdr_stats stats;

	return sdr_qp_stats(qp, &stats) ? -EINVAL : stats.nics_lost > 0;
}

static void await_lost(void)
{
	until(has_lost, "a NIC that is lost");
	say("LOST", 0);
}

static uint64_t joined;

static int has_joined(void)
{
	struct sdr_stats stats;

	return sdr_qp_stats(qp, &stats) ? -EINVAL : stats.nics_joined >= joined;
}

static void await_joined(uint64_t n)
{
	joined = n;
	until(has_joined, "a NIC that is used again");
	say("JOINED", n);
}

static int end_displaced(void)
{
	int ret = sdr_send_poll(send_req);

	return ret == -EIO ? 1 : ret == 1 ? -EINVAL : ret;
}

/* No NIC has a place for it any more. */
static void do_displaced(uint64_t n)
{
	until(begin_send, "send");
	until(end_displaced, "the end of a send that has no place");
	say("DISPLACED", n);
}

/* Its end is not waited for. */
static void do_start(uint64_t n)
{
	for (size_t i = 0; i < SIZE; i++)
		mem[i] = byte_of(n, i);
	until(begin_send, "send");
	say("STARTED", n);
}

static int is_broken(void)
{
	struct sdr_stats stats;

	return sdr_qp_stats(qp, &stats) ? 1 : 0;
}

/* The connection fails, and the receive with it: then its buffer is the user's. */
static void do_fail(void)
{
	until(is_broken, "the connection's end");
	errno = EINVAL;
	must(sdr_recv_complete(recv_req) < 0, "a receive that fails");
	memset(mem, 0x11, SIZE);
	say("FAILED", message);
}

static void look_still(void)
{
	size_t i = 0;

	while (i < SIZE && mem[i] == 0x11)
		i++;
	say(i < SIZE ? "WRITTEN" : "STILL", i);
}

static void obey(char *line)
{
	unsigned long long n = 0;

	sscanf(line, "%*s %llu", &n);
	if (!strncmp(line, "peer ", 5))
		connect_to(line + 5);
	else if (!strncmp(line, "send", 4))
		do_send(n);
	else if (!strncmp(line, "post", 4))
		do_post(n, 0x11);
	else if (!strncmp(line, "complete", 8))
		do_complete();
	else if (!strncmp(line, "clean", 5))
		look_clean(0x11);
	else if (!strncmp(line, "whole", 5))
		degraded_check_whole();
	else if (!strncmp(line, "lost", 4))
		await_lost();
	else if (!strncmp(line, "joined", 6))
		await_joined(n);
	else if (!strncmp(line, "displaced", 9))
		do_displaced(n);
	else if (!strncmp(line, "start", 5))
		do_start(n);
	else if (!strncmp(line, "fail", 4))
		do_fail();
	else if (!strncmp(line, "still", 5))
		look_still();
	else
		exit(0);
}

static enum sdr_backend backend_of(const char *name)
{
	enum sdr_backend backend = SDR_BACKEND_WINDOW;

	while (strcmp(sdr_backend_name(backend), name) && backend < SDR_BACKEND_ROOT)
		backend++;
	return backend;
}

static void open_all(int argc, char **argv)
{
	struct sdr_qp_attr attr = { .max_msg_size = SIZE,
				    .chunk_size = CHUNK,
				    .max_msgs = 1,
				    .packet_lifetime_ns = 1000,
				    .generations = (uint32_t)atoi(argv[3]) };
	uint8_t info[SDR_QP_INFO_MAX];
	size_t len = sizeof(info);

	if (argc > 4 && strlen(argv[4]) == KEY) /* "-": none */
		attr.mac_key = (const uint8_t *)argv[4];
	attr.backend = backend_of(argv[2]);
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(mem != MAP_FAILED, "mmap");
	ctx = sdr_context_create(argv[1], NULL);
	must(ctx, "device");
	mr = sdr_mr_reg(ctx, mem, SIZE);
	must(mr, "region");
	qp = sdr_qp_create(ctx, &attr);
	must(qp, "connection");
	must(!sdr_qp_info_get(qp, info, &len), "info");
	printf("INFO ");
	for (size_t i = 0; i < len; i++)
		printf("%02x", info[i]);
	putchar('\n');
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static char line[2 * SDR_QP_INFO_MAX + 16];
	struct pollfd in = { .fd = 0, .events = POLLIN };

	if (argc < 4 || argc > 6)
		return 2;
	setvbuf(stdin, NULL, _IONBF, 0);
	patience_s = argc > 5 ? atoi(argv[5]) : patience_s;
	open_all(argc, argv);
	for (;;) {
		if (poll(&in, 1, 0) > 0) {
			if (!fgets(line, sizeof(line), stdin))
				return 0;
			obey(line);
		}
		sdr_poll(ctx);
	}
}
