/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues: the ring with its owner bit, overrun, arming and completion events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "simnic/device/clock.h"
#include "simnic/device/cq.h"
#include "simnic/device/dev.h"
#include "simnic/device/device.h"
#include "simnic/device/engine.h"
#include "simnic/device/posted.h"
#include "simnic/device/uar.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/nic.h"

#define CI_MASK	      0xffffff
#define ARM_SN_SHIFT  28
#define ARM_SOLICITED (1u << 24)
#define ARM_SN_FRESH  3 /* zeroed memory must not look armed */
#define DB_CI	      0
#define DB_ARM	      1

#define CATCH_UP_BATCHES 16

static _Atomic uint32_t *cq_db(const struct sn_cq *cq)
{
	return (_Atomic uint32_t *)cq->attr.db;
}

static uint32_t cq_consumer(const struct sn_cq *cq)
{
	return be32toh(atomic_load_explicit(&cq_db(cq)[DB_CI], memory_order_acquire)) & CI_MASK;
}

static uint32_t cq_used(const struct sn_cq *cq)
{
	return (cq->pi - cq_consumer(cq)) & CI_MASK;
}

/* The upper half of a 128-byte CQE is the CQE proper; the lower one holds scattered data. */
static uint8_t *cq_entry(const struct sn_cq *cq, uint32_t index)
{
	uint8_t *ring = (uint8_t *)cq->attr.buf;

	return ring + (size_t)(index & (cq->attr.cqes - 1)) * cq->attr.cqe_size;
}

static uint8_t cq_owner_bit(const struct sn_cq *cq)
{
	return (cq->pi & cq->attr.cqes) ? 1 : 0;
}

uint32_t sn_cq_scatter_limit(const struct sn_cq *cq)
{
	return cq->attr.cqe_size == 128 ? 64 : 32;
}

/* ---- events --------------------------------------------------------------------------------- */

static void cq_fire(struct sn_cq *cq)
{
	uint64_t element = cq->attr.user_handle;

	cq->armed = false;
	if (cq->dev->trapped) {
		cq->dev->events.completion(cq->dev->events.ctx, element);
		return;
	}
	if (cq->attr.channel_fd < 0)
		return;
	if (send(cq->attr.channel_fd, &element, sizeof(element), MSG_DONTWAIT | MSG_NOSIGNAL) ==
	    sizeof(element))
		cq->comp_events++;
}

static void cq_check_armed(struct sn_cq *cq)
{
	uint32_t mark = cq->armed_solicited ? cq->sol_pi : cq->pi;
	uint32_t ahead = (mark - cq->arm_ci) & CI_MASK;

	if (!cq->armed || !ahead || ahead > CI_MASK / 2)
		return;
	cq->fired_sn = (be32toh(atomic_load(&cq_db(cq)[DB_ARM])) >> ARM_SN_SHIFT) & 3;
	cq_fire(cq);
}

void sn_cq_arm(struct sn_cq *cq)
{
	uint32_t word = be32toh(atomic_load_explicit(&cq_db(cq)[DB_ARM], memory_order_acquire));
	uint8_t sn = (word >> ARM_SN_SHIFT) & 3;

	if (sn == cq->fired_sn)
		return;
	cq->armed = true;
	cq->armed_solicited = word & ARM_SOLICITED;
	cq->arm_ci = word & CI_MASK;
	cq_check_armed(cq);
}

/* The register names one CQ, but a later store may have hidden an earlier: look at all. */
void sn_cq_arm_all(struct sn_dev *dev)
{
	struct sn_cq *cq;

	LIST_FOREACH (cq, &dev->cqs, link)
		if (cq->attr.channel_fd >= 0)
			sn_cq_arm(cq);
}

/* IBA 11.6.3.2: an overrun CQ is dead; the QPs on it cannot report any more. */
static void cq_overrun(struct sn_cq *cq)
{
	cq->overrun = true;
	sn_async_event(cq->dev, cq->attr.async_fd, cq->attr.user_handle, IBV_EVENT_CQ_ERR,
		       &cq->async_events);
}

