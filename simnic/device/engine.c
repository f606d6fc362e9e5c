/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device: one per process that opened a NIC. It is a process beside that (apart.h), or else a
 * thread. It polls doorbell registers, the inbox and timers in batches under the device lock and
 * naps in between; it never spins. The nap is short after activity, grows when idle, and is
 * unbounded while no QP could be rung.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "simnic/device/apart.h"
#include "simnic/device/completer.h"
#include "simnic/device/copy.h"
#include "simnic/device/count.h"
#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/clock.h"
#include "simnic/device/engine.h"
#include "simnic/device/ether.h"
#include "simnic/device/posted.h"
#include "simnic/device/qp.h"
#include "simnic/device/requester.h"
#include "simnic/device/responder.h"
#include "simnic/device/stage.h"
#include "simnic/device/uar.h"
#include "simnic/device/ud.h"
#include "simnic/fabric/fault.h"
#include "simnic/fabric/held.h"
#include "simnic/fabric/inbox.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"
#include "simnic/fabric/path.h"
#include "simnic/fabric/proc.h"

#define NAP_BUSY_NS	  15000
#define NAP_IDLE_NS	  100000
#define NAP_BLOCKED_NS	  50000000 /* nothing can be rung; the inbox and kicks wake us */
#define BUSY_FOR_NS	  300000   /* stays at the short nap this long after the last work */
#define SLEEPING_FROM_NS  30000	   /* longer naps are cut short by a sender's futex wake */
#define DEAD_EACH_NS	  40000 /* a look at a QP in the error state costs up to a fortieth of it */
#define INBOX_BATCH	  64
#define BATCHES_PER_ROUND 16 /* before the lock is offered to commands */
#define REPORTS_MAX	  20
#define DEVICE_NICE	  (-10)

struct sn_engine sn_engine;

uint64_t sn_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

void sn_protocol_error(const char *what, uint32_t qpn, uint64_t seen, uint64_t expected)
{
	uint64_t nth = atomic_fetch_add(&sn_engine.protocol_errors, 1) + 1;

	if (nth <= REPORTS_MAX)
		fprintf(stderr,
			"simnic: PROTOCOL ERROR %llu: %s (QP 0x%x: 0x%llx, expected 0x%llx)\n",
			(unsigned long long)nth, what, qpn, (unsigned long long)seen,
			(unsigned long long)expected);
}

/* ---- one batch ------------------------------------------------------------------------------ */

static bool engine_pkt_arrives(const struct sn_pkt *pkt)
{
	if (pkt->flags & SN_PKT_F_LATE)
		return sn_path_open_late(sn_engine.fabric, pkt);
	return (pkt->flags & SN_PKT_F_CUT) ||
	       sn_path_open(sn_engine.fabric, pkt->src_host, pkt->src_nic, pkt->dst_host,
			    pkt->dst_nic, pkt->op);
}

/* IBA 9.6.1.1.3: else it is dropped, and nobody is told. */
static bool engine_pkt_permitted(const struct sn_qp *qp, const struct sn_pkt *pkt)
{
	return sn_nic_quirk(qp->dev->nic, SN_QUIRK_PKEY_IGNORED) ||
	       sn_pkey_match(pkt->service.pkey,
			     atomic_load_explicit(&qp->dev->nic->tenant.pkey[qp->pkey_index],
						  memory_order_relaxed));
}

static void engine_guest_receive(const struct sn_pkt *pkt)
{
	struct sn_nic *nic = &sn_engine.fabric->nic[sn_engine.host][pkt->dst_nic];

	if (pkt->dst_host != sn_engine.host || !sn_engine.guest || !engine_pkt_arrives(pkt))
		return;
	sn_count(&nic->count.hw.rx_packets, 1);
	sn_engine.guest->receive(pkt);
}

