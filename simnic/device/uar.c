/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * UAR pages: doorbell registers and the CQ doorbell. The page is plain memory. A store is noticed
 * because the first 8 bytes of a doorbell are never zero (they carry a QPN and a size) and the
 * device puts zero back when it has taken one.
 *
 * A register that only one QP uses is taken at its word: the QP runs up to the WQE that was rung,
 * not to its doorbell record. Registers with several users lose doorbells between two naps (the
 * last store wins), so their QPs run to their records once the register rang.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/device/qp.h"
#include "simnic/device/requester.h"
#include "simnic/device/uar.h"
#include "simnic/device/wqe.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"

#define CQ_DOORBELL 0x20 /* MLX5_CQ_DOORBELL */
#define REG_UNKNOWN UINT32_MAX
#define SUSPECT_NS  20000000
#define NOP_ROUNDS  64

enum db_check {
	DB_OK,
	DB_NO_QP,
	DB_WRONG_REGISTER,
	DB_NOT_READY,
	DB_LATE,
	DB_BEYOND_RECORD,
	DB_NOT_THE_WQE,
};

static const char *const db_check_name[] = {
	[DB_OK] = "ok",
	[DB_NO_QP] = "doorbell names a QP that is not of this context",
	[DB_WRONG_REGISTER] = "doorbell through another register than the QP's own",
	[DB_NOT_READY] = "doorbell of a QP that is not ready to send",
	[DB_LATE] = "doorbell already served through the other half",
	[DB_BEYOND_RECORD] = "doorbell index does not end at or before the doorbell record",
	[DB_NOT_THE_WQE] = "doorbell bytes differ from the WQE's control segment",
};

struct doorbell {
	struct sn_uar *uar;
	struct sn_uar_half *half;
	uint64_t *mem;
	uint32_t reg;
	uint64_t value; /* first 8 bytes, memory order */
	uint32_t qpn;
	uint16_t idx, end;
	uint8_t ds, opcode;
};

static int uar_at_grow_locked(struct sn_dev *dev, uint32_t index)
{
	uint32_t n = 2 * (index + 1);
	struct sn_uar **grown;

	if (index < dev->n_uar_at)
		return 0;
	grown = realloc(dev->uar_at, n * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + dev->n_uar_at, 0, (n - dev->n_uar_at) * sizeof(*grown));
	dev->uar_at = grown;
	dev->n_uar_at = n;
	return 0;
}

int sn_uar_add(struct sn_dev *dev, uint32_t index, void *page)
{
	struct sn_uar *uar = calloc(1, sizeof(*uar));
	int err;

	if (!uar)
		return -ENOMEM;
	uar->dev = dev;
	uar->index = index;
	uar->page = page;
	sn_lock();
	err = uar_at_grow_locked(dev, index);
	if (!err) {
		uar->next = dev->uars;
		dev->uars = dev->uar_at[index] = uar;
	}
	sn_unlock();
	if (err)
		free(uar);
	return err;
}

void sn_uar_free_all(struct sn_dev *dev)
{
	struct sn_uar *uar;

	while ((uar = dev->uars)) {
		dev->uars = uar->next;
		free(uar);
	}
	free(dev->uar_at);
}

/* NULL: its register is not known, or not there. */
static struct sn_uar *uar_of(const struct sn_qp *qp)
{
	uint32_t index = qp->reg / SN_BFREGS_PER_UAR;

	return qp->reg != REG_UNKNOWN && index < qp->dev->n_uar_at ? qp->dev->uar_at[index] : NULL;
}

void sn_uar_enter(struct sn_qp *qp)
{
	struct sn_uar *uar = uar_of(qp);
	uint32_t reg = qp->reg % SN_BFREGS_PER_UAR;

	if (!uar) {
		qp->dev->n_reg_unknown++;
		return;
	}
	uar->users[reg]++;
	qp->reg_next = uar->sharers[reg];
	qp->reg_link = &uar->sharers[reg];
	if (qp->reg_next)
		qp->reg_next->reg_link = &qp->reg_next;
	uar->sharers[reg] = qp;
}

void sn_uar_leave(struct sn_qp *qp)
{
	struct sn_uar *uar = uar_of(qp);

	if (!uar) {
		SN_ASSERT(qp->dev->n_reg_unknown);
		qp->dev->n_reg_unknown--;
		return;
	}
	SN_ASSERT(uar->users[qp->reg % SN_BFREGS_PER_UAR] && *qp->reg_link == qp);
	uar->users[qp->reg % SN_BFREGS_PER_UAR]--;
	*qp->reg_link = qp->reg_next;
	if (qp->reg_next)
		qp->reg_next->reg_link = qp->reg_link;
}

