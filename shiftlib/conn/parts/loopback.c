/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A READ by a loopback QP is how a program makes sure of what its NIC has written (NCCL: to a
 * GPU): nothing that the NIC reads passes what it wrote before. While receives of the same
 * context come over other NICs, such a READ waits behind the engine's gate until those have
 * read as well, by queue pairs of SHIFT's own there, and completes only then.
 *
 * The gate is shut before the first receive can come over another NIC. A NIC that no connection
 * receives from any more needs no READ: its queue pairs were taken to ERR, behind what they
 * wrote.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "providers/engine.h"
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/clock.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/move.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/parts/loopback.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/reader.h"
#include "shiftlib/replica/srq.h"
#include "shiftlib/shift.h"

#define LOOPBACK_BATCH	 64 /* READs at a time */
#define LOOPBACK_BYTES	 4096
#define LOOPBACK_LOOK_NS (50 * SH_NS_PER_US)
#define LOOPBACK_FEW	 4		    /* bytes: a longer READ may be for what it brings */
#define LOOPBACK_WAIT_NS (2 * SH_NS_PER_MS) /* pause while a reader is being made */

bool sh_loopback_is(const struct sh_qp *qp)
{
	return qp->gid.valid && qp->app.attr.dest_qp_num == qp->qp->qp_num &&
	       !memcmp(qp->app.attr.ah_attr.grh.dgid.raw, qp->gid.raw, sizeof(qp->gid.raw));
}

bool sh_loopback_has_reader(const struct sh_qp *qp, uint32_t path)
{
	return qp->loopback.readers && qp->loopback.readers[path].of.state != SH_READER_NONE;
}

/* Another connection's step, or a worker, may be what leads to it. */
static void loopback_check_at(struct sh_qp *self, uint64_t at) SH_LOCKED
{
	self->loopback.next_at = at;
	if (!self->conn_id)
		return;
	sh_clock_touch(self);
	sh_wake_at(at);
}

/* ---- readers -------------------------------------------------------------------------------- */

static void reader_hold(void *owner, uint8_t path, bool begin) SH_LOCKED
{
	struct sh_qp *qp = owner;

	if (begin)
		sh_job_begin(&qp->busy);
	else
		sh_job_end(&qp->busy);
}

static void reader_made(void *owner, uint8_t path) SH_LOCKED
{
	struct sh_qp *qp = owner;
	bool made = qp->loopback.readers[path].of.state != SH_READER_NONE;

	loopback_check_at(qp, sh_now_ns() + (made ? 0 : LOOPBACK_WAIT_NS));
}

/* A PD that cannot be replicated moves nothing: its reader reads other memory. */
static const struct sh_reader_kind reader_kind = {
	.bytes = LOOPBACK_BYTES,
	.batch = LOOPBACK_BATCH,
	.reads = 1,
	.access = IBV_ACCESS_REMOTE_READ,
	.alone = true,
	.hold = reader_hold,
	.made = reader_made,
};

static void reader_renew(struct sh_qp *qp, uint8_t path, bool make) SH_LOCKED
{
	struct sh_loopback_reader *reader = &qp->loopback.readers[path];
	struct sh_reader_place place = { qp->pd, path, qp };

	if (sh_reader_renew(&reader->of, &reader_kind, &place, make))
		reader->asked = false;
}

static void readers_start(struct sh_qp *qp) SH_LOCKED
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (sh_loopback_has_reader(qp, path) &&
		    qp->loopback.readers[path].of.state == SH_READER_READY)
			reader_renew(qp, path, false);
}

/* Has it read? One that cannot is made anew, and asked again. */
static bool reader_has_read(struct sh_loopback_reader *reader)
{
	struct ibv_wc wc;
	int n = reader->of.failed ? -1 : ibv_poll_cq(reader->of.looped.cq, 1, &wc);

	if (n < 0 || (n && wc.status))
		reader->of.failed = true;
	if (n > 0 && !wc.status)
		reader->asked = false;
	return !reader->asked;
}