static void engine_dispatch_qp(struct sn_pkt *pkt)
{
	/*
	 * A packet that no process owns is taken by any, and is lost, even if a queue pair has the
	 * same number here.
	 */
	struct sn_qp *qp =
		pkt->dst_host == sn_engine.host ? sn_qp_find(pkt->dst_nic, pkt->dst_qpn) : NULL;
	bool arrives = engine_pkt_arrives(pkt) || sn_psn_cut_short(pkt);

	if (!qp || !arrives || sn_dev_stands_still(qp->dev)) {
		sn_stage_release(pkt);
		return;
	}
	if (!engine_pkt_permitted(qp, pkt)) {
		sn_count(&qp->dev->nic->count.pkey_violations, 1);
		sn_stage_release(pkt);
		return;
	}
	sn_count(&qp->dev->nic->count.rx_messages, 1);
	sn_count(&qp->dev->nic->count.hw.rx_packets, sn_count_packets(qp, pkt));
	if (pkt->op == SN_PKT_UD)
		sn_ud_receive(qp, pkt);
	else if (pkt->op >= SN_PKT_ACK)
		sn_completer_receive(qp, pkt);
	else
		sn_responder_receive(qp, pkt);
	sn_stage_release(pkt);
}

static void engine_dispatch_frame(struct sn_pkt *pkt)
{
	if (pkt->dst_host == sn_engine.host && engine_pkt_arrives(pkt))
		sn_ether_receive(pkt);
	sn_stage_release(pkt);
}

static void engine_dispatch(struct sn_pkt *pkt)
{
	if (pkt->op == SN_PKT_CM)
		engine_guest_receive(pkt);
	else if (pkt->op == SN_PKT_FRAME)
		engine_dispatch_frame(pkt);
	else
		engine_dispatch_qp(pkt);
}

static bool engine_inbox(void)
{
	int n;

	for (n = 0; n < INBOX_BATCH && sn_inbox_pop(sn_engine.proc, &sn_engine.rx); n++)
		engine_dispatch(&sn_engine.rx);
	return n > 0;
}

/* Late packets come out of the fabric itself: whoever sent them may be gone. */
static bool engine_late(void)
{
	struct sn_pkt *pkt = &sn_engine.rx;
	struct sn_held *held;
	int n;

	for (n = 0; n < SN_MAX_HELD; n++) {
		held = sn_held_take(sn_engine.fabric, sn_engine.slot);
		if (!held)
			break;
		memcpy(pkt, &held->pkt, sizeof(*pkt));
		pkt->bounce = pkt->bounce ? (uint64_t)held->payload : 0;
		sn_count(&sn_engine.fabric->nic[pkt->dst_host][pkt->dst_nic].count.late, 1);
		engine_dispatch(pkt);
		sn_held_free(held);
	}
	return n > 0;
}

/* Dispatches packets that have come to the end of a long cable. */
static bool engine_lines(void)
{
	struct sn_fabric *f = sn_engine.fabric;
	struct sn_pkt *pkt = &sn_engine.rx;
	struct sn_line_slot *slot;
	struct sn_line *line;
	int n;

	for (n = 0; n < INBOX_BATCH; n++) {
		slot = sn_line_take(f, sn_engine.slot, sn_engine.now_ns, &line);
		if (!slot)
			break;
		memcpy(pkt, &slot->pkt, sizeof(*pkt));
		pkt->bounce = pkt->bounce ? (uint64_t)slot->payload : 0;
		if (atomic_load(&slot->ready)) /* else who sent it has died */
			engine_dispatch(pkt);
		sn_line_free(f, line, slot, sn_engine.slot);
	}
	return n > 0;
}

static bool engine_run_qp(struct sn_qp *qp)
{
	bool worked = false;

	if (sn_dev_stands_still(qp->dev))
		return false;
	worked |= sn_responder_run(qp);
	worked |= sn_requester_run(qp);
	worked |= sn_requester_timers(qp);
	worked |= sn_qp_flush_posted(qp);
	return worked;
}

/* Puts the queue pair to rest until an answer. Its own timer may be due before all others. */
static void engine_await(struct sn_qp *qp)
{
	sn_qp_unset(qp, SN_BUSY);
	sn_qp_set(qp, SN_WAITING);
	if (qp->req.rto_ns && (!sn_engine.waiting_at || qp->req.rto_ns < sn_engine.waiting_at))
		sn_engine.waiting_at = qp->req.rto_ns;
}