/* ---- the ring ------------------------------------------------------------------------------- */

static uint8_t cq_put_data(const struct sn_cq *cq, uint8_t *entry, struct mlx5_cqe64 *cqe,
			   const void *data, uint32_t len)
{
	if (!data)
		return 0;
	SN_ASSERT(len <= sizeof(*cqe));
	if (cq->attr.cqe_size == 128) {
		memcpy(entry, data, len);
		return MLX5_INLINE_SCATTER_64;
	}
	memcpy(cqe, data, len); /* inline data goes to the CQE's own start */
	return MLX5_INLINE_SCATTER_32;
}

/*
 * The vendor's own number of an error, as logs of ConnectX tell it beside the status. Those of the
 * others were not found in any log; 0.
 */
static uint8_t cq_vendor_error(uint8_t syndrome)
{
	switch (syndrome) {
	case MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR: return 0x69;
	case MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR: return 0x68;
	case MLX5_CQE_SYNDROME_LOCAL_PROT_ERR: return 0x51;
	case MLX5_CQE_SYNDROME_WR_FLUSH_ERR: return 0xf9;
	case MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR: return 0x8a;
	case MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR: return 0x88;
	case MLX5_CQE_SYNDROME_REMOTE_OP_ERR: return 0x89;
	case MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR: return 0x81;
	case MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR: return 0x87;
	default: return 0;
	}
}

void sn_cq_push(struct sn_cq *cq, struct mlx5_cqe64 *cqe, const void *data, uint32_t data_len,
		bool solicited)
{
	bool error = (cqe->op_own >> 4) >= MLX5_CQE_REQ_ERR;
	struct mlx5_err_cqe *failed = (struct mlx5_err_cqe *)cqe;
	uint8_t *entry = cq_entry(cq, cq->pi);
	struct mlx5_cqe64 *slot = (void *)(entry + cq->attr.cqe_size - sizeof(*slot));
	uint8_t format;

	if (!cq->overrun && cq_used(cq) >= cq->attr.cqes)
		cq_overrun(cq);
	if (cq->overrun)
		return;
	sn_posted_push_completion(cq->dev, cqe);
	if (error && !failed->vendor_err_synd)
		failed->vendor_err_synd = cq_vendor_error(failed->syndrome);
	if (!error && !cqe->timestamp) /* an error has its syndrome there */
		cqe->timestamp = htobe64(sn_dev_clock_tick(cq->dev));
	format = cq_put_data(cq, entry, cqe, data, data_len);
	if (sn_nic_quirk(cq->dev->nic, SN_QUIRK_SCATTER_SILENT))
		format = 0;
	if (sn_nic_quirk(cq->dev->nic, SN_QUIRK_COMPRESSED))
		format = MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64;
	memcpy(slot, cqe, offsetof(struct mlx5_cqe64, op_own));
	/* The poller sees the owner bit change only after everything else. */
	__atomic_store_n(&slot->op_own,
			 (uint8_t)(cqe->op_own | format | (solicited ? 2 : 0) | cq_owner_bit(cq)),
			 __ATOMIC_RELEASE);
	cq->pi++;
	if (solicited || error)
		cq->sol_pi = cq->pi;
	cq_check_armed(cq);
}

int sn_cq_put_raw(struct sn_cq *cq, const void *cqe, const void *data)
{
	struct mlx5_cqe64 copy;
	bool solicited;

	if (cq->overrun || cq_used(cq) >= cq->attr.cqes)
		return -ENOSPC;
	if (data && cq->attr.cqe_size == 128)
		memcpy(cq_entry(cq, cq->pi), data, 64);
	memcpy(&copy, cqe, sizeof(copy));
	solicited = copy.op_own & 2;
	copy.op_own &= (uint8_t)~3;
	sn_cq_push(cq, &copy, NULL, 0, solicited);
	return 0;
}