/* Is there one that can be used? If not, one is on its way. */
static struct sh_loopback_reader *reader_get(struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	struct sh_loopback_reader *reader = &qp->loopback.readers[path];
	struct sh_nic *nic = qp->ctx->path[path];

	if (reader->of.state == SH_READER_READY && !reader->of.failed &&
	    !sh_reader_stale(&reader->of, qp->pd, path))
		/* the answer is to an earlier question */
		return reader_has_read(reader) ? reader : NULL;
	if (reader->of.failed && sh_nic_up(nic))
		sh_warn_once("%s: READs of a loopback QP wait: this NIC does not read, and other "
			     "connections receive on it",
			     nic->name);
	if (reader->of.state != SH_READER_MAKING && sh_nic_up(nic))
		reader_renew(qp, path, true);
	return NULL;
}

/* ---- what they read ------------------------------------------------------------------------- */

/*
 * The same byte as the application's READ, so that it goes the same way; where its key is not known
 * there, some other.
 */
static void read_target(const struct sh_qp *qp, uint8_t path,
			const struct sh_loopback_reader *reader, const struct sp_read *read,
			struct ibv_send_wr *wr)
{
	uint32_t rkey = read->rkey;
	bool known = rkey && !reader->of.looped.pd &&
		     (reader->of.own || sh_keymap_get(&qp->ctx->lkeys[path], rkey, &rkey));

	wr->wr.rdma.remote_addr = known ? read->addr : (uintptr_t)reader->of.looped.memory;
	wr->wr.rdma.rkey = known ? rkey : reader->of.looped.mr->rkey;
}

static void reader_ask(struct sh_qp *qp, uint8_t path, struct sh_loopback_reader *reader,
		       const struct sp_read *reads, uint32_t n)
{
	struct ibv_sge sge = { (uintptr_t)reader->of.looped.memory, 1, reader->of.looped.mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1 }, *bad;
	uint32_t i;

	reader->asked = true;
	for (i = 0; i < n && !reader->of.failed; i++) {
		read_target(qp, path, reader, &reads[i], &wr);
		wr.send_flags = i + 1 == n ? IBV_SEND_SIGNALED : 0;
		reader->of.failed = ibv_post_send(reader->of.looped.qp, &wr, &bad);
	}
}

/* ---- the gate ------------------------------------------------------------------------------- */

static bool loopback_receives(const struct sh_qp *qp, const struct sh_qp *self) SH_LOCKED
{
	return qp != self && qp->ctx == self->ctx && qp->sp && qp->init.qp_type == IBV_QPT_RC &&
	       (qp->app.state == IBV_QPS_RTR || qp->app.state == IBV_QPS_RTS ||
		qp->app.state == IBV_QPS_SQD) &&
	       !sh_loopback_is(qp);
}

/* The paths that receives may come over, as bits, without the one where it reads itself. */
static uint32_t loopback_paths(const struct sh_qp *self, uint8_t own_path) SH_LOCKED
{
	uint32_t paths = 0;
	struct sh_qp *qp;

	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		if (loopback_receives(qp, self))
			paths |= 1u << qp->receiving->path;
	return paths & ~(1u << own_path);
}

static void loopback_no_memory(void)
{
	sh_warn_once("no memory: READs of a loopback QP may not order data that came over a "
		     "backup NIC");
}

static void loopback_shut(struct sh_qp *self) SH_LOCKED
{
	if (!self->loopback.shut && sp_qp_gate(self->sp, true))
		loopback_no_memory();
	else
		self->loopback.shut = true;
	loopback_check_at(self, sh_now_ns());
}

static void loopback_open(struct sh_qp *self) SH_LOCKED
{
	if (!self->loopback.shut)
		return;
	self->loopback.shut = false;
	self->loopback.n = 0;
	self->loopback.next_at = 0;
	if (sp_qp_gate(self->sp, false))
		self->publish.at = sh_now_ns();
	readers_start(self);
}

