/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The expected PSN of a responder against what its memory shows, over random faults. Two processes on two
 * hosts: one posts WRITEs, SENDs, READs and atomics of 0 bytes to 1 MiB, each packet of which carries its
 * number; a fault strikes somewhere; the other takes its queue pair to ERR, asks for rq_psn, and judges.
 * Prints its seed; argv[1] replays one (0: a new one), argv[2] is the number of faults, argv[3] a quirk of the
 * responder's NIC, "none" for none; argv[4], "link": over a long cable that loses packets.
 */
#include <endian.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simnic/device/engine.h"
#include "simnic/device/testing.h"
#include "simnic/fabric/inbox.h"
#include "simnic/fabric/line.h"
#include "tests/lib/simnic_ring.h"

#define OPS	  12
#define SLOT	  ((1u << 20) + 4096)
#define MOST	  (3u << 20) /* bytes of a round */
#define BEYOND	  64	     /* that must stay empty behind a message */
#define PSN_MASK  0xffffffu
#define MTU_BYTES (128u << plan.mtu)
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: round %u: %s\n", __FILE__, __LINE__, plan.round,   \
				#condition);                                                       \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* What the processes tell each other outside the fabric. */
struct meeting {
	_Atomic uint32_t hello, qpn[2]; /* hello: requesters that began */
	_Atomic int32_t pid;
	_Atomic uint32_t go, begun, finished, stop, done; /* each the round */
	_Atomic uint32_t
		killed; /* the round in which the requester dies: the next one leaves it out */
	_Atomic uint32_t good,
		syndrome; /* requests that completed; how the first other one ended */
	_Atomic uint32_t rkey;
	_Atomic uint64_t target, counter;
};

struct op {
	uint8_t opcode;
	uint32_t len, start, packets; /* start: packets of the round before it */
};

/* Both make it from the seed and the round. */
static struct {
	uint32_t round, n, packets, psn;
	uint8_t mtu;
	bool mended; /* the fault ends before the retries do: all must come */
	struct op op[OPS];
} plan;

static struct sn_fabric *fabric;
static struct sn_dev *dev;
static struct ring_cq cq;
static struct ring_qp qp;
static struct meeting *meet;
static uint32_t lkey, rkey;
static uint8_t *mem; /* a slot for each request, one for READs' source, one for words */
static uint64_t seed;

static struct {
	uint32_t inside, wrapped, complete, nothing, killed;
	struct sn_fault fault; /* of this round */
} seen;

static uint64_t mix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static uint32_t dice(uint64_t *state, uint32_t n)
{
	return (uint32_t)(mix(state) >> 32) % n;
}

static uint8_t *slot(uint32_t i)
{
	return mem + (size_t)i * SLOT;
}

static void nap(uint32_t us)
{
	struct timespec ts = { .tv_nsec = us * 1000L };

	nanosleep(&ts, NULL);
}

/* ---- what is posted ------------------------------------------------------------------------- */

static uint8_t random_opcode(uint64_t *rng)
{
	static const uint8_t opcodes[] = { MLX5_OPCODE_SEND, MLX5_OPCODE_SEND_IMM,
					   MLX5_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_RDMA_READ,
					   MLX5_OPCODE_ATOMIC_FA };
	uint32_t which = dice(rng, 2 * sizeof(opcodes));

	return which < sizeof(opcodes) ? opcodes[which] : MLX5_OPCODE_RDMA_WRITE;
}

static uint32_t random_len(uint64_t *rng, uint32_t left)
{
	static const uint32_t top[] = { 1, 9, 257, 321, 5000, 40000, 300000, (1 << 20) + 1 };
	uint32_t len = dice(rng, top[dice(rng, sizeof(top) / sizeof(top[0]))]);

	return len < left ? len : left;
}

static void plan_round(uint32_t round)
{
	uint64_t rng = seed ^ round * 0x2545f4914f6cdd1dULL;
	uint32_t left = MOST;

	memset(&plan, 0, sizeof(plan));
	plan.round = round;
	plan.mended = !dice(&rng, 6);
	plan.n = 1 + dice(&rng, OPS);
	plan.mtu = (uint8_t)(IBV_MTU_256 + dice(&rng, 5));
	plan.psn = (dice(&rng, 2) ? 0x1000000 - dice(&rng, 3000) : (uint32_t)mix(&rng)) & PSN_MASK;
	for (uint32_t i = 0; i < plan.n; i++) {
		struct op *op = &plan.op[i];

		op->opcode = random_opcode(&rng);
		op->len = op->opcode == MLX5_OPCODE_ATOMIC_FA ? 8 : random_len(&rng, left);
		op->start = plan.packets;
		/* Counted another way than the device counts. */
		for (uint32_t at = 0; op->packets == 0 || at < op->len; at += MTU_BYTES)
			op->packets++;
		left -= op->len;
		plan.packets += op->packets;
	}
}

