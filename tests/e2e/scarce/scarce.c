// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * scarce: a shared receive queue with fewer receives than queue pairs take from it.
 *
 *   scarce [-s] -p PORT -q LANES -r RECEIVES [-u]
 *
 * The server has RECEIVES receives for LANES connections and, with -u, a queue pair for datagrams; it gives each receive
 * back before it tells the client over the line what has come. The client has one message under way at a time: the lanes and
 * the datagrams take turns. A datagram that is not answered is sent again. Words of the runner: "lanes" leaves the
 * datagrams out, "all" takes them in again, "reset" resets each queue pair of the lanes at both ends and connects it again, "one" only that of
 * the first lane, "count" says how much has come, "end" ends both.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/pair.h"

enum {
	LANES = 4,
	RECEIVES = 8,
	GRH = 40, /* in front of a datagram */
	LEN = 256,
	QKEY = 0x11111111,
	AGAIN_MS = 20,
};

enum kind { MESSAGE, DATAGRAM, RESET };

/* What is sent, and what the line says of it. */
struct note {
	uint32_t kind, lane;
	uint64_t number;
};

struct options opt = { .timeout = 18, .dev = "mlx5_0" };

static struct nic nic;
static struct conn lanes[LANES];
static uint64_t next[LANES + 1]; /* number of the next message, by lane; the last: of datagrams */
static struct ibv_srq *srq;
static uint8_t *mem;
static struct ibv_mr *mr;
static bool posted[RECEIVES];
static int n_lanes, n_receives;
static bool with_datagrams;
static struct {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_ah *ah;
	struct address own, peer;
	uint64_t again;
} ud;

/* ---- setting up ----------------------------------------------------------------------------- */

static void give(uint64_t slot)
{
	struct ibv_sge sge = { (uintptr_t)(mem + slot * LEN), LEN, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	posted[slot] = true;
	must_zero(ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
}

static void memory(void)
{
	must_zero(posix_memalign((void **)&mem, 4096, RECEIVES * LEN), "memory");
	mr = ibv_reg_mr(nic.pd, mem, RECEIVES * LEN, IBV_ACCESS_LOCAL_WRITE);
	must(mr, "ibv_reg_mr");
}

static void receives(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = (uint32_t)n_receives,
						    .max_sge = 1 } };

	nic.srq = srq = ibv_create_srq(nic.pd, &init);
	must(srq, "ibv_create_srq");
	for (int i = 0; i < n_receives; i++)
		give((uint64_t)i);
}