static void loopback_forget(struct sh_qp *self) SH_LOCKED
{
	loopback_open(self);
	if (self->loopback.counted)
		self->ctx->n_self--;
	self->loopback.counted = false;
}

/* All NICs have read: what waited for that runs. */
static void loopback_pass(struct sh_qp *self, uint64_t now) SH_LOCKED
{
	int passed = sp_qp_pass(self->sp, self->loopback.n);

	if (!passed) /* the connection failed, or the rings are somebody else's */
		loopback_open(self);
	else if (passed > 0)
		self->loopback.n -= (uint32_t)passed;
	if (passed == -ENOENT && self->peer)
		sh_keys_ask(self->peer);
	if (self->loopback.n)
		self->loopback.next_at = now + LOOPBACK_WAIT_NS;
}

static bool loopback_is_read(struct sh_qp *self, uint32_t paths)
{
	bool all = true;
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if ((paths & self->loopback.asked) >> path & 1)
			all &= reader_has_read(&self->loopback.readers[path]);
	return all;
}

/* Every path's reader, or none: what was posted later must not be taken for asked. */
static void loopback_ask(struct sh_qp *self, uint32_t paths, uint64_t now) SH_LOCKED
{
	struct sp_read reads[LOOPBACK_BATCH];
	bool all = true;
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if (paths >> path & 1)
			all &= reader_get(self, path) != NULL;
	self->loopback.next_at = now + (all ? LOOPBACK_LOOK_NS : LOOPBACK_WAIT_NS);
	if (!all)
		return;
	self->loopback.n = sp_qp_gated(self->sp, reads, LOOPBACK_BATCH);
	self->loopback.asked = self->loopback.n ? (uint8_t)paths : 0;
	for (path = 0; path < SC_MAX_PATHS; path++)
		if (self->loopback.asked >> path & 1)
			reader_ask(self, path, &self->loopback.readers[path], reads,
				   self->loopback.n);
	if (!self->loopback.n)
		self->loopback.next_at = 0; /* the next post tells */
}

/* A reader that failed has to be asked anew, with the others: all that waits does so still. */
static bool loopback_failed(const struct sh_qp *self, uint32_t paths)
{
	uint8_t path;

	for (path = 0; path < SC_MAX_PATHS; path++)
		if ((paths & self->loopback.asked) >> path & 1 &&
		    self->loopback.readers[path].of.failed)
			return true;
	return false;
}

static void loopback_run(struct sh_qp *self, uint64_t now) SH_LOCKED
{
	uint32_t paths;

	self->loopback.next_at = 0;
	if (!self->loopback.shut)
		return;
	paths = loopback_paths(self, self->active->path);
	if (!paths) {
		loopback_open(self);
		return;
	}
	if (self->loopback.n && loopback_failed(self, paths))
		self->loopback.n = 0;
	if (self->loopback.n && !loopback_is_read(self, paths)) {
		self->loopback.next_at = now + LOOPBACK_LOOK_NS;
		return;
	}
	if (self->loopback.n)
		loopback_pass(self, now);
	if (self->loopback.shut && !self->loopback.n)
		loopback_ask(self, paths, now);
}

static void loopback_receive(struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	struct sh_qp *self;

	if (!qp->ctx->n_self || sh_loopback_is(qp))
		return;
	list_for_each (&sh_conns.qps, self, struct sh_qp, link)
		if (self->ctx == qp->ctx && self->loopback.counted && self->active->path != path)
			loopback_shut(self);
}

/* Asks the readers anew: waiting READs were for the path that is left. */
static void loopback_move(struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	if (path != qp->active->path)
		qp->loopback.n = 0;
	if (qp->loopback.counted && (qp->loopback.shut || loopback_paths(qp, path)))
		loopback_shut(qp);
}

static void loopback_count(struct sh_qp *qp)
{
	if (!qp->loopback.readers)
		qp->loopback.readers = calloc(SC_MAX_PATHS, sizeof(*qp->loopback.readers));
	if (!qp->loopback.readers) {
		loopback_no_memory();
		return;
	}
	qp->loopback.counted = true;
	qp->ctx->n_self++;
}