static bool reg_is_shared(const struct sn_uar *uar, uint32_t reg)
{
	return !uar->dev->trapped &&
	       uar->users[reg % SN_BFREGS_PER_UAR] + uar->dev->n_reg_unknown > 1;
}

static bool qp_takes_doorbells(const struct sn_qp *qp)
{
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE ||
	       qp->state == IBV_QPS_ERR;
}

/* ---- BlueFlame copies ----------------------------------------------------------------------- */

static bool words_differ(const uint64_t *mem, const uint64_t *ring)
{
	uint64_t seen;
	uint32_t i;

	for (i = 1; i < SN_HALF_BYTES / 8; i++) {
		seen = __atomic_load_n(&mem[i], __ATOMIC_RELAXED);
		if (seen && ring[i] && seen != ring[i])
			return true;
	}
	return false;
}

static void words_clear(uint64_t *mem)
{
	uint32_t i;

	for (i = 1; i < SN_HALF_BYTES / 8; i++)
		if (__atomic_load_n(&mem[i], __ATOMIC_RELAXED))
			__atomic_store_n(&mem[i], 0, __ATOMIC_RELAXED);
}

/*
 * The copy has to equal the ring. Held to that is only the doorbell of a WQE whose predecessors had
 * all been announced before this half was last looked at, and only on a half that was quiet for a
 * time: otherwise an earlier copy may have hit it since, or its end only now, and then 8 bytes over
 * that. The poster may also still be copying; so a difference is a suspicion first, and an error
 * when it stands after a time in which nobody rang again.
 */
static void blueflame_look(const struct sn_qp *qp, struct doorbell *db, bool shared)
{
	struct sn_uar_half *half = db->half;
	uint32_t bytes = db->ds * 16u;

	bool quiet = sn_engine.now_ns - half->taken_ns > SUSPECT_NS;

	half->suspect_ns = 0;
	half->taken_ns = sn_engine.now_ns;
	if (shared || !quiet || db->idx != qp->req.sq_rung ||
	    qp->dev->scans - qp->req.rung_scan < 2) {
		words_clear(db->mem);
		return;
	}
	memset(half->ring, 0, sizeof(half->ring));
	sn_wqe_raw(qp, db->idx, half->ring, bytes < SN_HALF_BYTES ? bytes : SN_HALF_BYTES);
	if (!words_differ(db->mem, half->ring)) {
		words_clear(db->mem);
		return;
	}
	half->suspect_ns = sn_engine.now_ns;
	half->suspect_qpn = db->qpn;
	half->suspect_idx = db->idx;
}

/* Makes the copy in the register go astray, unlike a plain doorbell. */
static void blueflame_tear(struct sn_qp *qp, const struct doorbell *db)
{
	qp->req.torn = __atomic_load_n(&db->mem[1], __ATOMIC_RELAXED) != 0;
	qp->req.torn_idx = db->idx;
}

static void blueflame_look_again(struct sn_uar_half *half, uint64_t *mem)
{
	bool differ;

	if (!half->suspect_ns) {
		if (sn_engine.now_ns - half->taken_ns <= SUSPECT_NS)
			words_clear(mem); /* the late end of a copy */
		return;
	}
	differ = words_differ(mem, half->ring);
	if (differ && sn_engine.now_ns - half->suspect_ns < SUSPECT_NS)
		return;
	if (differ)
		sn_protocol_error("BlueFlame copy differs from the ring", half->suspect_qpn,
				  half->suspect_idx, half->suspect_idx);
	half->suspect_ns = 0;
	words_clear(mem);
}

static enum db_check check_doorbell(const struct sn_qp *qp, const struct doorbell *db)
{
	uint64_t ctrl;

	if (!qp || qp->dev != db->uar->dev)
		return DB_NO_QP;
	if (qp->reg != REG_UNKNOWN && qp->reg != db->reg)
		return DB_WRONG_REGISTER;
	if (!qp_takes_doorbells(qp))
		return DB_NOT_READY;
	if ((int16_t)(db->end - qp->req.sq_cons) <= 0 &&
	    (uint16_t)(qp->req.sq_cons - db->end) <= qp->attr.sq_wqe_cnt)
		return DB_LATE;
	/* Record before register (the sender's write barrier): the record may only be ahead. */
	if ((uint16_t)(sn_sq_producer(qp) - db->end) > qp->attr.sq_wqe_cnt)
		return DB_BEYOND_RECORD;
	sn_wqe_raw(qp, db->idx, &ctrl, sizeof(ctrl));
	return ctrl == db->value ? DB_OK : DB_NOT_THE_WQE;
}