/*
 * Moves the queue pair to the caller's list of those that had their turn, which comes behind those
 * that had none. Otherwise, where a line is full, the first that ask get all of it.
 */
static void engine_had_its_turn(struct sn_qp *qp, struct sn_qp **served)
{
	struct sn_place *place = &qp->in[SN_BUSY];

	*place->link = place->next;
	if (place->next)
		place->next->in[SN_BUSY].link = place->link;
	*place = (struct sn_place){ .next = *served, .link = served };
	if (*served)
		(*served)->in[SN_BUSY].link = &place->next;
	*served = qp;
}

static void engine_append(struct sn_qp *served)
{
	struct sn_qp **end = &sn_engine.list[SN_BUSY];

	if (!served)
		return;
	while (*end)
		end = &(*end)->in[SN_BUSY].next;
	*end = served;
	served->in[SN_BUSY].link = end;
}

static bool engine_busy_qps(void)
{
	struct sn_qp *qp, *next, *served = NULL;
	bool worked = false, ran;

	for (qp = sn_engine.list[SN_BUSY]; qp; qp = next) {
		ran = engine_run_qp(qp);
		worked |= ran;
		next = qp->in[SN_BUSY].next;
		if (ran)
			engine_had_its_turn(qp, &served);
		if (!ran && sn_qp_waits(qp)) {
			engine_await(qp);
			continue;
		}
		if (sn_qp_needs_work(qp) || (ran && qp->state == IBV_QPS_ERR))
			continue;
		sn_qp_unset(qp, SN_BUSY);
		if (qp->state == IBV_QPS_ERR)
			sn_qp_set(qp, SN_DEAD);
	}
	engine_append(served);
	return worked;
}

/* Thousands may wait for answers that do not come: nobody looks at them before a timer is due. */
static void engine_waiting_qps(void)
{
	struct sn_qp *qp, *next;

	if (!sn_engine.waiting_at || sn_engine.now_ns < sn_engine.waiting_at)
		return;
	sn_engine.waiting_at = 0;
	for (qp = sn_engine.list[SN_WAITING]; qp; qp = next) {
		next = qp->in[SN_WAITING].next;
		if (qp->in[SN_BUSY].link || !sn_qp_waits(qp)) {
			sn_qp_unset(qp, SN_WAITING); /* an answer came, or an end */
			continue;
		}
		if (qp->req.rto_ns && qp->req.rto_ns <= sn_engine.now_ns)
			sn_qp_set_busy(qp);
		else
			engine_await(qp);
	}
}

/*
 * Flushes receives that are posted to a QP in the error state, as they ring nobody. Thousands of
 * such QPs are looked at ever less often: a NIC that moves all its connections has them.
 */
static bool engine_dead_qps(void)
{
	struct sn_qp *qp, *next;
	bool worked = false;

	if (!sn_engine.list[SN_DEAD] || sn_engine.now_ns < sn_engine.dead_at)
		return false;
	for (qp = sn_engine.list[SN_DEAD]; qp; qp = next) {
		next = qp->in[SN_DEAD].next;
		if (qp->state != IBV_QPS_ERR || qp->in[SN_BUSY].link) {
			sn_qp_unset(qp, SN_DEAD);
		} else if (!sn_dev_stands_still(qp->dev) && sn_qp_flush_posted(qp)) {
			sn_qp_set_busy(qp);
			worked = true;
		}
	}
	sn_engine.dead_at = sn_engine.now_ns + sn_engine.n_dead * DEAD_EACH_NS;
	return worked;
}

