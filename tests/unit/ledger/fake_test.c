/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The fake provider itself: what it does with each knob and without it, and what it trips over. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/fork.h"
#include "tests/lib/random.h"
#include "tests/lib/verbs_fake.h"

enum { SENDS = 8, RECVS = 4, CQES = 64 };

static const struct vf_geometry geometry = { SENDS, RECVS, 4, 2, 64, false, false };
static const struct vf_geometry all_signaled = { SENDS, RECVS, 4, 2, 64, true, false };
static struct vf_dev dev;
static struct vf_cq scq, rcq;
static struct vf_srq srq;
static struct vf_qp qp;
static bool with_srq;

static void make_of(uint32_t index, uint32_t knobs, bool on_srq, const struct vf_geometry *g)
{
	uint64_t flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM;

	vf_reset();
	with_srq = on_srq;
	vf_dev_make(&dev, index, knobs);
	vf_cq_make(&dev, &scq, CQES, flags);
	vf_cq_make(&dev, &rcq, CQES, 0);
	if (on_srq)
		vf_srq_make(&dev, &srq, RECVS, 2);
	vf_qp_make(&dev, &qp, &scq, &rcq, on_srq ? &srq : NULL, g);
}

static void make(uint32_t knobs)
{
	make_of(0, knobs, false, &geometry);
}

static int unmake(void **state)
{
	vf_qp_free(&qp);
	if (with_srq)
		vf_srq_free(&srq);
	vf_cq_free(&scq);
	vf_cq_free(&rcq);
	vf_dev_free(&dev);
	return 0;
}

/* -- the caller ------------------------------------------------------------------------------- */

static struct ibv_send_wr write_wr(uint64_t id, unsigned flags, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = flags,
				  .sg_list = sge,
				  .num_sge = 1 };

	*sge = (struct ibv_sge){ id * 16, 8, vf_lkey(id * 16) };
	wr.wr.rdma.remote_addr = id * 16;
	wr.wr.rdma.rkey = vf_rkey(id * 16);
	return wr;
}

static int post_write(uint64_t id, unsigned flags)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(id, flags, &sge), *bad = NULL;
	int err = ibv_post_send(vf_ibv(&qp), &wr, &bad);

	assert_true(!err == !bad);
	return err;
}

static void write_n(uint64_t first, int n, unsigned flags)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(post_write(first + i, flags), 0);
}

static int post_recv(uint64_t id)
{
	struct ibv_sge sge = { id * 16, 8, vf_lkey(id * 16) };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	if (with_srq)
		return ibv_post_srq_recv(&srq.ibv, &wr, &bad);
	return ibv_post_recv(vf_ibv(&qp), &wr, &bad);
}

/* What the CQ says, as "1 2 3F 4E": good, flushed, failed. */
static const char *polled(struct vf_cq *cq)
{
	static char said[512];
	struct ibv_wc wc;
	const char *mark;

	said[0] = '\0';
	while (ibv_poll_cq(vf_ibv_cq(cq), 1, &wc) == 1) {
		mark = wc.status == IBV_WC_SUCCESS	  ? ""
		       : wc.status == IBV_WC_WR_FLUSH_ERR ? "F"
							  : "E";
		assert_int_equal(wc.qp_num, vf_ibv(&qp)->qp_num);
		snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s%llu%s",
			 said[0] ? " " : "", (unsigned long long)wc.wr_id, mark);
	}
	return said;
}

/* -- without knobs ---------------------------------------------------------------------------- */