/* Packet n of a request, as it lies in memory; its bytes. */
static uint32_t packet_make(uint8_t *at, const struct op *op, uint32_t n)
{
	uint32_t left = op->len - n * MTU_BYTES, bytes = left < MTU_BYTES ? left : MTU_BYTES;
	uint32_t number = htole32(op->start + n + 1);

	memset(at, 1 + (int)((op->start + n + plan.round) % 255), bytes);
	if (bytes >= sizeof(number))
		memcpy(at, &number, sizeof(number));
	return bytes;
}

static bool op_sends(const struct op *op)
{
	return op->opcode == MLX5_OPCODE_SEND || op->opcode == MLX5_OPCODE_SEND_IMM;
}

static bool op_receives(const struct op *op)
{
	return op_sends(op) || op->opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
}

/* ---- both ends ------------------------------------------------------------------------------ */

static void side_up(const char *name, uint32_t host)
{
	const struct ring_qp_options options = { .type = IBV_QPT_RC, .sig_all = true };
	const size_t bytes = (size_t)(OPS + 2) * SLOT;

	must(!sn_fabric_attach(name, &fabric));
	must(!sn_device_start(fabric, host));
	must(!sn_dev_open(0, &dev));
	ring_cq_make(dev, &cq, 64, false);
	ring_qp_make(dev, &qp, &cq, &cq, &options);
	mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(mem != MAP_FAILED);
	must(!sn_mr_reg(dev, 1, (uint64_t)mem, bytes, (uint64_t)mem, ACCESS, &lkey, &rkey));
	memset(slot(OPS), 0x5a, SLOT); /* what READs find */
}

static void side_connect(uint32_t host)
{
	const struct ring_qp_options options = {
		.type = IBV_QPT_RC,
		/* 67 ms, which outlasts all on a busy machine; 1 ms */
		.timeout = plan.mended ? 14 : 8,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 1,
		.mtu = plan.mtu,
		.psn = plan.psn ? plan.psn : PSN_MASK
	};

	plan.psn = options.psn;
	must(!ring_qp_to(&qp, IBV_QPS_RESET));
	ring_qp_connect(&qp, fabric->nic[!host][0].gid, atomic_load(&meet->qpn[!host]), &options);
}

/* ---- the requester -------------------------------------------------------------------------- */

static void ask_post(void)
{
	for (uint32_t i = 0; i < plan.n; i++) {
		const struct op *op = &plan.op[i];
		struct ring_wr wr = { .opcode = op->opcode,
				      .rkey = atomic_load(&meet->rkey),
				      .raddr = atomic_load(&meet->target) + (uint64_t)i * SLOT,
				      .swap_add = 1,
				      .n_sge = op->len ? 1 : 0,
				      .sge = { { slot(i), op->len, lkey } } };

		if (op->opcode == MLX5_OPCODE_RDMA_READ)
			wr.raddr = atomic_load(&meet->target) + (uint64_t)OPS * SLOT;
		if (op->opcode == MLX5_OPCODE_ATOMIC_FA)
			wr.raddr = atomic_load(&meet->counter);
		ring_post(&qp, &wr);
	}
}

static void ask_fill(void)
{
	for (uint32_t i = 0; i < plan.n; i++)
		for (uint32_t n = 0, at = 0; at < plan.op[i].len; n++)
			at += packet_make(slot(i) + at, &plan.op[i], n);
}

/* What has come back is right, too. */
static void ask_check(uint32_t i, uint32_t adds)
{
	const struct op *op = &plan.op[i];
	uint64_t old;

	memcpy(&old, slot(i), sizeof(old));
	must(op->opcode != MLX5_OPCODE_ATOMIC_FA || old == adds);
	must(op->opcode != MLX5_OPCODE_RDMA_READ || !op->len ||
	     !memcmp(slot(i), slot(OPS), op->len));
}