static void doorbell_parse(struct doorbell *db)
{
	uint32_t word[2];

	memcpy(word, &db->value, sizeof(word));
	db->idx = (uint16_t)(be32toh(word[0]) >> 8);
	db->opcode = (uint8_t)be32toh(word[0]);
	db->qpn = be32toh(word[1]) >> 8;
	db->ds = be32toh(word[1]) & 0x3f;
	db->end = (uint16_t)(db->idx + (db->ds + 3) / 4);
}

static void ring_to(struct sn_qp *qp, uint16_t end)
{
	if ((int16_t)(end - qp->req.sq_rung) > 0) {
		qp->req.sq_rung = end;
		qp->req.rung_scan = qp->dev->scans;
	}
	sn_qp_set_busy(qp);
}

static void ring_to_record(struct sn_qp *qp)
{
	if (qp_takes_doorbells(qp))
		ring_to(qp, sn_sq_producer(qp));
}

/* Everybody behind a shared register runs to its record. */
static void ring_sharers(struct sn_uar *uar, uint32_t reg)
{
	struct sn_qp *qp;

	for (qp = uar->sharers[reg % SN_BFREGS_PER_UAR]; qp; qp = qp->reg_next)
		ring_to_record(qp);
	if (!uar->dev->n_reg_unknown)
		return;
	for (qp = uar->dev->qps; qp; qp = qp->dev_next)
		if (qp->reg == REG_UNKNOWN)
			ring_to_record(qp);
}

/*
 * A kernel that removes a NIC resets and destroys the queue pairs of programs that still post, and
 * takes their doorbell pages away behind it: a NIC drops what is rung meanwhile. Where a process
 * has its own rings, its doorbells are its own error.
 */
static bool taken_away(const struct sn_dev *dev, enum db_check check)
{
	return dev->trapped && (check == DB_NO_QP || check == DB_NOT_READY);
}

static void doorbell_act(struct sn_qp *qp, struct doorbell *db)
{
	enum db_check check = check_doorbell(qp, db);
	bool shared = reg_is_shared(db->uar, db->reg);

	if (check == DB_OK && sn_nic_quirk(qp->dev->nic, SN_QUIRK_BLUEFLAME_TORN))
		blueflame_tear(qp, db);
	if (check == DB_OK)
		blueflame_look(qp, db, shared);
	else
		words_clear(db->mem);
	if (check == DB_LATE || taken_away(db->uar->dev, check))
		return;
	if (check != DB_OK)
		sn_protocol_error(db_check_name[check], db->qpn, db->idx, qp ? qp->req.sq_rung : 0);
	if (check == DB_NO_QP || check == DB_NOT_READY)
		return;
	if (shared)
		ring_sharers(db->uar, db->reg);
	else
		ring_to(qp, check == DB_OK ? db->end : sn_sq_producer(qp));
}

static bool half_scan(struct sn_uar *uar, uint32_t reg, uint32_t which)
{
	size_t offset = SN_BFREG_OFFSET + reg * SN_BFREG_SIZE + which * SN_HALF_BYTES;
	struct doorbell db = { .uar = uar,
			       .half = &uar->half[reg][which],
			       .mem = (uint64_t *)(uar->page + offset),
			       .reg = uar->index * SN_BFREGS_PER_UAR + reg };

	if (!__atomic_load_n(db.mem, __ATOMIC_RELAXED)) {
		blueflame_look_again(db.half, db.mem);
		return false;
	}
	db.value = __atomic_exchange_n(db.mem, 0, __ATOMIC_ACQ_REL);
	doorbell_parse(&db);
	doorbell_act(sn_qp_find(uar->dev->nic_index, db.qpn), &db);
	return true;
}

void sn_uar_scan_of(const struct sn_qp *qp)
{
	struct sn_uar *uar = uar_of(qp);
	bool worked = false;

	if (!uar) {
		sn_uar_scan(qp->dev, &worked);
		return;
	}
	if (sn_engine.frozen || sn_dev_stands_still(qp->dev))
		return;
	half_scan(uar, qp->reg % SN_BFREGS_PER_UAR, 0);
	half_scan(uar, qp->reg % SN_BFREGS_PER_UAR, 1);
}

/*
 * Executes NOPs at once. mlx5_ib gives its test of write combining 100 ms, and makes no device
 * where the answer comes later: so long may the device's thread wait for a processor.
 */
