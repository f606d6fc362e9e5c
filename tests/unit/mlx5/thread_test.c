/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Posters, pollers, who arms, the NIC and the shell at once, with fences and moves in between: for
 * ThreadSanitizer, and to see that order and count survive real interleavings. Every fourth request
 * is signaled.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/mlx5_rig.h"

enum {
	REQUESTS = 20000,
	MOVES = 40,
};

static struct rig *rig;
static pthread_mutex_t nic = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool stop;
static _Atomic uint64_t polled;

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void *post_sends(void *arg)
{
	for (uint64_t id = 1; id <= REQUESTS;) {
		if (rig_send(rig, IBV_WR_RDMA_WRITE, id, id % 4 ? 0 : IBV_SEND_SIGNALED,
			     1 + id % 3))
			sched_yield();
		else
			id++;
	}
	return NULL;
}

static void *post_recvs(void *arg)
{
	for (uint64_t id = 1; !stop;) {
		if (rig_recv(rig, id * 16, 2))
			sched_yield();
		else
			id++;
	}
	return NULL;
}

static void *poll_sends(void *arg)
{
	struct ibv_wc wc[16];
	uint64_t next = 1;
	int n;

	while (next <= REQUESTS) {
		n = rig_poll(rig, true, wc, 16);
		for (int i = 0; i < n; i++) {
			MUST(wc[i].status == IBV_WC_SUCCESS);
			MUST(wc[i].wr_id == next + 3);
			next += 4;
		}
		polled = next - 1;
		if (!n)
			sched_yield();
	}
	return NULL;
}

static void *poll_recvs(void *arg)
{
	struct ibv_wc wc[16];
	uint64_t next = 1;
	int n;

	while (!stop) {
		n = rig_poll(rig, false, wc, 16);
		for (int i = 0; i < n; i++) {
			MUST(wc[i].status == IBV_WC_SUCCESS);
			MUST(wc[i].wr_id == next++ * 16);
		}
		if (!n)
			sched_yield();
	}
	return NULL;
}

static void *run_nic(void *arg)
{
	while (!stop) {
		pthread_mutex_lock(&nic);
		fake_run(rig_active(rig), 5);
		fake_log.n = 0;
		fake_receive(rig_active(rig), MLX5_CQE_RESP_SEND, NULL, 8);
		pthread_mutex_unlock(&nic);
		sched_yield();
	}
	return NULL;
}

/* And reads events, which may be of any ring. */
static void *arm(void *arg)
{
	for (uint32_t i = 0; !stop; i++) {
		struct rig_nic *on = &rig->nics[i % RIG_NICS];

		MUST(!ibv_req_notify_cq(fake_ibv_cq(&rig->scq), i % 2));
		MUST(!ibv_req_notify_cq(fake_ibv_cq(&rig->rcq), i % 3 == 0));
		ENGINE->cq.event_read(i % 4 ? ENGINE->cq.own_ring(rig->sp_scq) : on->ring_s);
		ENGINE->cq.event_read(i % 4 ? on->ring_r : ENGINE->cq.own_ring(rig->sp_rcq));
		sched_yield();
	}
	return NULL;
}

static void drain(void)
{
	MUST(!ENGINE->cq.collect(rig->sp_scq));
	MUST(!ENGINE->cq.collect(rig->sp_rcq));
}

static uint32_t decide(enum sp_fate *fates)
{
	struct sp_request info[256];
	uint32_t n = ENGINE->move.outstanding(rig->sp, info, 256), i;

	for (i = 0; i < n && info[i].published; i++)
		fates[i] = SP_FATE_RESEND;
	return i;
}

static void loopback_all(void)
{
	struct sp_flushed flushed;

	do {
		pthread_mutex_lock(&nic);
		fake_flush(rig_active(rig), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		pthread_mutex_unlock(&nic);
		drain();
		ENGINE->move.flushed(rig->sp, true, &flushed);
	} while (!flushed.sq || !flushed.rq);
}

static void move(uint32_t nic_number)
{
	uint32_t to = rig_standby_on(rig, nic_number, &rig->geometry), old = rig->active, n;
	enum sp_fate fates[256];
	struct sp_settled settled;

	MUST(to);
	ENGINE->move.withhold(rig->sp);
	loopback_all();
	ENGINE->move.seal(rig->sp);
	MUST(!ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp));
	n = decide(fates);
	pthread_mutex_lock(&nic);
	MUST(!ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled));
	rig->active = to;
	pthread_mutex_unlock(&nic);
	if (old)
		rig_drop(rig, old);
}

/* Fence, and go back: at once, or when nothing is outstanding any more. False: it did go on. */
static bool fence_and_resume(int i)
{
	bool atomics;
	int err;

	err = ENGINE->move.fence(rig->sp, &atomics);
	while (err == -EAGAIN || (i % 4 && !ENGINE->move.fenced(rig->sp))) {
		drain();
		sched_yield();
		if (err)
			err = ENGINE->move.fence(rig->sp, &atomics);
	}
	MUST(!err);
	if (i % 4 == 2)
		return false;
	err = ENGINE->move.resume(rig->sp);
	while (err == -EAGAIN && i % 2) {
		sched_yield();
		err = ENGINE->move.publish(rig->sp);
	}
	return true;
}

static void *be_shell(void *arg)
{
	ENGINE->qp.guard(rig->sp, true);
	for (int i = 0; i < MOVES; i++) {
		uint64_t mark = (uint64_t)REQUESTS * i / (MOVES + 1);
		uint32_t posted, done;
		struct sp_sent sent;
		bool intruder;

		while (polled < mark) {
			ENGINE->cq.error_waiting(rig->sp_scq);
			ENGINE->qp.send_counts(rig->sp, &posted, &done);
			ENGINE->qp.sending(rig->sp, &posted);
			ENGINE->qp.sent(rig->sp, &sent);
			ENGINE->qp.progressed(rig->sp);
			MUST(!ENGINE->qp.reason(rig->sp, &intruder));
			ENGINE->keys_changed();
			drain();
			sched_yield();
		}
		if (fence_and_resume(i) && i % 3 == 0)
			fence_and_resume(1);
		move(i % RIG_NICS);
	}
	return NULL;
}

static void run_all(bool cq_ex)
{
	static const struct fake_geometry g = { 64, 32, 2, 32, 4, false };
	void *(*roles[])(void *) = { post_sends, poll_sends, be_shell, post_recvs,
				     poll_recvs, run_nic,    arm,      arm };
	enum { ROLES = sizeof(roles) / sizeof(roles[0]) };
	pthread_t threads[ROLES];

	rig = rig_new(&g, 64, cq_ex);
	stop = false;
	polled = 0;
	for (int i = 0; i < ROLES; i++)
		MUST(!pthread_create(&threads[i], NULL, roles[i], NULL));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	stop = true;
	for (int i = 3; i < ROLES; i++)
		pthread_join(threads[i], NULL);
	rig_delete(rig);
}

int main(void)
{
	run_all(false);
	run_all(true);
	return 0;
}