static void ask_round(uint32_t round)
{
	struct ib_uverbs_query_qp_resp now;
	uint32_t good = 0, all = 0, adds = 0;
	bool stopped = false;
	struct ring_wc wc;

	plan_round(round);
	ask_fill();
	side_connect(0);
	atomic_store(&meet->begun, round);
	ask_post();
	while (all < plan.n) {
		if (!stopped && atomic_load(&meet->stop) == round) {
			must(!ring_qp_to(&qp, IBV_QPS_ERR));
			stopped = true;
		}
		if (!ring_poll(&cq, &wc)) {
			nap(20);
			continue;
		}
		if (wc.opcode == MLX5_CQE_REQ) {
			must(good == all);
			ask_check(good++, adds);
			adds += plan.op[all].opcode == MLX5_OPCODE_ATOMIC_FA;
		} else if (all == good)
			atomic_store(&meet->syndrome, wc.syndrome);
		all++;
		atomic_store(&meet->good, good);
	}
	must(!sn_qp_query(qp.qp, &now));
	must(good < plan.n || now.sq_psn == ((plan.psn + plan.packets) & PSN_MASK));
	atomic_store(&meet->finished, round);
	while (atomic_load(&meet->stop) != round)
		nap(50);
	ring_qp_to(&qp, IBV_QPS_ERR);
	atomic_store(&meet->done, round);
}

static void ask(const char *name)
{
	uint32_t round = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	side_up(name, 0);
	atomic_store(&meet->qpn[0], qp.qpn);
	atomic_store(&meet->pid, getpid());
	atomic_fetch_add(&meet->hello, 1);
	for (;;) {
		while (atomic_load(&meet->go) == round)
			nap(50);
		round = atomic_load(&meet->go);
		if (round == UINT32_MAX)
			break;
		if (atomic_load(&meet->killed) != round)
			ask_round(round);
	}
	must(!simnic_test_protocol_errors());
	exit(0);
}

