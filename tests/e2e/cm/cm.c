/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A connection whose ends have ids of rdma_cm, of which the test's own librdmacm (cm_fake.c) makes the events that
 * a kernel would: with it, and with what the peer's SHIFT says, the program must hear of ends, and only of those.
 *
 *   cm WAY --server|--client PORT     WAY: disconnect, removed, killed
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/pair.h"
#include "tests/unit/cm/fake_rdmacm.h"

#define PATIENCE_S 2 /* several times SHIFT_HEARTBEAT_LOSS_MS */
#define END_S	   30

struct options opt = { .timeout = 18, .dev = "mlx5_0" };
static struct nic nic;
static struct conn c;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

/* The next event; -1: none is there. */
static int event_now(void)
{
	struct rdma_cm_event *event;
	int type;

	if (rdma_get_cm_event(channel, &event)) {
		must(errno == EAGAIN, "EAGAIN where there is no event");
		return -1;
	}
	type = event->event;
	must(event->id == id, "an event of the own id");
	must_zero(rdma_ack_cm_event(event), "rdma_ack_cm_event");
	return type;
}

/* By what poll() would say of the channel, as programs do: now and then there is nothing, all the same. */
static void event_await(enum rdma_cm_event_type type)
{
	double end = now_s() + END_S;
	int got = -1;

	while (got < 0) {
		while (!fake_readable(channel)) {
			must(now_s() < end, "an event");
			sched_yield();
		}
		got = event_now();
	}
	must(got == (int)type, "the event that was awaited");
}

static void begin(void)
{
	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	channel = fake_channel_make(false);
	id = fake_id_make(channel, c.qp);
	fake_raise(id, RDMA_CM_EVENT_ESTABLISHED);
	event_await(RDMA_CM_EVENT_ESTABLISHED);
	say("CONNECTED");
	hear("go");
	conn_talk(&c, 50);
	say("READY");
	hear("dead");
	conn_talk(&c, 50);
	say("MOVED");
	hear("on");
}

/* What kernels say of a NIC that goes, here and at the peer; while traffic goes on. */
static void masked(bool removed)
{
	double end = now_s() + PATIENCE_S;

	fake_raise(id, RDMA_CM_EVENT_ADDR_CHANGE);
	fake_raise(id, RDMA_CM_EVENT_UNREACHABLE);
	fake_raise(id, removed ? RDMA_CM_EVENT_DEVICE_REMOVAL : RDMA_CM_EVENT_DISCONNECTED);
	do {
		must(event_now() == -1, "no event of a fault that is masked");
	} while (now_s() < end);
	meet();
	conn_talk(&c, 50);
	must(event_now() == -1, "no event of a fault that is masked");
}

static void end(void)
{
	meet();
	if (!opt.server)
		must_zero(rdma_disconnect(id), "rdma_disconnect");
	event_await(RDMA_CM_EVENT_DISCONNECTED);
	fake_raise(id, RDMA_CM_EVENT_DISCONNECTED); /* the kernel, at last */
	must(event_now() == -1, "the end once");
	if (opt.server)
		must_zero(rdma_disconnect(id), "rdma_disconnect behind the peer's");
}

static void outlive(void)
{
	if (!opt.server)
		hear("the end"); /* it comes by a signal */
	hear("killed");
	fake_raise(id, RDMA_CM_EVENT_DISCONNECTED);
	event_await(RDMA_CM_EVENT_DISCONNECTED);
}

int main(int argc, char **argv)
{
	const char *way = argc == 4 ? argv[1] : "";

	if (argc != 4) {
		fprintf(stderr, "usage: cm WAY --server|--client PORT\n");
		return 2;
	}
	opt.server = !strcmp(argv[2], "--server");
	opt.port = atoi(argv[3]);
	line_open();
	begin();
	if (!strcmp(way, "removed"))
		masked(opt.server);
	if (!strcmp(way, "killed"))
		outlive();
	else
		end();
	conn_free(&c);
	must_zero(rdma_destroy_id(id), "rdma_destroy_id");
	must(event_now() == -1, "no event behind the last id");
	must(atomic_load(&fake_ids) == 0, "no id left");
	fake_channel_free(channel);
	say("OK");
	nic_close(&nic);
	return 0;
}
