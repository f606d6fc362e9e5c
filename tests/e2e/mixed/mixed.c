// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * mixed: queue pairs that SHIFT drives and others on one completion queue with a channel, in one process, by loopback. -u: those
 * that it does not drive come first and have completions that nobody has polled; -t: a thread polls all the time; -l: the
 * program waits in the middle for a word of its runner; -o: UC alone talks, and overruns the queue; -g: the queue may be made larger meanwhile; -x: the queue is one of ibv_create_cq_ex(), and most polls are
 * ibv_start_poll()'s. The program says what it saw.
 */
#include "tests/lib/pair.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEN = 64, PLACES = 8, BUSY = 400, RECEIVE = 1 << 8 };

struct options opt = { .port = 1, .timeout = 14, .dev = "mlx5_0" };

/* Two queue pairs that are connected with each other; [0] sends, [1] receives. */
struct both {
	char name;
	struct ibv_qp *qp[2];
	_Atomic uint64_t sent, came, done;
};

static struct nic nic;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static uint8_t *mem;
static struct both uc = { .name = 'u' }, rc = { .name = 'r' };
static bool uc_first, with_thread, extended, small, may_grow;
static _Atomic bool stop;

static struct both *both_of(uint32_t qpn)
{
	for (int i = 0; i < 2; i++) {
		if (rc.qp[i] && rc.qp[i]->qp_num == qpn)
			return &rc;
		if (uc.qp[i] && uc.qp[i]->qp_num == qpn)
			return &uc;
	}
	must(false, "a completion of a queue pair that is there");
	return NULL;
}

static void make(struct both *b, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .qp_type = type,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .srq = type == IBV_QPT_RC ? srq : NULL,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = PLACES,
						  .max_recv_wr = PLACES,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_qp_init_attr told;
	struct ibv_qp_attr attr;

	for (int i = 0; i < 2; i++) {
		b->qp[i] = ibv_create_qp(nic.pd, &init);
		must(b->qp[i], "ibv_create_qp");
		must(init.send_cq == cq && init.recv_cq == cq, "the attributes as they were");
		must(b->qp[i]->send_cq == cq && b->qp[i]->recv_cq == cq,
		     "the program's completion queue in its queue pair");
		must_zero(ibv_query_qp(b->qp[i], &attr, IBV_QP_STATE, &told), "ibv_query_qp");
		must(told.send_cq == cq && told.recv_cq == cq, "its completion queue when asked");
	}
}