/* Requesters die: this process makes the next one, and has no threads. 0: the last one ended well. */
static int spawn_requesters(const char *name)
{
	int status = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	do {
		pid_t child = fork();

		if (!child)
			ask(name);
		waitpid(child, &status, 0);
	} while (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	atomic_store(&meet->pid, -1);
	return status ? 1 : 0;
}

/* ---- the judge ------------------------------------------------------------------------------ */

static bool is_empty(const uint8_t *at, uint32_t bytes)
{
	return !bytes || (!at[0] && !memcmp(at, at + 1, bytes - 1));
}

/* How many packets of a request lie in memory: the first ones, each whole, and nothing else. */
static uint32_t packets_in(uint32_t i)
{
	static uint8_t wanted[4096];
	const struct op *op = &plan.op[i];
	uint32_t at = 0, n = 0, bytes;

	for (; at < op->len; at += bytes, n++) {
		bytes = packet_make(wanted, op, n);
		if (memcmp(slot(i) + at, wanted, bytes))
			break;
	}
	must(is_empty(slot(i) + at, op->len - at + BEYOND));
	return n;
}

/* Of what leaves something in memory: packets that are there for certain, and those that are for certain not. */
static void witness(uint32_t *least, uint32_t *most)
{
	uint64_t adds = *(uint64_t *)slot(OPS + 1), add = 0;

	*least = 0;
	*most = plan.packets;
	for (uint32_t i = 0; i < plan.n; i++) {
		const struct op *op = &plan.op[i];
		uint32_t there;

		if (op->opcode == MLX5_OPCODE_RDMA_READ || !op->len)
			continue;
		there = op->opcode == MLX5_OPCODE_ATOMIC_FA ? add++ < adds : packets_in(i);
		if (there)
			*least = op->start + there;
		if (there < op->packets && op->start + there < *most)
			*most = op->start + there;
	}
	must(adds <= add);
}

static void judge_receives(uint32_t executed)
{
	uint32_t posted = 0, whole = 0, good = 0;
	struct ring_wc wc;

	for (uint32_t i = 0; i < plan.n; i++) {
		posted += op_receives(&plan.op[i]);
		whole += op_receives(&plan.op[i]) &&
			 plan.op[i].start + plan.op[i].packets <= executed;
	}
	for (; posted; posted--) {
		must(ring_wait(&cq, &wc));
		good += wc.opcode != MLX5_CQE_RESP_ERR;
	}
	must(good == whole);
}

/* Requests that the other end knows to be executed. */
static uint32_t acknowledged(void)
{
	uint32_t good = atomic_load(&meet->good);

	return good ? plan.op[good - 1].start + plan.op[good - 1].packets : 0;
}

static void judge(uint64_t record)
{
	uint32_t known = acknowledged(), least, most, executed;
	struct ib_uverbs_query_qp_resp now;

	must(!ring_qp_to(&qp, IBV_QPS_ERR));
	must(!sn_qp_query(qp.qp, &now));
	must(now.qp_state == IBV_QPS_ERR);
	executed = (now.rq_psn - plan.psn) & PSN_MASK;
	record = atomic_load(&fabric->nic[1][0].count.rc_rx_packets) - record;
	witness(&least, &most);
	if (executed < least || executed > most || executed != record || executed < known)
		fprintf(stderr, "rq_psn says %u; memory %u to %u, the record %llu, answers %u\n",
			executed, least, most, (unsigned long long)record, known);
	must(executed >= least && executed <= most);
	must(executed == record);
	must(executed >= known);
	if (plan.mended && executed != plan.packets)
		fprintf(stderr, "%s of host %u for %llu us: %u of %u packets, then syndrome 0x%x\n",
			sn_fault_name(seen.fault.kind), seen.fault.host,
			(unsigned long long)seen.fault.for_ns / 1000, executed, plan.packets,
			atomic_load(&meet->syndrome));
	must(!plan.mended || executed == plan.packets);
	judge_receives(executed);
	for (uint32_t i = 0; i < plan.n; i++)
		seen.inside += executed > plan.op[i].start &&
			       executed < plan.op[i].start + plan.op[i].packets;
	seen.wrapped += plan.psn + executed > PSN_MASK;
	seen.complete += executed == plan.packets;
	seen.nothing += !executed;
}

/* ---- faults --------------------------------------------------------------------------------- */

static const struct {
	enum sn_fault_kind kind;
	uint32_t host;
} faults[] = {
	{ SN_FAULT_PORT_DOWN, 0 },     { SN_FAULT_PORT_DOWN, 1 },   { SN_FAULT_CABLE_DOWN, 1 },
	{ SN_FAULT_SWITCH_DOWN, 0 },   { SN_FAULT_LOSE_TX, 0 },	    { SN_FAULT_LOSE_RX, 1 },
	{ SN_FAULT_LOSE_ACKS, 0 },     { SN_FAULT_CUT_MESSAGE, 0 }, { SN_FAULT_CUT_MESSAGE, 0 },
	{ SN_FAULT_HOLD_REQUESTS, 0 }, { SN_FAULT_HOLD_ACKS, 1 },   { SN_FAULT_NIC_HANG, 0 },
};
#define N_FAULTS (sizeof(faults) / sizeof(faults[0]))

static void heal(void)
{
	sn_fault_cancel(fabric, SN_HOST_ANY, 0);
	sn_fault_apply(fabric, SN_FAULT_SWITCH_UP, 0, 0, 0);
	sn_fault_apply(fabric, SN_FAULT_HEAL, 0, 0, 0);
	sn_fault_apply(fabric, SN_FAULT_HEAL, 1, 0, 0);
}

static void await(_Atomic uint32_t *word, uint32_t round)
{
	while (atomic_load(word) != round) {
		must(atomic_load(&meet->pid) != -1);
		nap(50);
	}
}

/* By the number of a message, before any is posted; or at some time while they are. */
static void strike(uint64_t *rng, bool short_one)
{
	uint32_t which = dice(rng, N_FAULTS);
	struct sn_fault fault = { .kind = faults[which].kind, .host = faults[which].host };
	uint64_t sent = atomic_load(&fabric->nic[0][0].count.tx_messages);

	fault.for_ns = short_one ? 1 + dice(rng, 3000000) : 0;
	seen.fault = fault;
	if (dice(rng, 2)) {
		fault.at_message = sent + 1 + dice(rng, plan.n);
		/* By a count of messages only the NIC that sends them can be struck. */
		fault.host = 0;
		if (fault.kind == SN_FAULT_SWITCH_DOWN)
			fault.kind = SN_FAULT_PORT_DOWN;
		must(!sn_fault_arm(fabric, &fault));
		atomic_store(&meet->go, plan.round);
		await(&meet->begun, plan.round);
		return;
	}
	atomic_store(&meet->go, plan.round);
	await(&meet->begun, plan.round);
	nap(dice(rng, 1 + dice(rng, 600)));
	sn_fault_apply(fabric, fault.kind, fault.host, 0, fault.for_ns);
}

static void post_receives(void)
{
	for (uint32_t i = 0; i < plan.n; i++) {
		const struct op *op = &plan.op[i];

		if (op_receives(op))
			ring_post_recv(&qp, slot(i), op_sends(op) ? op->len + 1 : 0, rkey);
	}
}

static void begin_round(uint32_t round)
{
	plan_round(round);
	for (uint32_t i = 0; i < plan.n; i++)
		memset(slot(i), 0, plan.op[i].len + BEYOND);
	*(uint64_t *)slot(OPS + 1) = 0;
	atomic_store(&meet->good, 0);
	side_connect(1);
	post_receives();
}

/* Queue pairs and numbers come again: what is late of this round must not be taken for the next one's. */
static bool is_quiet(void)
{
	bool quiet = !atomic_load(&fabric->n_held) && sn_line_next_ns(fabric) == UINT64_MAX;

	for (uint32_t i = 0; i < SN_MAX_PROCS; i++) {
		int32_t pid = atomic_load(&fabric->proc[i].pid);

		quiet &= pid <= 0 || kill(pid, 0) || sn_inbox_empty(&fabric->proc[i]);
	}
	return quiet;
}

static void end_round(uint32_t round, bool kill_it)
{
	heal();
	atomic_store(&meet->stop, round);
	if (kill_it)
		await(&meet->hello, seen.killed + 1);
	else
		await(&meet->done, round);
	while (!is_quiet())
		nap(50);
}

/*
 * Sometimes this NIC comes to what was sent only when the next requester has begun, in the dead one's place: its
 * memory is empty at the same addresses.
 */
static void kill_requester(uint64_t *rng)
{
	bool late = dice(rng, 2);

	nap(dice(rng, 600));
	if (late)
		sn_lock();
	atomic_store(&meet->killed, plan.round);
	must(!kill(atomic_load(&meet->pid), SIGKILL));
	seen.killed++;
	if (late) {
		await(&meet->hello, seen.killed + 1);
		sn_unlock();
	}
	nap(300);
}

static void one_round(uint32_t round)
{
	uint64_t rng = ~seed ^ round * 0x9e3779b97f4a7c15ULL, record;
	bool kill_it;

	begin_round(round);
	kill_it = !plan.mended && !dice(&rng, 20);
	record = atomic_load(&fabric->nic[1][0].count.rc_rx_packets);
	if (kill_it) {
		atomic_store(&meet->go, round);
		await(&meet->begun, round);
		kill_requester(&rng);
	} else {
		strike(&rng, plan.mended);
		if (plan.mended)
			await(&meet->finished, round);
		else
			nap(dice(&rng, 2000));
	}
	judge(record);
	end_round(round, kill_it);
}

static void lay_cable(void)
{
	struct sn_line_config line = { .rate_bps = 8000000000ULL,
				       .delay_ns = 50000,
				       .loss = { .loss = .001 } };

	must(!sn_line_set(fabric, 0, 0, &line));
}

static int judge_all(const char *name, uint32_t rounds, const char *quirk, bool is_long)
{
	int which = sn_quirk_find(quirk);

	side_up(name, 1);
	if (is_long)
		lay_cable();
	if (which >= 0)
		atomic_fetch_or(&fabric->nic[1][0].quirks, 1u << which);
	atomic_store(&meet->qpn[1], qp.qpn);
	atomic_store(&meet->target, (uint64_t)mem);
	atomic_store(&meet->counter, (uint64_t)slot(OPS + 1));
	atomic_store(&meet->rkey, rkey);
	while (!atomic_load(&meet->hello))
		nap(100);
	for (uint32_t round = 1; round <= rounds; round++)
		one_round(round);
	atomic_store(&meet->go, UINT32_MAX);
	printf("%u faults: rq_psn was exact; %u inside a message, %u behind a wrap, %u behind all, "
	       "%u before all, %u requesters killed\n",
	       rounds, seen.inside, seen.wrapped, seen.complete, seen.nothing, seen.killed);
	/* Else nothing of it was tried. */
	must(rounds < 200 || (seen.inside && seen.wrapped && seen.complete && seen.killed));
	must(!simnic_test_protocol_errors());
	return 0;
}

static char fabric_name[32];

static void destroy_fabric(void)
{
	sn_fabric_destroy(fabric_name);
}

int main(int argc, char **argv)
{
	struct sn_fabric_config config = { .n_hosts = 2, .n_nics = 1, .link_layer = SN_LINK_ETH };
	uint32_t rounds = argc > 2 ? (uint32_t)atoi(argv[2]) : 300;
	int status = 0, rc;
	const char *name = fabric_name;
	pid_t child;

	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	seed = seed ? seed : (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	config.seed = (uint32_t)seed;
	meet = mmap(NULL, sizeof(*meet), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(fabric_name, sizeof(fabric_name), "unit-psn-%d", getpid());
	must(meet != MAP_FAILED && !sn_fabric_create(name, &config));
	child = fork();
	must(child >= 0);
	if (!child)
		_exit(spawn_requesters(name));
	atexit(destroy_fabric);
	rc = judge_all(name, rounds, argc > 3 ? argv[3] : "none",
		       argc > 4 && !strcmp(argv[4], "link"));
	waitpid(child, &status, 0);
	return rc || status ? 1 : 0;
}