bool sn_engine_batch(void)
{
	bool worked = false;
	struct sn_dev *dev;

	sn_engine.now_ns = sn_clock_ns();
	if (atomic_load_explicit(&sn_engine.fabric->faults_armed, memory_order_relaxed))
		sn_fault_poll(sn_engine.fabric, sn_engine.now_ns);
	for (dev = sn_engine.devs; dev; dev = dev->next) {
		if (dev->clock.reg || dev->clock.info)
			sn_dev_clock_tick(dev);
		sn_dev_raise_events(dev);
	}
	if (sn_engine.frozen)
		return false;
	worked |= engine_inbox();
	worked |= engine_late();
	worked |= engine_lines();
	for (dev = sn_engine.devs; dev; dev = dev->next)
		sn_uar_scan(dev, &worked);
	engine_waiting_qps();
	worked |= engine_busy_qps();
	worked |= engine_dead_qps();
	worked |= sn_ether_run();
	worked |= sn_posted_run();
	worked |= sn_atomic_run();
	if (sn_engine.guest)
		worked |= sn_engine.guest->run(sn_engine.now_ns);
	return worked;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static uint64_t nap_by_activity(uint64_t idle)
{
	if (!sn_engine.devs || sn_engine.frozen ||
	    (!sn_engine.n_active && !sn_engine.list[SN_BUSY]))
		return NAP_BLOCKED_NS;
	if (idle < BUSY_FOR_NS)
		return NAP_BUSY_NS;
	return idle / 16 < NAP_IDLE_NS ? idle / 16 : NAP_IDLE_NS;
}

/* A fault that is scheduled by time has to be fired by somebody. */
static uint64_t engine_nap_ns(uint64_t idle_since)
{
	uint64_t nap = nap_by_activity(sn_engine.now_ns - idle_since);
	uint64_t due = sn_fault_next_ns(sn_engine.fabric), posted = sn_posted_next_ns();
	uint64_t turn = sn_dev_next_turn_ns(), atomic = sn_atomic_next_ns();
	uint64_t ether = sn_ether_next_ns();
	uint64_t line = sn_line_next_ns(sn_engine.fabric), waiting = sn_engine.waiting_at;
	uint64_t guest = sn_engine.guest ? sn_engine.guest->next_ns() : UINT64_MAX;

	due = line < due ? line : due;
	due = guest < due ? guest : due;
	due = posted < due ? posted : due;
	due = ether < due ? ether : due;
	due = turn < due ? turn : due;
	due = atomic < due ? atomic : due;
	due = waiting && waiting < due ? waiting : due;
	if (due > sn_engine.now_ns && due - sn_engine.now_ns < nap)
		nap = due - sn_engine.now_ns;
	return nap;
}

/*
 * A long nap is announced in proc.sleeping, so that a sender cuts it short; the inbox is looked at
 * again in between, as the inbox's owner has to (see sn_proc_sleep). seen: proc.wake while the lock
 * was held, so that what a command or a trapped doorbell brought since then ends the nap.
 */
static void engine_nap(uint64_t nap_ns, uint32_t seen)
{
	struct sn_proc *proc = sn_engine.proc;

	if (nap_ns >= SLEEPING_FROM_NS)
		atomic_store(&proc->sleeping, 1);
	if (sn_engine.frozen || sn_inbox_empty(proc))
		sn_proc_sleep(proc, seen, nap_ns);
	atomic_store(&proc->sleeping, 0);
}

static bool engine_round(void)
{
	bool worked = false;
	int i;

	for (i = 0; i < BATCHES_PER_ROUND; i++) {
		if (!sn_engine_batch())
			break;
		worked = true;
	}
	return worked;
}

/*
 * Hides DMA from ThreadSanitizer. The thread's accesses to the application's memory are ordered by
 * doorbells and owner bits that libmlx5 handles uninstrumented: all of it would count as races.
 */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);

static void engine_hide_dma(void)
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
#else
static void engine_hide_dma(void)
{
}
#endif

/*
 * Puts the device ahead of programs that poll, but never to their exclusion. Real-time device
 * threads of a few processes, each napping for microseconds, left the programs of two cores no
 * time to give them work.
 */