static void completes_in_order(void **state)
{
	make(0);
	write_n(1, 2, 0);
	write_n(3, 1, IBV_SEND_SIGNALED);
	write_n(4, 1, 0);
	assert_string_equal(polled(&scq), "");
	assert_int_equal(vf_run(&qp, 2), 2);
	assert_string_equal(polled(&scq), "");
	assert_int_equal(vf_run(&qp, 9), 2);
	assert_string_equal(polled(&scq), "3");
	assert_int_equal(vf_log.n, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(vf_log.done[i].id, (i + 1) * 16);
}

static void places_are_free_once_polled(void **state)
{
	make_of(0, 0, false, &all_signaled);
	write_n(1, SENDS, 0);
	assert_int_equal(post_write(100, 0), ENOMEM);
	vf_run(&qp, 3);
	assert_int_equal(post_write(100, 0), ENOMEM);
	assert_string_equal(polled(&scq), "1 2 3");
	write_n(9, 3, 0);
	assert_int_equal(post_write(100, 0), ENOMEM);
	assert_int_equal(vf_stats.refused_room, 3);
}

static void bad_wr_is_the_first_not_taken(void **state)
{
	struct ibv_sge sge[3];
	struct ibv_send_wr wr[3], *bad;

	make(0);
	for (int i = 0; i < 3; i++) {
		wr[i] = write_wr(i + 1, IBV_SEND_SIGNALED, &sge[i]);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = 5;
	assert_int_equal(ibv_post_send(vf_ibv(&qp), wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	vf_run(&qp, 9);
	assert_string_equal(polled(&scq), "1");
}

static void inline_data_is_that_of_the_post(void **state)
{
	char bytes[VF_DATA] = "as it was posted";
	struct ibv_sge sge = { (uintptr_t)bytes, VF_DATA, 12345 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;
	uint32_t key;

	make(0);
	assert_int_equal(ibv_post_send(vf_ibv(&qp), &wr, &bad), 0);
	key = vf_reg(&dev, bytes, sizeof(bytes));
	sge.lkey = key;
	wr.send_flags = 0;
	assert_int_equal(ibv_post_send(vf_ibv(&qp), &wr, &bad), 0);
	memset(&wr, 0x5a, sizeof(wr));
	memset(&sge, 0x5a, sizeof(sge));
	memcpy(bytes, "as it was later", sizeof(bytes));
	vf_run(&qp, 2);
	assert_memory_equal(vf_log.done[0].data, "as it was posted", VF_DATA);
	assert_memory_equal(vf_log.done[1].data, "as it was later", VF_DATA);
	vf_dereg(&dev, key);
}

static void flushes_what_is_not_acknowledged(void **state)
{
	make(0);
	write_n(1, 1, IBV_SEND_SIGNALED);
	write_n(2, 4, 0);
	vf_run(&qp, 3);
	assert_int_equal(vf_run_silently(&qp, 1), 1);
	assert_int_equal(vf_log.n, 4);
	vf_die(&qp, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(vf_ibv(&qp)->state, IBV_QPS_RTS);
	assert_int_equal(vf_run(&qp, 9), 0);
	assert_string_equal(polled(&scq), "1 4E 5F");
	vf_modify(&qp, IBV_QPS_ERR);
	write_n(6, 1, 0);
	assert_string_equal(polled(&scq), "6F");
}

static void late_answers_acknowledge(void **state)
{
	make_of(0, 0, false, &all_signaled);
	write_n(1, 3, 0);
	assert_int_equal(vf_run_silently(&qp, 2), 2);
	assert_string_equal(polled(&scq), "");
	assert_int_equal(vf_ack(&qp, 1), 1);
	assert_string_equal(polled(&scq), "1");
	assert_int_equal(vf_run(&qp, 9), 2);
	assert_string_equal(polled(&scq), "2 3");
	assert_int_equal(vf_log.n, 3);
}

static void receives_in_order_and_flushed(void **state)
{
	struct vf_recv got;

	make(0);
	for (int i = 1; i <= RECVS; i++)
		assert_int_equal(post_recv(i), 0);
	assert_int_equal(post_recv(9), ENOMEM);
	assert_true(vf_receive(&qp, IBV_WC_RECV, 7, 8, &got));
	assert_int_equal(got.sge[0].addr, 16);
	assert_string_equal(polled(&rcq), "1");
	assert_int_equal(post_recv(5), 0);
	vf_die_receiving(&qp, IBV_WC_LOC_PROT_ERR);
	assert_false(vf_receive(&qp, IBV_WC_RECV, 0, 8, &got));
	assert_string_equal(polled(&rcq), "2E 3F 4F 5F");
	assert_int_equal(post_recv(6), 0);
	assert_string_equal(polled(&rcq), "6F");
}

static void reset_empties(void **state)
{
	make(0);
	write_n(1, 2, IBV_SEND_SIGNALED);
	assert_int_equal(post_recv(1), 0);
	vf_run(&qp, 1);
	vf_modify(&qp, IBV_QPS_RESET);
	assert_string_equal(polled(&scq), "");
	assert_int_equal(post_write(3, 0), EINVAL);
	assert_int_equal(post_recv(3), EINVAL);
	assert_int_equal(vf_stats.refused_reset, 2);
	vf_modify(&qp, IBV_QPS_RTS);
	write_n(4, SENDS, IBV_SEND_SIGNALED);
	vf_run(&qp, 1);
	assert_string_equal(polled(&scq), "4");
}

static void shared_receives_are_freed_by_polls(void **state)
{
	make_of(0, 0, true, &geometry);
	for (int i = 1; i <= RECVS; i++)
		assert_int_equal(post_recv(i), 0);
	assert_true(vf_receive(&qp, IBV_WC_RECV, 0, 8, NULL));
	assert_int_equal(post_recv(9), ENOMEM);
	assert_string_equal(polled(&rcq), "1");
	assert_int_equal(post_recv(5), 0);
	assert_false(vf_last_wqe(&qp));
	vf_modify(&qp, IBV_QPS_ERR);
	assert_string_equal(polled(&rcq), ""); /* they stay, for others */
	assert_true(vf_last_wqe(&qp));
	assert_false(vf_last_wqe(&qp));
	assert_int_equal(srq.n, RECVS);
}

static void a_thief_takes_from_its_own_queue(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND }, *bad;

	make_of(0, 0, true, &geometry);
	qp.loopback = true;
	wr.send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(post_recv(5), 0);
	assert_int_equal(ibv_post_send(vf_ibv(&qp), &wr, &bad), 0);
	assert_int_equal(ibv_post_send(vf_ibv(&qp), &wr, &bad), 0);
	assert_int_equal(vf_run(&qp, 9), 1);
	assert_string_equal(polled(&scq), "1");
	assert_string_equal(polled(&rcq), "5");
	assert_int_equal(post_recv(6), 0);
	assert_int_equal(vf_run(&qp, 9), 1);
	assert_int_equal(vf_log.n, 0);
}

static void events_of_armed_queues(void **state)
{
	make(0);
	write_n(1, 3, IBV_SEND_SIGNALED);
	vf_run(&qp, 1);
	assert_int_equal(scq.events, 0);
	ibv_req_notify_cq(vf_ibv_cq(&scq), 0);
	vf_run(&qp, 2);
	assert_int_equal(scq.events, 1);
	ibv_req_notify_cq(vf_ibv_cq(&scq), 1);
	write_n(4, 2, IBV_SEND_SIGNALED);
	vf_run(&qp, 1);
	assert_int_equal(scq.events, 1);
	vf_die(&qp, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(scq.events, 2);
}

static void what_is_gone_says_nothing(void **state)
{
	make(0);
	write_n(1, 3, IBV_SEND_SIGNALED);
	vf_vanish(&qp);
	assert_int_equal(vf_run(&qp, 9), 0);
	vf_modify(&qp, IBV_QPS_ERR);
	vf_tick(&dev);
	assert_string_equal(polled(&scq), "");
}

static void who_comes_back_tells_what_was_under_way(void **state)
{
	make(0);
	write_n(1, 3, IBV_SEND_SIGNALED);
	assert_int_equal(post_recv(1), 0);
	assert_int_equal(post_recv(2), 0);
	vf_run_silently(&qp, 1);
	vf_vanish(&qp);
	vf_modify(&qp, IBV_QPS_ERR);
	assert_string_equal(polled(&scq), "");
	vf_haunt(&qp);
	assert_string_equal(polled(&scq), "1 2F 3F");
	assert_string_equal(polled(&rcq), "1 2F");
}

static void lost_completions_leave_no_trace(void **state)
{
	make(0);
	write_n(1, 4, IBV_SEND_SIGNALED);
	vf_run(&qp, 1);
	assert_int_equal(vf_lose(&qp, 2), 2);
	vf_die(&qp, IBV_WC_RETRY_EXC_ERR);
	assert_string_equal(polled(&scq), "1 4E");
	assert_int_equal(vf_log.n, 3);
}

/* -- the newer calls -------------------------------------------------------------------------- */

static void built_requests(void **state)
{
	struct ibv_qp_ex *ex = &qp.ex;
	struct ibv_poll_cq_attr attr = { 0 };
	char bytes[8] = "builder";

	make(0);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = 0;
	ibv_wr_rdma_write(ex, vf_rkey(16), 16);
	ibv_wr_set_inline_data(ex, bytes, sizeof(bytes));
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, 77);
	ibv_wr_set_sge(ex, vf_lkey(32), 32, 8);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(ibv_wr_complete(ex), 0);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	ibv_wr_start(ex);
	for (int i = 0; i < SENDS - 1; i++)
		ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), ENOMEM);
	assert_int_equal(vf_run(&qp, 9), 2);
	assert_memory_equal(vf_log.done[0].data, "builder", 8);
	assert_int_equal(vf_log.done[1].imm, 77);
	assert_int_equal(ibv_start_poll(&scq.ex, &attr), 0);
	assert_int_equal(scq.ex.wr_id, 2);
	assert_int_equal(ibv_wc_read_opcode(&scq.ex), IBV_WC_SEND);
	assert_int_equal(ibv_wc_read_qp_num(&scq.ex), vf_ibv(&qp)->qp_num);
	assert_int_equal(ibv_next_poll(&scq.ex), ENOENT);
	ibv_end_poll(&scq.ex);
	assert_int_equal(ibv_start_poll(&scq.ex, &attr), ENOENT);
}

static void plain_devices_have_none(void **state)
{
	make(VF_PLAIN_ONLY);
	assert_null(scq.ex.start_poll);
	assert_null(qp.ex.wr_start);
	assert_int_equal(qp.driver_mask, 0);
	assert_false(qp.attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
}

/* -- knobs ------------------------------------------------------------------------------------ */

static void some_refuse_in_err(void **state)
{
	make(VF_REFUSES_IN_ERR);
	write_n(1, 2, 0);
	vf_run(&qp, 2);
	vf_modify(&qp, IBV_QPS_ERR);
	assert_string_equal(polled(&scq), "1F 2F"); /* nothing else would end their account */
	assert_int_equal(post_write(3, 0), EINVAL);
	assert_string_equal(polled(&scq), "");
}

static void refusing_ones_know_the_place_of_a_failure(void **state)
{
	make(VF_REFUSES_IN_ERR);
	write_n(1, 4, 0);
	vf_run(&qp, 2);
	vf_die(&qp, IBV_WC_RETRY_EXC_ERR);
	vf_modify(&qp, IBV_QPS_ERR);
	assert_string_equal(polled(&scq), "3E 4F");
}

static void some_report_acknowledged_ones(void **state)
{
	make(VF_ACKED_FLUSHED);
	write_n(1, 1, 0);
	write_n(2, 1, IBV_SEND_SIGNALED);
	write_n(3, 4, 0);
	vf_run(&qp, 4);
	vf_die(&qp, IBV_WC_RETRY_EXC_ERR);
	assert_string_equal(polled(&scq), "2 3E 4F 5F 6F");
	assert_int_equal(vf_stats.flushed_acked, 1);
}

static void some_have_one_status_for_link_and_request(void **state)
{
	struct ibv_wc wc;

	make(VF_DOWN_IS_OP);
	write_n(1, 2, 0);
	vf_run(&qp, 1);
	vf_link_down(&qp);
	assert_int_equal(ibv_poll_cq(vf_ibv_cq(&scq), 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_LOC_QP_OP_ERR);
}

static void others_give_up_retrying(void **state)
{
	struct ibv_wc wc;

	make(0);
	write_n(1, 1, 0);
	vf_link_down(&qp);
	assert_int_equal(ibv_poll_cq(vf_ibv_cq(&scq), 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
}

static void some_never_flush_a_late_receive(void **state)
{
	make(VF_NO_LATE_RECV_FLUSH);
	assert_int_equal(post_recv(1), 0);
	vf_modify(&qp, IBV_QPS_ERR);
	assert_int_equal(post_recv(2), 0);
	vf_tick(&dev);
	assert_string_equal(polled(&rcq), "1F");
	assert_int_equal(vf_stats.recvs_lost, 1);
}

static void some_refuse_a_late_receive(void **state)
{
	make(VF_REFUSES_RECV_IN_ERR);
	vf_modify(&qp, IBV_QPS_ERR);
	assert_int_equal(post_recv(2), EINVAL);
}

static void some_look_at_the_state_word(void **state)
{
	make(VF_FLUSH_BY_STATE);
	write_n(1, 1, 0);
	vf_die(&qp, IBV_WC_RETRY_EXC_ERR);
	write_n(2, 1, 0);
	assert_string_equal(polled(&scq), "1E");
	vf_modify(&qp, IBV_QPS_ERR);
	assert_string_equal(polled(&scq), "2F");
	vf_ibv(&qp)->state = IBV_QPS_RTS;
	write_n(3, 1, 0);
	assert_string_equal(polled(&scq), "");
	vf_ibv(&qp)->state = IBV_QPS_ERR;
	write_n(4, 1, 0);
	assert_string_equal(polled(&scq), "3F 4F");
}

static void some_raise_no_event(void **state)
{
	make_of(0, VF_NO_LAST_WQE, true, &geometry);
	vf_modify(&qp, IBV_QPS_ERR);
	assert_false(vf_last_wqe(&qp));
}

static void some_flush_in_the_poll(void **state)
{
	make(VF_FLUSH_IN_POLL);
	write_n(1, 1, 0);
	assert_int_equal(post_recv(1), 0);
	vf_modify(&qp, IBV_QPS_ERR);
	assert_int_equal(scq.head, 0);
	assert_string_equal(polled(&scq), "1F");
	assert_int_equal(rcq.head, 0);
	assert_string_equal(polled(&rcq), "1F");
}

static void some_are_late(void **state)
{
	struct ibv_wc wc;

	make(VF_FLUSH_LATE);
	write_n(1, 1, 0);
	vf_modify(&qp, IBV_QPS_ERR);
	for (int i = 1; i < VF_DELAY; i++)
		assert_int_equal(ibv_poll_cq(vf_ibv_cq(&scq), 1, &wc), 0);
	assert_string_equal(polled(&scq), "1F");
	unmake(NULL);
	make(VF_FLUSH_LATE);
	write_n(1, 1, 0);
	vf_modify(&qp, IBV_QPS_ERR);
	vf_tick(&dev);
	assert_string_equal(polled(&scq), "1F");
}

static void what_had_come_counts_though_the_flush_is_late(void **state)
{
	make(VF_FLUSH_LATE);
	write_n(1, 2, IBV_SEND_SIGNALED);
	assert_int_equal(post_recv(1), 0);
	assert_int_equal(post_recv(2), 0);
	vf_run_silently(&qp, 1);
	vf_modify(&qp, IBV_QPS_ERR);
	assert_int_equal(vf_run(&qp, 1), 0);
	assert_int_equal(vf_ack(&qp, 2), 1);
	assert_true(vf_receive(&qp, IBV_WC_RECV, 0, 8, NULL));
	vf_tick(&dev);
	assert_false(vf_receive(&qp, IBV_WC_RECV, 0, 8, NULL));
	assert_string_equal(polled(&scq), "1 2F");
	assert_string_equal(polled(&rcq), "1 2F");
}

/* -- what it trips over ----------------------------------------------------------------------- */

static void trips(void (*act)(void))
{
	int status;
	pid_t child = test_fork();

	assert_true(child >= 0);
	if (!child) {
		signal(SIGABRT, SIG_DFL); /* cmocka's would report it as the test's */
		fclose(stderr);
		act();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void run_with_keys(uint32_t lkey, uint32_t rkey)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(1, 0, &sge), *bad;

	sge.lkey = lkey;
	wr.wr.rdma.rkey = rkey;
	(void)ibv_post_send(vf_ibv(&qp), &wr, &bad);
	vf_run(&qp, 1);
}

static void local_key_of_another_nic(void)
{
	run_with_keys(vf_lkey(16), vf_key_on(vf_rkey(16), 3));
}

static void remote_key_of_another_path(void)
{
	run_with_keys(vf_key_on(vf_lkey(16), 2), vf_key_on(vf_rkey(16), 2));
}

static void key_of_before_the_turn(void)
{
	uint32_t lkey = vf_key_on(vf_lkey(16), 2);

	vf_keys_turn = 1;
	run_with_keys(lkey, vf_key_on(vf_rkey(16), 3));
}

static void receive_with_another_key(void)
{
	(void)post_recv(1);
	(void)vf_receive(&qp, IBV_WC_RECV, 0, 8, NULL);
}

static void write_without_the_right(void)
{
	qp.no_remote_write = true;
	run_with_keys(vf_key_on(vf_lkey(16), 2), vf_key_on(vf_rkey(16), 3));
}

static void foreign_keys_trip(void **state)
{
	make_of(2, 0, false, &geometry);
	qp.path = 3;
	run_with_keys(vf_key_on(vf_lkey(16), 2), vf_key_on(vf_rkey(16), 3));
	assert_int_equal(vf_log.n, 1);
	trips(local_key_of_another_nic);
	trips(remote_key_of_another_path);
	trips(key_of_before_the_turn);
	trips(receive_with_another_key);
	trips(write_without_the_right);
}

static void a_cycle(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr a = write_wr(1, 0, &sge), b = a, *bad;

	a.next = &b;
	b.next = &a;
	(void)ibv_post_send(vf_ibv(&qp), &a, &bad);
}

static void one_too_many(void)
{
	for (int i = 0; i <= SENDS; i++)
		(void)post_write(1, 0);
}

static void one_receive_too_many(void)
{
	for (int i = 0; i <= RECVS; i++)
		(void)post_recv(1);
}

static void an_overrun(void)
{
	struct vf_cq tiny;
	struct vf_qp other;

	vf_cq_make(&dev, &tiny, 2, 0);
	vf_qp_make(&dev, &other, &tiny, &tiny, NULL, &all_signaled);
	vf_ibv(&qp)->send_cq = vf_ibv_cq(&tiny);
	for (int i = 0; i < 3; i++)
		(void)post_write(1, IBV_SEND_SIGNALED);
	vf_run(&qp, 3);
}

static void a_reader_outside(void)
{
	(void)ibv_wc_read_opcode(&scq.ex);
}

static void a_poll_within_a_poll(void)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc;

	(void)post_write(1, IBV_SEND_SIGNALED);
	vf_run(&qp, 1);
	(void)ibv_start_poll(&scq.ex, &attr);
	(void)ibv_poll_cq(vf_ibv_cq(&scq), 1, &wc);
}

static void a_builder_outside(void)
{
	ibv_wr_send(&qp.ex);
}

static void *poster(void *arg)
{
	for (;;)
		(void)post_write(1, 0);
	return NULL;
}

/* Until they meet: the device's lock is held by one while the other is before it. */
static void two_threads(void)
{
	pthread_t other;

	pthread_create(&other, NULL, poster, NULL);
	(void)poster(NULL);
}

static void misuse_trips(void **state)
{
	make(VF_TAKES_MORE);
	trips(one_too_many);
	trips(one_receive_too_many);
	trips(a_cycle);
	trips(an_overrun);
	trips(a_reader_outside);
	trips(a_poll_within_a_poll);
	trips(a_builder_outside);
	unmake(NULL);
	make(0);
	trips(two_threads);
}

/* -- all knobs together ----------------------------------------------------------------------- */

static void end_of_a_queue(uint64_t *seed)
{
	uint32_t how = random_below(seed, 3);

	if (how != 1)
		vf_die(&qp, IBV_WC_RETRY_EXC_ERR);
	if (how)
		vf_modify(&qp, IBV_QPS_ERR);
	vf_modify(&qp, IBV_QPS_ERR);
}

/* Whatever the knobs: at most one completion each, in order, errors at the end, each signaled or
 * not acknowledged one among them. */
static void one_of_all(uint32_t knobs, uint64_t *seed)
{
	uint32_t n = random_below(seed, SENDS + 1), acked, last = 0, seen = 0, i;
	bool signaled[SENDS + 1] = { false }, came[SENDS + 1] = { false }, bad = false;
	struct ibv_wc wc;

	make(knobs);
	for (i = 1; i <= n; i++) {
		signaled[i] = random_below(seed, 2);
		assert_int_equal(post_write(i, signaled[i] ? IBV_SEND_SIGNALED : 0), 0);
	}
	acked = vf_run(&qp, random_below(seed, SENDS + 1));
	vf_run_silently(&qp, random_below(seed, SENDS));
	end_of_a_queue(seed);
	for (i = 0; i < 40; i++) {
		if (ibv_poll_cq(vf_ibv_cq(&scq), 1, &wc) != 1)
			continue;
		assert_true(wc.wr_id > last && wc.wr_id <= n);
		assert_true(wc.status != IBV_WC_SUCCESS || !bad);
		bad |= wc.status != IBV_WC_SUCCESS;
		last = wc.wr_id;
		came[last] = true;
		seen++;
	}
	for (i = 1; i <= n; i++)
		assert_true(came[i] || (i <= acked && !signaled[i]));
	assert_true(!(knobs & VF_REFUSES_IN_ERR) || post_write(99, 0) == EINVAL);
	assert_true(seen <= n);
	unmake(NULL);
}

static void every_set_of_knobs(void **state)
{
	uint64_t seed = random_seed("fake_test");

	for (int round = 0; round < 20; round++)
		for (uint32_t knobs = 0; knobs < 1u << VF_KNOBS; knobs++)
			one_of_all(knobs, &seed);
	make(0);
}

#define CASE(f) cmocka_unit_test_teardown(f, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(completes_in_order),
		CASE(places_are_free_once_polled),
		CASE(bad_wr_is_the_first_not_taken),
		CASE(inline_data_is_that_of_the_post),
		CASE(flushes_what_is_not_acknowledged),
		CASE(late_answers_acknowledge),
		CASE(receives_in_order_and_flushed),
		CASE(reset_empties),
		CASE(shared_receives_are_freed_by_polls),
		CASE(a_thief_takes_from_its_own_queue),
		CASE(events_of_armed_queues),
		CASE(what_is_gone_says_nothing),
		CASE(who_comes_back_tells_what_was_under_way),
		CASE(lost_completions_leave_no_trace),
		CASE(built_requests),
		CASE(plain_devices_have_none),
		CASE(some_refuse_in_err),
		CASE(refusing_ones_know_the_place_of_a_failure),
		CASE(some_report_acknowledged_ones),
		CASE(some_have_one_status_for_link_and_request),
		CASE(others_give_up_retrying),
		CASE(some_never_flush_a_late_receive),
		CASE(some_refuse_a_late_receive),
		CASE(some_look_at_the_state_word),
		CASE(some_raise_no_event),
		CASE(some_flush_in_the_poll),
		CASE(some_are_late),
		CASE(what_had_come_counts_though_the_flush_is_late),
		CASE(foreign_keys_trip),
		CASE(misuse_trips),
		CASE(every_set_of_knobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
