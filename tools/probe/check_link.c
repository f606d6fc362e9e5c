/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Checks with the link down: by a command, or by the operator's hand. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/probe/check.h"
#include "tools/probe/ring.h"

#define HAND_S	    120u
#define EVENT_MS    4000u
#define UP_EVENT_MS 1000
#define UD_BYTES    64u
#define UD_TRIES    50u
/* ---- the link -------------------------------------------------------------------------------- */

static bool port_active(struct probe *p)
{
	struct ibv_port_attr port;

	return !ibv_query_port(p->dev.ctx, 1, &port) && port.state == IBV_PORT_ACTIVE;
}

static bool port_becomes(struct probe *p, bool active, unsigned seconds)
{
	uint64_t end_ns = pr_now_ns() + seconds * 1000000000ull;

	while (port_active(p) != active) {
		if (pr_now_ns() > end_ns || (pr_interrupted && !active))
			return false;
		pr_nap_us(500);
	}
	return true;
}

/* Spawned, as the peer's process is: see peer.c. */
static int run_command(const char *command)
{
	char *argv[] = { "sh", "-c", (char *)command, NULL };
	int status = 0, err;
	pid_t pid;

	err = posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ);
	if (err)
		return pr_fail("cannot run sh: %s", strerror(err));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status ? pr_fail("\"%.150s\" ends with status %d", command,
				WIFEXITED(status) ? WEXITSTATUS(status) : status)
		      : 0;
}