static void engine_become_device(void)
{
	pthread_setname_np(pthread_self(), "simnic");
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	if (sn_engine.in_program)
		return;
	/* Not permitted: naps then take what the scheduler gives, which is only slower. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), DEVICE_NICE);
}

static void engine_main(void *arg)
{
	uint64_t idle_since = 0, nap_ns;
	uint32_t seen;

	sn_proc_device_begins(sn_engine.proc);
	sem_post(arg);
	engine_become_device();
	engine_hide_dma();
	for (;;) {
		sn_lock();
		if (engine_round())
			idle_since = sn_engine.now_ns;
		nap_ns = engine_nap_ns(idle_since);
		seen = atomic_load(&sn_engine.proc->wake);
		sn_unlock();
		engine_nap(nap_ns, seen);
	}
}

/* The device as a process: its signal handlers are not the program's. */
static void engine_apart(void *arg)
{
	sn_copy_guard();
	engine_main(arg);
}

/* A thread of the program, which is the device only where that cannot be a process of its own. */
static void *engine_thread(void *arg)
{
	bool apart = !sn_engine.in_program && sn_apart_wanted();
	int err = apart ? sn_apart_run(engine_apart, arg) : 0;

	if (err)
		fprintf(stderr,
			"simnic: the NIC has no process of its own (%s), and stops with its "
			"program\n",
			strerror(-err));
	engine_main(arg);
	return NULL;
}

/* A command gave the thread something to look at: new work, a new reason to nap shorter. */
void sn_engine_kick(void)
{
	if (sn_engine.running)
		sn_proc_wake(sn_engine.fabric, sn_engine.slot);
}

/*
 * Signals are for the program's own threads; but for a guest's memory that is out of reach, whose
 * handler runs in the thread that met it.
 */
static void engine_signals(sigset_t *blocked)
{
	sigfillset(blocked);
	if (sn_engine.in_program)
		sigdelset(blocked, SIGSEGV);
}

/* Returns when it runs: its program may be halted at once. */
static int engine_start_thread(void)
{
	sigset_t all, old;
	sem_t runs;
	pthread_t thread;
	int rc;

	sem_init(&runs, 0, 0);
	engine_signals(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, engine_thread, &runs);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return -rc;
	pthread_detach(thread);
	while (sem_wait(&runs))
		;
	sn_engine.running = true;
	return 0;
}

int sn_device_take_guest(const struct sn_device_guest *guest, uint32_t *slot)
{
	int rc = 0;

	sn_lock();
	if (!sn_engine.attached)
		rc = -ENODEV;
	else if (!sn_engine.running)
		rc = engine_start_thread();
	if (!rc) {
		sn_engine.guest = guest;
		*slot = sn_engine.slot;
	}
	sn_unlock();
	return rc;
}

int sn_engine_serve(uint32_t nic)
{
	struct sn_qp ***table = &sn_engine.qp_table[nic];

	if (!*table)
		*table = calloc(SN_QPN_MAX, sizeof(**table));
	if (!*table)
		return -ENOMEM;
	return sn_engine.running ? 0 : engine_start_thread();
}

/* ---- life cycle ----------------------------------------------------------------------------- */

int sn_device_start(struct sn_fabric *fabric, uint32_t host)
{
	int slot = 0;

	sn_lock();
	if (!sn_engine.attached) {
		slot = sn_proc_attach(fabric, host);
		if (slot >= 0) {
			sn_engine.fabric = fabric;
			sn_engine.host = host;
			sn_engine.slot = (uint32_t)slot;
			sn_engine.proc = &fabric->proc[slot];
			sn_engine.frozen = getenv("SIMNIC_FREEZE") != NULL;
			sn_engine.attached = true;
			/* Peers read payload with process_vm_readv, which Yama would refuse. */
			prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		}
	}
	sn_unlock();
	return slot < 0 ? slot : 0;
}

/*
 * Called in the child: the parent's thread does not exist here, and its objects are the parent's.
 */
void sn_device_forget_after_fork(void)
{
	memset(&sn_engine, 0, sizeof(sn_engine));
	sn_lock_forget();
}