/* ---- a NIC that does not obey ---------------------------------------------------------------- */

/* A local request is a NOP: a queue pair that had any other one has lost its protection. */
static bool read_of_few_bytes(const struct sp_request *request)
{
	return request->kind == SP_REQ_LOCAL ||
	       (request->kind == SP_REQ_READ && request->brings <= LOOPBACK_FEW);
}

static bool only_reads_of_few_bytes(const struct sp_request *info, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && read_of_few_bytes(&info[i]))
		i++;
	return i == n;
}

/*
 * True if data that the NIC had taken in before the quiesce is in memory, where a READ by
 * another NIC sees it.
 */
static bool loopback_old_enough(const struct sh_qp *qp, uint64_t now)
{
	return now - qp->quiesce.begun >=
	       sh.config.core.packet_lifetime_ns + sh.config.core.settle_ns;
}

/*
 * All that comes to a loopback QP is what the QP has sent. So the count is final, whatever the
 * NIC does, when all receives have come that the QP's own requests consume, and no request that
 * could consume one or change memory at the far end is outstanding.
 *
 * READs may be outstanding: they can run again, as nobody counts them. But the NIC may go on
 * one day, before it obeys the command that stops the QP, and write once more what they bring.
 * By a READ of a few bytes (NCCL: one) a program orders what the NIC wrote, and has no use for
 * the bytes. A longer one waits until the NIC obeys or is cut off from memory.
 */
static bool loopback_is_over(struct sh_qp *qp, uint32_t recv_count, uint64_t now) SH_LOCKED
{
	uint32_t n = 0, posted, done = recv_count + 1;
	struct sp_request *info;
	bool over;

	if (!sh_loopback_is(qp))
		return false;
	info = sh_move_outstanding(qp, &n);
	if (info)
		sp_qp_send_counts(qp->sp, &posted, &done);
	over = info && done == recv_count && only_reads_of_few_bytes(info, n) &&
	       (!n || loopback_old_enough(qp, now));
	free(info);
	return over;
}

/* ---- its beginning and its end --------------------------------------------------------------- */

/* Called at RTR and again at RTS. */
static void loopback_connected(struct sh_qp *qp) SH_LOCKED
{
	if (!qp->loopback.counted && sh_loopback_is(qp))
		loopback_count(qp);
	if (qp->loopback.counted)
		loopback_move(qp, qp->active->path);
	else
		loopback_receive(qp, qp->receiving->path);
}

/* The connection is closed, and no job is under way. */
void sh_loopback_drop(struct sh_qp *qp)
{
	struct sh_reader_place place = { .pd = qp->pd, .owner = qp };

	for (; qp->loopback.readers && place.path < SC_MAX_PATHS; place.path++) {
		qp->loopback.readers[place.path].asked = false;
		sh_reader_drop(&qp->loopback.readers[place.path].of, &reader_kind, &place);
	}
}

void sh_loopback_uninit(struct sh_qp *qp)
{
	free(qp->loopback.readers);
	qp->loopback.readers = NULL;
}

static uint64_t loopback_next_timer(const struct sh_qp *qp)
{
	return qp->loopback.next_at;
}

static void loopback_dropped(struct sh_qp *qp, bool may_wait) SH_DROPS
{
	if (may_wait)
		sh_loopback_drop(qp);
}

/* Opens the gate behind the failing, or READs that wait would run. */
static void loopback_ended(struct sh_qp *qp, bool failed) SH_LOCKED
{
	if (failed)
		loopback_forget(qp);
}

const struct sh_conn_part sh_loopback_part = {
	.name = "loopback",
	.life = { .connected = loopback_connected, .left = loopback_forget },
	.standby.dropped = loopback_dropped,
	.move = { .is_over = loopback_is_over,
		  .receives = loopback_receive,
		  .sends = loopback_move,
		  .ended = loopback_ended },
	.news.gated = loopback_run,
	.clock = { .next_timer = loopback_next_timer, .run = loopback_run },
};
