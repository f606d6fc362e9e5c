// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * counted: a program that takes all that it may have of something, and counts. On stock and under SHIFT it gets as much.
 * Its connection leads to itself, so that one process shows it.
 */
#include "tests/lib/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/lib/random.h"

enum { MOST = 1 << 16, MESSAGES = 100 };

struct options opt = { .port = 18515, .timeout = 16, .dev = "mlx5_0" };

static uint64_t drawn;
static struct nic nic;
static struct conn c;

static void conn_to_itself(void)
{
	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_set_own(&c);
	c.peer = c.own;
	conn_to_init(&c);
	conn_lay(&c);
	conn_to_rts_alone(&c);
	conn_talk(&c, MESSAGES);
	say("CONNECTED");
}

/* To the other process. */
static void conn_to_peer(void)
{
	line_open();
	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	conn_talk(&c, MESSAGES);
	say("CONNECTED");
}

static void finish(void)
{
	conn_talk(&c, MESSAGES);
	conn_free(&c);
	nic_close(&nic);
	say("OK");
}

/* ---- memory that may be locked --------------------------------------------------------------- */

static struct ibv_mr *mr[MOST];

static size_t memory_take(size_t part)
{
	uint8_t *memory = mmap(NULL, (size_t)MOST * 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t n = 0;

	must(memory != MAP_FAILED, "memory");
	for (; (mr[n] = ibv_reg_mr(nic.pd, memory + n * part, part, IBV_ACCESS_LOCAL_WRITE)); n++)
		;
	must(errno == ENOMEM, "no more room");
	say("GOT %zu of %zu bytes", n, part);
	return n;
}

static void memory_give(size_t n)
{
	while (n--)
		must_zero(ibv_dereg_mr(mr[n]), "ibv_dereg_mr");
	say("GAVE");
}

static size_t memory_part(void)
{
	return 4096ul << random_below(&drawn, 6);
}

static void run_memory(void)
{
	size_t n;

	conn_to_itself();
	hear("go");
	n = memory_take(memory_part());
	conn_talk(&c, MESSAGES);
	memory_give(n);
	hear("end");
	finish();
}

static void talk_until_told(void)
{
	while (!both_told()) {
		conn_talk(&c, MESSAGES);
		usleep(1000);
	}
	hear("on");
}

/* One end takes all it may, or both do; they talk on, or rest for a while. */
static void run_pressed(void)
{
	size_t n = 0;

	conn_to_peer();
	hear("go");
	if (!opt.server || opt.rounds)
		n = memory_take(memory_part());
	talk_until_told();
	hear("rested"); /* nothing is sent until then */
	conn_talk(&c, MESSAGES);
	memory_give(n);
	talk_until_told(); /* it is protected again, and moves */
	meet();
	finish();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = { { "memory", run_memory }, { "pressed", run_pressed } };

	drawn = options_seeded(argc, argv);
	for (size_t i = 0; optind < argc && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[optind], cases[i].name)) {
			opt.rounds = optind + 1 < argc;
			cases[i].run();
			return 0;
		}
	return 2;
}