static void state(struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer)
{
	bool reliable = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = { .qp_state = to,
				    .port_num = PORT,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = peer,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_dest_rd_atomic = 1,
				    .max_rd_atomic = 1,
				    .min_rnr_timer = 1,
				    .ah_attr = { .port_num = PORT,
						 .is_global = 1,
						 .dlid = nic.port.lid,
						 .grh = { .dgid = nic.gid,
							  .sgid_index = (uint8_t)opt.gid_index,
							  .hop_limit = 4 } } };
	int mask = IBV_QP_STATE;

	if (to == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	if (to == IBV_QPS_RTR)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	if (to == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN |
			(reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					    IBV_QP_MAX_QP_RD_ATOMIC
				  : 0);
	must_zero(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp");
}

static void connect_both(struct both *b)
{
	for (int i = 0; i < 2; i++) {
		state(b->qp[i], IBV_QPS_INIT, 0);
		state(b->qp[i], IBV_QPS_RTR, b->qp[!i]->qp_num);
		state(b->qp[i], IBV_QPS_RTS, 0);
	}
	b->sent = b->came = b->done = 0;
}

/* A receive, and the message for it. to: at which of the two it lies. */
static void post_to(struct both *b, int to, int solicited)
{
	struct ibv_sge sge = { (uintptr_t)mem, LEN, mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = RECEIVE | (uint8_t)b->name,
				    .sg_list = &sge,
				    .num_sge = 1 };
	struct ibv_send_wr send = { .wr_id = (uint8_t)b->name,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND_WITH_IMM,
				    .send_flags = solicited ? IBV_SEND_SOLICITED : 0,
				    .imm_data = htobe32((uint32_t)b->sent++) };
	struct ibv_recv_wr *bad_recv;
	struct ibv_send_wr *bad_send;

	if (b->qp[to]->srq)
		must_zero(ibv_post_srq_recv(srq, &recv, &bad_recv), "ibv_post_srq_recv");
	else
		must_zero(ibv_post_recv(b->qp[to], &recv, &bad_recv), "ibv_post_recv");
	must_zero(ibv_post_send(b->qp[!to], &send, &bad_send), "ibv_post_send");
}

static void post(struct both *b, int solicited)
{
	post_to(b, 1, solicited);
}

static void seen(const struct ibv_wc *wc)
{
	struct both *b = both_of(wc->qp_num);
	bool receive = wc->opcode & IBV_WC_RECV;

	must(wc->status == IBV_WC_SUCCESS, "a completion without error");
	must((wc->wr_id & 0xff) == (uint8_t)b->name && !(wc->wr_id & RECEIVE) == !receive,
	     "a completion of this queue pair's request");
	must(wc->qp_num == b->qp[receive]->qp_num, "the queue pair's number in it");
	if (receive)
		must(wc->byte_len == LEN && wc->wc_flags & IBV_WC_WITH_IMM,
		     "the length and the flags of a message");
	if (!receive)
		b->done++;
	else
		must(be32toh(wc->imm_data) == (uint32_t)b->came++,
		     "messages in their order, each once");
}

static bool idle(const struct both *b)
{
	return b->came == b->sent && b->done == b->sent;
}

/* ---- polls ----------------------------------------------------------------------------------- */

/* As ibv_poll_cq() would tell it; an error has no opcode. */
static void read_wc(struct ibv_cq_ex *ex, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){ .wr_id = ex->wr_id,
			       .status = ex->status,
			       .qp_num = ibv_wc_read_qp_num(ex) };
	if (wc->status != IBV_WC_SUCCESS) {
		wc->vendor_err = ibv_wc_read_vendor_err(ex);
		return;
	}
	wc->opcode = ibv_wc_read_opcode(ex);
	wc->wc_flags = ibv_wc_read_wc_flags(ex);
	wc->byte_len = ibv_wc_read_byte_len(ex);
	wc->imm_data = ibv_wc_read_imm_data(ex);
	wc->src_qp = ibv_wc_read_src_qp(ex);
	wc->slid = (uint16_t)ibv_wc_read_slid(ex);
	wc->sl = ibv_wc_read_sl(ex);
	wc->dlid_path_bits = ibv_wc_read_dlid_path_bits(ex);
}

static int poll_ex(struct ibv_cq_ex *ex, int n, struct ibv_wc *wc)
{
	int got = 0, ret = ibv_start_poll(ex, &(struct ibv_poll_cq_attr){ 0 });

	if (ret == ENOENT)
		return 0;
	must_zero(ret, "ibv_start_poll");
	do
		read_wc(ex, &wc[got++]);
	while (got < n && !ibv_next_poll(ex));
	ibv_end_poll(ex);
	return got;
}

/* An extended queue takes both kinds of polls. */
static int poll_some(int n, struct ibv_wc *wc)
{
	static int turn;

	if (extended && turn++ % 3)
		return poll_ex((struct ibv_cq_ex *)cq, n, wc);
	return ibv_poll_cq(cq, n, wc);
}

static bool nothing(void)
{
	struct ibv_wc wc;

	return !ibv_poll_cq(cq, 1, &wc) && (!extended || !poll_ex((struct ibv_cq_ex *)cq, 1, &wc));
}

static void drain(void)
{
	double end = now_s() + 20;
	struct ibv_wc wc[3];
	int got;

	while (!idle(&uc) || !idle(&rc)) {
		must(now_s() < end, "all completions");
		got = poll_some(3, wc);
		must(got >= 0, "ibv_poll_cq");
		for (int i = 0; i < got; i++)
			seen(&wc[i]);
	}
	must(nothing(), "no completion too many");
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool event_waits(int ms)
{
	struct pollfd in = { .fd = channel->fd, .events = POLLIN };

	return poll(&in, 1, ms) == 1;
}

static void event_take(void)
{
	struct ibv_cq *of;
	void *context;

	must(event_waits(20000), "an event");
	must_zero(ibv_get_cq_event(channel, &of, &context), "ibv_get_cq_event");
	must(of == cq, "an event of the program's completion queue");
	must(context == &cq, "the program's context in it");
	ibv_ack_cq_events(of, 1);
}

/* More than one event may answer an arming; each names the queue. */
static void events_rest(void)
{
	while (event_waits(0))
		event_take();
}

/*
 * SHIFT may make the queue larger meanwhile, for what a move completes. Whoever has armed it for any completion may be told
 * of that once (docs/promises.md), as of a resize by the program itself.
 */
static void not_solicited(struct both *b)
{
	for (int resizes = 0;; resizes++) {
		must_zero(ibv_req_notify_cq(cq, 1), "ibv_req_notify_cq, solicited");
		post(b, 0);
		drain();
		if (!event_waits(0))
			return;
		must(may_grow && resizes < 2, "no event of what was not solicited");
		events_rest();
	}
}

static void events_of(struct both *b)
{
	for (int i = 0; i < 5; i++) { /* more than the arm number has values */
		must_zero(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		must(nothing(), "nothing");
		post(b, 0);
		event_take();
		drain();
		events_rest();
	}
	not_solicited(b);
	post(b, 1);
	event_take();
	drain();
	events_rest();
	say("EVENTS %c", b->name);
}

/* ---- with a thread that polls all the time -------------------------------------------------- */

static void *poller(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	while (!stop || !idle(&uc))
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			seen(&wc);
	return NULL;
}

/* The driven ones come while the others' completions do, and are polled. */
static void make_rc_meanwhile(void)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, poller, NULL), "pthread_create");
	for (int i = 0; i < BUSY; i++) {
		double end = now_s() + 20;

		while (uc.sent - atomic_load_explicit(&uc.done, memory_order_relaxed) >=
			       PLACES / 2 ||
		       uc.sent - atomic_load_explicit(&uc.came, memory_order_relaxed) >= PLACES / 2)
			must(now_s() < end, "completions in time");
		post(&uc, 0);
		if (i == BUSY / 2)
			make(&rc, IBV_QPT_RC);
	}
	stop = true;
	pthread_join(thread, NULL);
	say("MADE meanwhile");
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Flushed receives; the program says what the completions of one queue pair tell. */
static void flushed(struct both *b)
{
	struct ibv_recv_wr recv = { .wr_id = RECEIVE | (uint8_t)b->name }, *bad;
	double end = now_s() + 20;
	struct ibv_wc wc;

	must_zero(ibv_post_recv(b->qp[1], &recv, &bad), "ibv_post_recv");
	must_zero(ibv_post_recv(b->qp[1], &recv, &bad), "ibv_post_recv");
	state(b->qp[1], IBV_QPS_ERR, 0);
	for (int i = 0; i < 2; i++) {
		while (poll_some(1, &wc) != 1)
			must(now_s() < end, "a flushed receive");
		must(wc.qp_num == b->qp[1]->qp_num && wc.wr_id == recv.wr_id,
		     "a flushed receive of this queue pair");
		say("FLUSHED %c %d 0x%x", b->name, wc.status, wc.vendor_err);
	}
	for (int i = 0; i < 2; i++)
		state(b->qp[i], IBV_QPS_RESET, 0);
	connect_both(b);
}

/* ---- overrun --------------------------------------------------------------------------------- */

/* More completions of each UC queue pair than the queue has places: the program is told of its own queue, once. */
static void overrun(void)
{
	struct pollfd in = { .fd = nic.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	for (int i = 0; i < 2 * PLACES; i++)
		post_to(&uc, i % 2, 0);
	must(poll(&in, 1, 20000) == 1, "an asynchronous event");
	must_zero(ibv_get_async_event(nic.ctx, &event), "ibv_get_async_event");
	must(event.event_type == IBV_EVENT_CQ_ERR, "an event of an overrun");
	must(event.element.cq == cq, "the event of the program's queue");
	ibv_ack_async_event(&event);
	must(poll(&in, 1, 200) == 0, "no event more");
	say("OVERRAN");
}

/* ---- all ------------------------------------------------------------------------------------- */

static struct ibv_cq *queue_make(void)
{
	int places = small ? PLACES / 2 : 8 * PLACES;
	struct ibv_cq_init_attr_ex attr = { .cqe = (uint32_t)places,
					    .cq_context = &cq,
					    .channel = channel,
					    .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *ex;

	if (!extended)
		return ibv_create_cq(nic.ctx, places, &cq, channel, 0);
	ex = ibv_create_cq_ex(nic.ctx, &attr);
	must(ex, "ibv_create_cq_ex");
	return ibv_cq_ex_to_cq(ex);
}

static void all_make(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = PLACES, .max_sge = 1 } };

	nic_open(&nic, opt.dev);
	mem = calloc(1, LEN);
	mr = ibv_reg_mr(nic.pd, mem, LEN, IBV_ACCESS_LOCAL_WRITE);
	channel = ibv_create_comp_channel(nic.ctx);
	cq = queue_make();
	srq = ibv_create_srq(nic.pd, &init);
	must(mem && mr && channel && cq && srq, "objects");
}

static void both_end(struct both *b)
{
	for (int i = 0; i < 2; i++) {
		must_zero(ibv_destroy_qp(b->qp[i]), "ibv_destroy_qp");
		b->qp[i] = NULL;
	}
	b->sent = b->came = b->done = 0;
}

/* The pause lets their completions come. Where they are late, the test looks at less. */
static void leave_unpolled(void)
{
	post(&uc, 0);
	post(&uc, 0);
	usleep(20000);
}

static void uc_comes_first(void)
{
	make(&uc, IBV_QPT_UC);
	connect_both(&uc);
	for (int i = 0; i < 100; i++) { /* once round the ring, and some */
		post(&uc, 0);
		drain();
	}
	events_of(&uc);
	if (with_thread) {
		make_rc_meanwhile();
	} else {
		leave_unpolled();
		must_zero(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		make(&rc, IBV_QPT_RC);
		event_take();
		drain();
		events_rest();
		say("TAKEN OVER");
	}
	connect_both(&rc);
}

static void uc_comes_second(void)
{
	make(&rc, IBV_QPT_RC);
	must_zero(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq"); /* before the others are there */
	make(&uc, IBV_QPT_UC);
	connect_both(&uc);
	post(&uc, 0);
	event_take();
	drain();
	events_rest();
	connect_both(&rc);
}

static void talk(void)
{
	for (int i = 0; i < 200; i++) {
		post(i % 3 ? &uc : &rc, 0);
		if (i % 3 == 2)
			drain();
	}
	drain();
	say("TALKED");
}

/* What nobody has polled goes with it, and it works anew. A resize takes that out of the ring. */
static void uc_again(void)
{
	leave_unpolled();
	must_zero(ibv_resize_cq(cq, 16 * PLACES), "ibv_resize_cq");
	for (int i = 0; i < 2; i++)
		state(uc.qp[i], IBV_QPS_RESET, 0);
	connect_both(&uc);
	drain();
	talk();
	say("AGAIN");
}

static void all_talk(bool look)
{
	talk();
	events_of(&uc);
	events_of(&rc);
	uc_again();
	events_of(&uc);
	flushed(&uc);
	say("READY");
	if (look)
		hear("moved");
	talk();
	events_of(&uc);
	events_of(&rc);
	uc_again();
	leave_unpolled();
}

int main(int argc, char **argv)
{
	bool look = false;
	int c;

	while ((c = getopt(argc, argv, "utlxog")) != -1) {
		uc_first |= c == 'u';
		with_thread |= c == 't';
		look |= c == 'l';
		extended |= c == 'x';
		small |= c == 'o';
		may_grow |= c == 'g';
	}
	all_make();
	if (uc_first)
		uc_comes_first();
	else
		uc_comes_second();
	if (small)
		overrun();
	else
		all_talk(look);
	both_end(&uc);
	if (!small) {
		drain();
		events_of(&rc);
	}
	both_end(&rc);
	must_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	must_zero(ibv_destroy_srq(srq), "ibv_destroy_srq");
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	nic_close(&nic);
	free(mem);
	say("OK");
	return 0;
}
