// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * verbs --server|--client [--port N] [--samples N] [--copying]
 * The client measures once for each line on its standard input, which names the phase; "end" ends
 * both.
 */
#include "verbs.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct options opt = { .port = 18515, .timeout = 18, .dev = "mlx5_0" };

static int samples = 16;
static bool copying;
static struct link links[2];

/* A wish of the client to the server; n = 0: nothing more. */
struct wish {
	int link, n;
};

static void ask_peer(int link, int n)
{
	struct wish mine = { link, n }, done;

	swap(&mine, &done, sizeof(mine));
}

/* The client's sends find receives, however many there were. */
static void replenish(struct link *l)
{
	struct ibv_wc wc[BATCH];
	int n;

	while ((n = ibv_poll_cq(l->cq, BATCH, wc)) > 0)
		for (int i = 0; i < n; i++) {
			must(wc[i].status == IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
			if (wc[i].opcode & IBV_WC_RECV)
				link_post_receives(l, 1);
		}
	must(n == 0, "ibv_poll_cq");
}

static bool wished(struct wish *wish)
{
	struct pollfd in = { .fd = sock, .events = POLLIN };

	if (poll(&in, 1, 1) != 1)
		return false;
	must(recv(sock, wish, sizeof(*wish), MSG_WAITALL) == sizeof(*wish), "a wish");
	return true;
}

static void serve(void)
{
	struct wish wish;

	for (;;) {
		replenish(&links[0]);
		replenish(&links[1]);
		if (!wished(&wish))
			continue;
		link_post_sends(&links[wish.link], wish.n);
		must(send(sock, &wish, sizeof(wish), MSG_NOSIGNAL) == sizeof(wish), "an answer");
		if (!wish.n)
			return;
	}
}

/* A phase: what the runner calls it. */
static void measure(void)
{
	char phase[64];

	while (fgets(phase, sizeof(phase), stdin)) {
		phase[strcspn(phase, "\n")] = 0;
		if (!strcmp(phase, "end"))
			break;
		cases_run(&links[0], &links[1], phase, samples, ask_peer);
		say("DONE %s", phase);
	}
	ask_peer(0, 0);
}

static int options_read(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--server"))
			opt.server = true;
		else if (!strcmp(argv[i], "--copying"))
			copying = true;
		else if (!strcmp(argv[i], "--port") && i + 1 < argc)
			opt.port = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--samples") && i + 1 < argc)
			samples = atoi(argv[++i]);
		else if (strcmp(argv[i], "--client"))
			return -1;
	}
	return 0;
}

static void connect_all(struct nic *nic)
{
	if (copying)
		ledger_start(nic->ctx);
	for (int i = 0; i < 2; i++) {
		link_make(&links[i], nic, i == 1);
		if (copying)
			ledger_add(links[i].qp);
		link_connect(&links[i]);
		if (opt.server)
			link_post_receives(&links[i], RECV_WR);
	}
	meet();
}

int main(int argc, char **argv)
{
	struct nic nic;

	if (options_read(argc, argv)) {
		fputs("usage: verbs --server|--client [--port N] [--samples N] [--copying]\n",
		      stderr);
		return 2;
	}
	line_open();
	nic_open(&nic, opt.dev);
	connect_all(&nic);
	say("CONNECTED");
	if (opt.server)
		serve();
	else
		measure();
	meet();
	for (int i = 0; i < 2; i++)
		link_free(&links[i]);
	nic_close(&nic);
	say("OK");
	return 0;
}