static int ud_make(struct probe *p, struct pr_link *link)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .cap = { 64, 64, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111 };
	struct ibv_ah_attr ah;

	link->ud_cq = ibv_create_cq(p->dev.ctx, 256, NULL, NULL, 0);
	init.send_cq = init.recv_cq = link->ud_cq;
	link->ud = link->ud_cq ? ibv_create_qp(p->dev.pd, &init) : NULL;
	pr_ah_fill(&p->dev, &p->dev.gid, p->dev.port.lid, &ah);
	link->ud_ah = ibv_create_ah(p->dev.pd, &ah);
	if (!link->ud || !link->ud_ah)
		return pr_fail("cannot make a UD queue pair: %s", strerror(errno));
	if (ibv_modify_qp(link->ud, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		return pr_fail("a UD queue pair cannot be taken to INIT");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(link->ud, &attr, IBV_QP_STATE))
		return pr_fail("a UD queue pair cannot be taken to RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(link->ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		return pr_fail("a UD queue pair cannot be taken to RTS");
	return 0;
}

/* Made while the link is up, as GIDs may go with it. */
static int link_prepare(struct probe *p)
{
	const struct pr_end_options opt = { .timeout = 14, .retry = 1 };
	struct pr_link *link = &p->link;

	if (link->prepared)
		return 0;
	if (pr_end_make(&link->self, &p->dev, &opt) || pr_end_connect_self(&link->self, &opt) ||
	    ud_make(p, link))
		return -1;
	link->prepared = true;
	return 0;
}

void pr_link_free(struct probe *p)
{
	struct pr_link *link = &p->link;

	pr_end_free(&link->self);
	if (link->ud_ah)
		ibv_destroy_ah(link->ud_ah);
	if (link->ud)
		ibv_destroy_qp(link->ud);
	if (link->ud_cq)
		ibv_destroy_cq(link->ud_cq);
}

int pr_link_down(struct probe *p)
{
	struct pr_link *link = &p->link;

	if (link->is_down)
		return 0;
	if (link_prepare(p))
		return -1;
	if (!link->down_command && !link->by_hand)
		return pr_fail("skipped: it wants the link down; give --link-down-command and "
			       "--link-up-command, or --by-hand");
	pr_events_clear(&p->dev);
	link->down_ns = pr_now_ns();
	if (link->by_hand)
		fprintf(stderr,
			"shift-probe: now take the link of %s down (its cable, its switch port, or "
			"ip link "
			"set ... down); I wait %u s\n",
			p->dev.name, HAND_S);
	else if (run_command(link->down_command))
		return -1;
	link->is_down = true;
	if (port_becomes(p, false, link->by_hand ? HAND_S : 30))
		return 0;
	return pr_fail("the port of %.32s stayed active", p->dev.name);
}

int pr_link_up(struct probe *p)
{
	struct pr_link *link = &p->link;
	uint64_t at_ns;

	if (!link->is_down)
		return 0;
	link->is_down = false;
	if (link->by_hand)
		fprintf(stderr, "shift-probe: now bring the link of %s up again; I wait %u s\n",
			p->dev.name, HAND_S);
	else if (link->up_command && run_command(link->up_command))
		return -1;
	if (!port_becomes(p, true, HAND_S))
		return pr_fail("the port of %.32s did not come back", p->dev.name);
	/*
	 * a check that takes the port down before its NIC has told of this may be told of neither
	 */
	(void)pr_event_wait(&p->dev, IBV_EVENT_PORT_ACTIVE, NULL, UP_EVENT_MS, &at_ns);
	return 0;
}

void pr_link_restore(struct probe *p)
{
	if (pr_link_up(p))
		fprintf(stderr, "shift-probe: %s\n", pr_why());
}

/* ---- port-event ------------------------------------------------------------------------------ */

enum pr_verdict check_port_event(struct probe *p, struct pr_result *r)
{
	uint64_t at_ns, seen_ns;

	if (pr_link_down(p))
		return PR_CANNOT_TELL;
	seen_ns = pr_now_ns();
	if (pr_event_wait(&p->dev, IBV_EVENT_PORT_ERR, NULL, EVENT_MS, &at_ns))
		return pr_fails(r, "the port is down and there is %s", pr_why());
	pr_note_real(r, "event_after_state_ms",
		     at_ns > seen_ns ? (double)(at_ns - seen_ns) / 1e6 : 0);
	if (!p->link.by_hand)
		pr_note_real(r, "event_after_command_ms", (double)(at_ns - p->link.down_ns) / 1e6);
	return port_active(p) ? pr_fails(r, "the port says that it is active behind PORT_ERR")
			      : PR_HOLDS;
}

/* ---- loopback-down --------------------------------------------------------------------------- */

enum pr_verdict check_loopback_down(struct probe *p, struct pr_result *r)
{
	struct pr_wr write = {
		.opcode = MLX5_OPCODE_RDMA_WRITE, .signaled = true, .off = PR_OUT, .len = 64
	};
	uint64_t began = pr_now_ns();
	struct pr_done d;

	if (pr_link_down(p))
		return PR_CANNOT_TELL;
	write.raddr = (uintptr_t)p->dev.mem;
	write.rkey = p->dev.mr->rkey;
	pr_post(&p->link.self, &write);
	if (!pr_wait(&p->link.self, &d, PR_LONG_MS))
		return pr_fails(r, "a WRITE to itself neither completes nor fails within %u s",
				PR_LONG_MS / 1000);
	pr_note_real(r, "ms", (double)(pr_now_ns() - began) / 1e6);
	pr_note(r, "syndrome", d.syndrome);
	return pr_is_good(&d) ? pr_fails(r, "a WRITE to itself completes with the link down")
			      : PR_HOLDS;
}

/* ---- ud-survives ----------------------------------------------------------------------------- */

static int ud_post(struct probe *p, bool receive)
{
	struct ibv_sge sge = { (uintptr_t)p->dev.mem + (receive ? 0 : PR_OUT),
			       receive ? UD_BYTES + 40 : UD_BYTES, p->dev.mr->lkey };
	struct ibv_send_wr send = { .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr *bad_send;

	send.wr.ud.ah = p->link.ud_ah;
	send.wr.ud.remote_qpn = p->link.ud->qp_num;
	send.wr.ud.remote_qkey = 0x11111111;
	return receive ? ibv_post_recv(p->link.ud, &recv, &bad_recv)
		       : ibv_post_send(p->link.ud, &send, &bad_send);
}

/* Good completions that came meanwhile, of receives only or of all; -1: one with an error. */
static int ud_poll(struct probe *p, bool receives)
{
	struct ibv_wc wc;
	int n = 0;

	while (ibv_poll_cq(p->link.ud_cq, 1, &wc) > 0) {
		if (wc.status)
			return pr_fail("a datagram ends with status %d", wc.status);
		n += !receives || wc.opcode == IBV_WC_RECV;
	}
	return n;
}

static int ud_state(struct probe *p)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(p->link.ud, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;
}

/* Switches may need a while behind a link that came up. */
static int ud_works(struct probe *p)
{
	int n = 0;

	for (unsigned i = 0; i < UD_TRIES && !n; i++) {
		if (ud_post(p, true) || ud_post(p, false))
			return pr_fail("a datagram cannot be posted");
		for (unsigned k = 0; k < 20 && !n; k++) {
			pr_nap_us(5000);
			n = ud_poll(p, true);
		}
	}
	return n;
}

enum pr_verdict check_ud_survives(struct probe *p, struct pr_result *r)
{
	int completed = 0, state, works;

	if (pr_link_down(p))
		return PR_CANNOT_TELL;
	for (unsigned i = 0; i < 5 && completed >= 0; i++) {
		if (ud_post(p, false))
			return pr_fails(r, "a datagram cannot be posted with the link down");
		pr_nap_us(20000);
		completed += ud_poll(p, false);
	}
	state = ud_state(p);
	pr_note(r, "completed_while_down", completed);
	if (pr_link_up(p))
		return PR_CANNOT_TELL;
	works = completed < 0 ? -1 : ud_works(p);
	if (works < 0)
		return pr_fails(r, "%s", pr_why());
	if (state != IBV_QPS_RTS || ud_state(p) != IBV_QPS_RTS)
		return pr_fails(r, "the queue pair left RTS: %d, then %d", state, ud_state(p));
	return works ? PR_HOLDS : pr_fails(r, "no datagram arrives when the link is up again");
}
