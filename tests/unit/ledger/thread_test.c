/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Posters, pollers, who arms, the NICs and the shell at once, with fences, deaths and moves in between:
 * for ThreadSanitizer, and to see that order and count survive real interleavings. All requests are
 * SENDs, every fourth is signaled: each must run once, in order, whatever the NICs acknowledged.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/ledger/ledger.h"
#include "tests/lib/random.h"
#include "tests/lib/verbs_rig.h"

#define ENGINE (&shift_provider_ledger)

enum {
	REQUESTS = 10000,
	MOVES = 20,
	ROUNDS = 6,
	SIGNALED = 4, /* every fourth */
	OUTSTANDING = 64,
};

static struct vrig *rig;
static pthread_mutex_t nic = PTHREAD_MUTEX_INITIALIZER; /* rig.active, executed, vf_log */
static uint64_t executed;
static _Atomic bool stop;
static _Atomic uint64_t polled;
static uint64_t next_send, next_recv; /* of who polls for the one and for the other */
static uint32_t knobs;

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s; knobs %#x\n", __FILE__, __LINE__, #cond,       \
				knobs);                                                            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* -- the application -------------------------------------------------------------------------- */

static void *post_sends(void *arg)
{
	struct vr_request list[4];
	uint32_t n, i, taken;

	for (uint64_t id = 1; id <= REQUESTS; id += taken) {
		n = 1 + id % 4;
		if (id + n > REQUESTS + 1)
			n = (uint32_t)(REQUESTS + 1 - id);
		for (i = 0; i < n; i++)
			list[i] = (struct vr_request){ .id = id + i,
						       .op = IBV_WR_SEND,
						       .sges = 1 + (id + i) % 4,
						       .bytes = 8 };
		for (i = 0; i < n; i++)
			list[i].flags = (id + i) % SIGNALED ? 0 : IBV_SEND_SIGNALED;
		if (vrig_post(rig, list, n, id % 2, &taken))
			sched_yield();
	}
	return NULL;
}

static void *post_recvs(void *arg)
{
	static const uint32_t sges[] = { 1, 2 };
	uint32_t taken;

	for (uint64_t id = 1; !stop; id += taken)
		if (vrig_post_recv(rig, id, 2, sges, &taken))
			sched_yield();
	return NULL;
}

static void see(const struct ibv_wc *wc)
{
	bool recv = wc->wr_id >> 48 == VR_RECV_ID(0) >> 48;

	MUST(wc->status == IBV_WC_SUCCESS);
	MUST(wc->wr_id == (recv ? VR_RECV_ID(next_recv) : VR_WR_ID(next_send)));
	if (recv) {
		next_recv++;
		return;
	}
	next_send += SIGNALED;
	polled = next_send - SIGNALED;
}

static void poll(bool send, bool by_calls)
{
	struct ibv_wc wc[16];
	int n = vrig_poll(rig, send, by_calls, wc, 16);

	for (int i = 0; i < n; i++)
		see(&wc[i]);
	if (!n)
		sched_yield();
}

static void *poll_sends(void *arg)
{
	while (next_send <= REQUESTS)
		poll(true, next_send % 2);
	return NULL;
}

/* Of one queue for both directions, they come to who polls for sends. */
static void *poll_recvs(void *arg)
{
	while (!stop && !rig->setup.one_cq)
		poll(false, next_recv % 2);
	return NULL;
}

/* And reads events, which may be of any ring. */
static void *arm(void *arg)
{
	for (uint32_t i = 0; !stop; i++) {
		struct vr_nic *on = &rig->nics[i % VR_NICS];

		MUST(!ibv_req_notify_cq(vf_ibv_cq(&rig->scq), i % 2));
		if (!rig->setup.one_cq)
			MUST(!ibv_req_notify_cq(vf_ibv_cq(&rig->rcq), i % 3 == 0));
		ENGINE->cq.event_read(i % 4 ? ENGINE->cq.own_ring(rig->sp_scq) : on->ring_s);
		ENGINE->cq.event_read(i % 4 ? on->ring_r : ENGINE->cq.own_ring(rig->sp_rcq));
		sched_yield();
	}
	return NULL;
}

/* -- the NICs --------------------------------------------------------------------------------- */

static void account(void)
{
	for (uint32_t i = 0; i < vf_log.n; i++) {
		if (vf_log.done[i].opcode != IBV_WR_SEND)
			continue; /* the engine's own */
		MUST(vrig_id(&vf_log.done[i]) == executed + 1);
		executed++;
	}
	vf_log.n = vf_acks.n = 0;
}

static void *run_nic(void *arg)
{
	for (uint32_t i = 0; !stop; i++) {
		pthread_mutex_lock(&nic);
		if (i % 3)
			vf_run(vrig_active(rig), 5);
		else
			vf_run_silently(vrig_active(rig), 2);
		account();
		(void)vf_receive(vrig_active(rig), IBV_WC_RECV, 0, 8, NULL);
		pthread_mutex_unlock(&nic);
		sched_yield();
	}
	return NULL;
}

/* -- the shell -------------------------------------------------------------------------------- */

static void drain(void)
{
	MUST(!ENGINE->cq.collect(rig->sp_scq));
	MUST(!ENGINE->cq.collect(rig->sp_rcq));
}

