// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * storm: two processes in which a thread makes queue pairs, as fast as it can, and destroys them, until
 * the runner says a word. Meanwhile they connect two pairs: messages pass over one, nothing over the
 * other. They say the numbers of both:
 * TALKS|0x... and RESTS|0x...
 */
#include "tests/lib/pair.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORM_BEFORE = 50, TALK = 200 };

struct options opt = { .port = 18515, .dev = "mlx5_0", .timeout = 14 };

static struct nic nic;
static _Atomic int made;
static _Atomic bool calm;

static void *storm(void *arg)
{
	struct conn c;

	while (!calm) {
		conn_make(&c, &nic);
		conn_to_init(&c);
		conn_free(&c);
		made++;
	}
	return arg;
}

static void options_read(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		opt.server |= !strcmp(argv[i], "--server");
		if (!strcmp(argv[i], "--port") && i + 1 < argc)
			opt.port = atoi(argv[++i]);
	}
}

int main(int argc, char **argv)
{
	struct conn talks, rests;
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_read(argc, argv);
	line_open();
	nic_open(&nic, opt.dev);
	must_zero(pthread_create(&thread, NULL, storm, NULL), "thread");
	while (made < STORM_BEFORE)
		sched_yield();
	conn_make(&rests, &nic);
	conn_connect(&rests);
	conn_make(&talks, &nic);
	conn_connect(&talks);
	say("RESTS|0x%06x", rests.qp->qp_num);
	say("TALKS|0x%06x", talks.qp->qp_num);
	do
		conn_talk(&talks, TALK);
	while (!both_told());
	conn_talk(&rests, TALK);
	say("MADE|%d", made);
	calm = true;
	must_zero(pthread_join(thread, NULL), "thread");
	meet();
	conn_free(&talks);
	conn_free(&rests);
	nic_close(&nic);
	return 0;
}