static void trap_nops(struct sn_qp *qp)
{
	for (int i = 0; qp && i < NOP_ROUNDS && sn_requester_run(qp); i++)
		;
}

/* Takes a doorbell at its word, as no other store has hidden it. There is no BlueFlame copy. */
static void trap_send(struct sn_dev *dev, uint32_t uar, uint64_t bytes)
{
	uint64_t mem[SN_HALF_BYTES / 8] = { 0 };
	struct sn_uar_half half = { 0 };
	struct sn_uar page = { .dev = dev, .index = uar };
	struct doorbell db = { .uar = &page,
			       .half = &half,
			       .mem = mem,
			       .reg = uar * SN_BFREGS_PER_UAR,
			       .value = bytes };

	doorbell_parse(&db);
	if (sn_ether_ring(dev, db.qpn))
		return;
	doorbell_act(sn_qp_find(dev->nic_index, db.qpn), &db);
	if (db.opcode == MLX5_OPCODE_NOP)
		trap_nops(sn_qp_find(dev->nic_index, db.qpn));
}

static void trap_arm(uint64_t bytes)
{
	uint32_t word[2];
	struct sn_cq *cq;

	memcpy(word, &bytes, sizeof(word));
	cq = sn_cq_find(be32toh(word[1]) & 0xffffff);
	if (cq && cq->dev->trapped)
		sn_cq_arm(cq);
}

void sn_uar_ring(struct sn_dev *dev, uint32_t uar, uint32_t offset, uint64_t bytes)
{
	sn_lock();
	sn_engine.now_ns = sn_clock_ns();
	if (sn_dev_stands_still(dev))
		dev->unheard = true;
	else if (offset == CQ_DOORBELL)
		trap_arm(bytes);
	else if (offset >= SN_BFREG_OFFSET && offset % SN_HALF_BYTES == 0)
		trap_send(dev, uar, bytes);
	sn_unlock();
	sn_engine_kick();
}

/*
 * Hears what was rung while the device stood still. The stores are gone, but each ring has its
 * record in memory: a driver that waits for a completion without a timeout would wait for ever.
 */
static void trap_catch_up(struct sn_dev *dev)
{
	struct sn_qp *qp;
	struct sn_cq *cq;

	dev->unheard = false;
	LIST_FOREACH (cq, &dev->cqs, link)
		sn_cq_arm(cq);
	for (qp = dev->qps; qp; qp = qp->dev_next)
		ring_to_record(qp);
	sn_ether_ring_all(dev);
}

static bool cq_doorbell_scan(struct sn_uar *uar)
{
	uint64_t *mem = (uint64_t *)(uar->page + CQ_DOORBELL);

	if (!__atomic_load_n(mem, __ATOMIC_RELAXED))
		return false;
	__atomic_exchange_n(mem, 0, __ATOMIC_ACQ_REL);
	sn_cq_arm_all(uar->dev);
	return true;
}

/* Takes the request behind the last doorbell, if there is one: no NIC may look there. */
static void run_ahead(struct sn_qp *qp)
{
	uint32_t ctrl[2];
	uint16_t end = (uint16_t)(qp->req.sq_rung + 1);

	sn_wqe_raw(qp, qp->req.sq_rung, ctrl, sizeof(ctrl));
	if (qp->state == IBV_QPS_RTS && be32toh(ctrl[1]) >> 8 == qp->qpn &&
	    (uint16_t)(be32toh(ctrl[0]) >> 8) == qp->req.sq_rung)
		ring_to(qp, end);
}

static void run_all_ahead(struct sn_dev *dev)
{
	struct sn_qp *qp;

	for (qp = dev->qps; qp; qp = qp->dev_next)
		run_ahead(qp);
}

void sn_uar_scan(struct sn_dev *dev, bool *worked)
{
	struct sn_uar *uar;
	uint32_t reg;

	if (sn_engine.frozen || sn_dev_stands_still(dev))
		return;
	if (dev->unheard) {
		trap_catch_up(dev);
		*worked = true;
	}
	dev->scans++;
	if (sn_nic_quirk(dev->nic, SN_QUIRK_RUNS_AHEAD))
		run_all_ahead(dev);
	for (uar = dev->uars; uar; uar = uar->next) {
		*worked |= cq_doorbell_scan(uar);
		for (reg = 0; reg < SN_BFREGS_PER_UAR; reg++) {
			*worked |= half_scan(uar, reg, 0);
			*worked |= half_scan(uar, reg, 1);
		}
	}
}