/* All are two-sided: the count of those that are done tells which one is the oldest. */
static uint32_t decide(enum sp_fate *fates)
{
	struct sp_request info[OUTSTANDING];
	uint32_t n = ENGINE->move.outstanding(rig->sp, info, OUTSTANDING), posted, done, i;

	ENGINE->qp.send_counts(rig->sp, &posted, &done);
	MUST(n <= OUTSTANDING && done <= executed);
	for (i = 0; i < n && info[i].published; i++)
		fates[i] = done + i < executed ? SP_FATE_DELIVERED : SP_FATE_RESEND;
	MUST(done + i >= executed);
	return i;
}

static void quiesce(void)
{
	struct vr_carrier *c = &rig->carriers[rig->active];
	struct sp_flushed flushed;

	vf_modify(&c->qp, IBV_QPS_ERR);
	do {
		vf_tick(c->dev);
		drain();
		ENGINE->move.flushed(rig->sp, true, &flushed);
		sched_yield();
	} while (!flushed.sq || !flushed.rq);
	ENGINE->move.seal(rig->sp);
}

/* By itself: posters and pollers see it before the shell does. */
static void die(void)
{
	pthread_mutex_lock(&nic);
	vf_die(vrig_active(rig), IBV_WC_RETRY_EXC_ERR);
	pthread_mutex_unlock(&nic);
	for (int i = 0; i < 20; i++)
		sched_yield();
}

static void move(uint32_t to_nic)
{
	uint32_t to = vrig_standby(rig, to_nic, &rig->setup.app), old = rig->active, n;
	enum sp_fate fates[OUTSTANDING];
	struct sp_settled settled;

	MUST(to);
	ENGINE->move.withhold(rig->sp);
	quiesce();
	MUST(!ENGINE->move.lay_receives(rig->sp, rig->carriers[to].sp));
	pthread_mutex_lock(&nic);
	n = decide(fates);
	MUST(!ENGINE->move.settle(rig->sp, rig->carriers[to].sp, fates, n, &settled));
	rig->active = to;
	pthread_mutex_unlock(&nic);
	if (old)
		vrig_drop(rig, old);
}

/* Fence, and go back: at once, or when nothing is outstanding any more. False: it did go on. */
static bool fence_and_resume(uint32_t i)
{
	bool atomics;
	int err;

	err = ENGINE->move.fence(rig->sp, &atomics);
	while (err == -EAGAIN || (!err && i % 4 && !ENGINE->move.fenced(rig->sp))) {
		drain();
		sched_yield();
		if (err)
			err = ENGINE->move.fence(rig->sp, &atomics);
	}
	MUST(!err || err == -EOPNOTSUPP);
	if (i % 4 == 2)
		return false;
	err = ENGINE->move.resume(rig->sp);
	while (err == -EAGAIN) {
		sched_yield();
		err = ENGINE->move.publish(rig->sp);
	}
	MUST(!err);
	return true;
}

static void *be_shell(void *arg)
{
	uint32_t number;

	ENGINE->qp.guard(rig->sp, true);
	for (uint32_t i = 0; i < MOVES; i++) {
		while (polled < (uint64_t)REQUESTS * i / (MOVES + 1)) {
			(void)ENGINE->qp.sending(rig->sp, &number);
			(void)ENGINE->cq.error_waiting(rig->sp_scq);
			sched_yield();
		}
		if (i % 2 && fence_and_resume(i / 2))
			continue;
		if (i % 4 == 0)
			die();
		move(i % VR_NICS);
	}
	return NULL;
}

/* -- rounds ----------------------------------------------------------------------------------- */

static void run_all(void)
{
	void *(*const work[])(void *) = { post_sends, poll_sends, be_shell, post_recvs,
					  poll_recvs, run_nic,	  arm };
	enum { THREADS = sizeof(work) / sizeof(work[0]), ENDING = 3 };
	pthread_t threads[THREADS];

	stop = false;
	polled = executed = 0;
	next_send = SIGNALED;
	next_recv = 1;
	for (int i = 0; i < THREADS; i++)
		MUST(!pthread_create(&threads[i], NULL, work[i], NULL));
	for (int i = 0; i < THREADS; i++) {
		if (i == ENDING)
			stop = true; /* the first ones have an end of their own */
		MUST(!pthread_join(threads[i], NULL));
	}
	MUST(executed == REQUESTS);
}

int main(void)
{
	uint64_t seed = random_seed("thread_test");
	struct vr_setup setup;

	for (int round = 0; round < ROUNDS; round++) {
		memset(&setup, 0, sizeof(setup));
		setup.engine = ENGINE;
		setup.app = (struct vf_geometry){ 16, 16, 4, 2, 32, false, false };
		for (int i = 0; i <= VR_NICS; i++)
			setup.knobs[i] = random_below(&seed, 1 << VF_KNOBS);
		knobs = setup.knobs[VR_NICS];
		setup.cq_ex = round % 2;
		setup.one_cq = round % 3 == 2;
		rig = calloc(1, sizeof(*rig));
		vrig_make(rig, &setup);
		run_all();
		vrig_free(rig);
		free(rig);
	}
	return 0;
}