static void ud_to_rts(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };

	must_zero(ibv_modify_qp(ud.qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		  "datagrams to INIT");
	attr.qp_state = IBV_QPS_RTR;
	must_zero(ibv_modify_qp(ud.qp, &attr, IBV_QP_STATE), "datagrams to RTR");
	attr.qp_state = IBV_QPS_RTS;
	must_zero(ibv_modify_qp(ud.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "datagrams to RTS");
}

static void ud_make(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
					 .srq = srq,
					 .cap = { .max_send_wr = 4,
						  .max_recv_wr = srq ? 0 : 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_ah_attr to = { .port_num = PORT, .is_global = 1, .grh = { .hop_limit = 64 } };

	ud.cq = ibv_create_cq(nic.ctx, 64, NULL, NULL, 0);
	must(ud.cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = ud.cq;
	ud.qp = ibv_create_qp(nic.pd, &init);
	must(ud.qp, "ibv_create_qp for datagrams");
	ud.own = (struct address){ .qpn = ud.qp->qp_num, .lid = nic.port.lid };
	memcpy(ud.own.gid, nic.gid.raw, 16);
	ud_to_rts();
	swap(&ud.own, &ud.peer, sizeof(ud.own));
	to.dlid = ud.peer.lid;
	memcpy(to.grh.dgid.raw, ud.peer.gid, 16);
	ud.ah = ibv_create_ah(nic.pd, &to);
	must(ud.ah, "ibv_create_ah");
}

/* ---- the server ------------------------------------------------------------------------------ */

static void tell(const struct note *note)
{
	must(send(sock, note, sizeof(*note), MSG_NOSIGNAL) == (ssize_t)sizeof(*note),
	     "send on the line");
}

/* A message comes once, in order; a datagram may come again. */
static void arrived(const struct ibv_wc *wc, bool datagram)
{
	const uint8_t *at = mem + wc->wr_id * LEN + (datagram ? GRH : 0);
	struct note note;
	uint64_t *due;

	must(!wc->status, "a good receive");
	must(wc->wr_id < RECEIVES && posted[wc->wr_id], "a receive that was posted");
	posted[wc->wr_id] = false;
	memcpy(&note, at, sizeof(note));
	must(note.kind == (datagram ? DATAGRAM : MESSAGE) && note.lane <= LANES, "its kind");
	due = &next[note.lane];
	must(note.number == *due || (datagram && note.number < *due), "the next number");
	*due = note.number + 1;
	give(wc->wr_id);
	tell(&note);
}

static bool poll_one(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(cq, 1, wc);

	must(n >= 0, "ibv_poll_cq");
	return n;
}

static bool serve_some(void)
{
	struct ibv_wc wc;
	bool any = false;

	for (int i = 0; i < n_lanes; i++)
		while (poll_one(lanes[i].cq, &wc)) {
			arrived(&wc, false);
			any = true;
		}
	while (with_datagrams && poll_one(ud.cq, &wc)) {
		arrived(&wc, true);
		any = true;
	}
	return any;
}

/* ---- both ------------------------------------------------------------------------------------ */

static void reset_some(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		conn_reset(&lanes[i]);
		conn_connect_bare(&lanes[i]);
	}
}

/* False: it has closed the line. */
static bool line_note(struct note *note, int wait_ms, bool *came)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	ssize_t n;

	*came = poll(&p, 1, wait_ms) == 1;
	if (!*came)
		return true;
	n = recv(sock, note, sizeof(*note), MSG_WAITALL);
	*came = n == (ssize_t)sizeof(*note);
	return *came;
}

static void serve(void)
{
	struct note note;
	bool came;

	while (line_note(&note, 0, &came)) {
		if (came && note.kind == RESET)
			reset_some(note.number);
		if (!serve_some())
			usleep(50);
	}
}

/* ---- the client ------------------------------------------------------------------------------ */

static bool told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

static void post(uint32_t lane)
{
	struct note note = { lane == LANES ? DATAGRAM : MESSAGE, lane, next[lane] };
	struct conn *c = &lanes[lane % LANES];
	struct ibv_sge sge = { (uintptr_t)c->mem, sizeof(note), c->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (lane == LANES) {
		wr.wr.ud.ah = ud.ah;
		wr.wr.ud.remote_qpn = ud.peer.qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	memcpy(c->mem, &note, sizeof(note));
	must_zero(ibv_post_send(lane == LANES ? ud.qp : c->qp, &wr, &bad), "ibv_post_send");
}

static void sent(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!poll_one(cq, &wc))
		usleep(20);
	must(!wc.status, "a good send");
}

/* The answer to what was sent last; false: not yet. Answers to what was sent twice may come twice. */
static bool answered(uint32_t lane, int wait_ms)
{
	struct note note;
	bool came;

	do {
		must(line_note(&note, wait_ms, &came), "the server's line");
		if (came && note.lane == lane && note.number == next[lane])
			return true;
	} while (came);
	return false;
}

static void message(uint32_t lane)
{
	post(lane);
	sent(lanes[lane].cq);
	while (!answered(lane, 1000))
		;
	next[lane]++;
}

/* Until it is answered, or the runner has a word. */
static void datagram(void)
{
	post(LANES);
	sent(ud.cq);
	while (!answered(LANES, AGAIN_MS)) {
		if (told())
			return;
		ud.again++;
		post(LANES);
		sent(ud.cq);
	}
	next[LANES]++;
}

static void round_of(bool datagrams)
{
	for (int i = 0; i < n_lanes && !told(); i++)
		message((uint32_t)i);
	if (datagrams && !told())
		datagram();
}

static void reset(uint64_t n)
{
	struct note note = { .kind = RESET, .number = n };

	tell(&note);
	reset_some(n);
	say("RESET");
}

static void count(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < n_lanes; i++)
		least = next[i] < least ? next[i] : least;
	say("COUNT %llu %llu AGAIN %llu", (unsigned long long)least,
	    (unsigned long long)next[LANES], (unsigned long long)ud.again);
}

static void drive(void)
{
	bool datagrams = with_datagrams;
	char word[16] = "";

	while (strcmp(word, "end\n")) {
		while (!told())
			round_of(datagrams);
		must(fgets(word, sizeof(word), stdin), "a word of the runner");
		if (!strcmp(word, "lanes\n") || !strcmp(word, "all\n"))
			datagrams = *word == 'a' && with_datagrams;
		if (!strcmp(word, "reset\n") || !strcmp(word, "one\n"))
			reset(*word == 'o' ? 1 : (uint64_t)n_lanes);
		if (!strcmp(word, "count\n"))
			count();
	}
}

static void options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "sp:q:r:u")) != -1) {
		switch (c) {
		case 's': opt.server = true; break;
		case 'p': opt.port = atoi(optarg); break;
		case 'q': n_lanes = atoi(optarg); break;
		case 'r': n_receives = atoi(optarg); break;
		case 'u': with_datagrams = true; break;
		default: exit(2);
		}
	}
	must(n_lanes > 0 && n_lanes <= LANES, "-q LANES");
	must(n_receives > 0 && n_receives <= RECEIVES, "-r RECEIVES");
}

int main(int argc, char **argv)
{
	options(argc, argv);
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must know of words that came together */
	nic_open(&nic, opt.dev);
	memory();
	if (opt.server)
		receives();
	line_open();
	for (int i = 0; i < n_lanes; i++) {
		conn_make(&lanes[i], &nic);
		conn_connect_bare(&lanes[i]);
	}
	if (with_datagrams)
		ud_make();
	meet();
	say("CONNECTED");
	if (opt.server)
		serve();
	else
		drive();
	say("OK");
	return 0;
}