/* ---- commands ------------------------------------------------------------------------------- */

int sn_cq_create(struct sn_dev *dev, const struct sn_cq_attr *attr, uint32_t *cqn,
		 struct sn_cq **out)
{
	struct sn_cq *cq;

	if (!attr->cqes || (attr->cqes & (attr->cqes - 1)) || !attr->buf || !attr->db ||
	    (attr->cqe_size != 64 && attr->cqe_size != 128))
		return -EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->dev = dev;
	cq->attr = *attr;
	cq->fired_sn = ARM_SN_FRESH;
	if (!dev->trapped) /* there, only a register arms */
		atomic_store(&cq_db(cq)[DB_ARM], htobe32((uint32_t)ARM_SN_FRESH << ARM_SN_SHIFT));
	sn_lock();
	cq->cqn = ++sn_engine.next_cqn;
	LIST_INSERT_HEAD(&dev->cqs, cq, link);
	sn_unlock();
	*cqn = cq->cqn;
	*out = cq;
	return 0;
}

/* Doorbells rung before the command belong before it, and hardware has long obeyed them. */
static void cq_catch_up(struct sn_cq *cq)
{
	bool worked = false;
	int n;

	if (sn_engine.frozen)
		return;
	sn_engine.now_ns = sn_clock_ns();
	sn_uar_scan(cq->dev, &worked);
	for (n = 0; n < CATCH_UP_BATCHES && sn_engine_batch(); n++)
		;
}

/*
 * The library copies what it has not polled from the old ring up to the RESIZE CQE, shifting it by
 * one; what comes after lands in the new ring.
 */
int sn_cq_resize(struct sn_cq *cq, uint64_t buf, uint32_t cqes, uint32_t cqe_size)
{
	struct mlx5_cqe64 mark = { .op_own = MLX5_CQE_RESIZE_CQ << 4 };
	int rc = 0;

	if (!cqes || (cqes & (cqes - 1)) || (cqe_size != 64 && cqe_size != 128))
		return -EINVAL;
	sn_lock();
	cq_catch_up(cq);
	if (cq_used(cq) >= cq->attr.cqes || cq_used(cq) >= cqes) {
		rc = -EINVAL;
	} else {
		sn_cq_push(cq, &mark, NULL, 0, false);
		cq->attr.buf = buf;
		cq->attr.cqes = cqes;
		cq->attr.cqe_size = cqe_size;
	}
	sn_unlock();
	return rc;
}

void sn_cq_query(struct sn_cq *cq, struct sn_cq_state *state)
{
	sn_lock();
	*state = (struct sn_cq_state){ .produced = cq->pi & CI_MASK,
				       .consumed = cq_consumer(cq),
				       .armed = cq->armed,
				       .overrun = cq->overrun };
	sn_unlock();
}

int sn_cq_destroy(struct sn_cq *cq, uint32_t *comp_events, uint32_t *async_events)
{
	sn_lock();
	if (cq->refs) {
		sn_unlock();
		return -EBUSY;
	}
	SN_LIST_REMOVE(cq, link);
	sn_unlock();
	*comp_events = cq->comp_events;
	*async_events = cq->async_events;
	free(cq);
	return 0;
}

struct sn_cq *sn_cq_find(uint32_t cqn)
{
	struct sn_dev *dev;
	struct sn_cq *cq;

	for (dev = sn_engine.devs; dev; dev = dev->next)
		LIST_FOREACH (cq, &dev->cqs, link)
			if (cq->cqn == cqn)
				return cq;
	return NULL;
}

void sn_cq_free_all(struct sn_dev *dev)
{
	struct sn_cq *cq;

	while ((cq = LIST_FIRST(&dev->cqs))) {
		SN_ASSERT(!cq->refs);
		SN_LIST_REMOVE(cq, link);
		free(cq);
	}
}
