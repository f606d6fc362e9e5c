/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs. Lock held. */
#ifndef SIMNIC_DEVICE_QP_H
#define SIMNIC_DEVICE_QP_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "simnic/device/device.h"
#include "simnic/device/psn.h"
#include "simnic/device/requester.h"
#include "simnic/device/responder.h"

struct sn_dev;

/* The device thread's lists of QPs that are not at rest; a QP may be in several. */
enum sn_list {
	SN_BUSY, /* QPs with anything to do: looked at in each batch */
	/* QPs that only wait for answers: looked at when the next timer among them is due */
	SN_WAITING,
	/* QPs in the error state, where receives may be posted unnoticed: looked at now and then */
	SN_DEAD,
	SN_LISTS,
};

struct sn_place {
	struct sn_qp *next, **link; /* link: the pointer to this QP; NULL: not in the list */
};

struct sn_qp {
	struct sn_dev *dev;
	struct sn_qp *dev_next, **dev_link, *reg_next, **reg_link;
	struct sn_place in[SN_LISTS];
	uint32_t qpn;
	struct sn_qp_attr attr;
	uint8_t *rq_buf, *sq_buf;
	_Atomic uint32_t *db;
	uint32_t reg; /* doorbell register; ~0: not known yet */
	uint32_t async_events;

	/* attributes by modify */
	enum ibv_qp_state state;
	struct ib_uverbs_qp_dest dest;
	struct {
		struct ib_uverbs_qp_dest dest;
		uint16_t pkey_index;
		uint8_t port, timeout;
	} alt; /* kept to be asked for; no packet takes that path */
	uint32_t access, qkey, dest_qpn, rq_psn, sq_psn;
	uint16_t pkey_index;
	uint8_t path_mtu, port, timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t max_rd_atomic, max_dest_rd_atomic, path_mig_state;
	int dst_host, dst_nic; /* -1: nobody has that address */
	uint64_t gen;

	struct sn_requester req;
	struct sn_responder rsp;
};

struct sn_qp *sn_qp_find(uint32_t nic, uint32_t qpn);
void sn_qp_set(struct sn_qp *qp, enum sn_list list); /* once there, it stays */
void sn_qp_unset(struct sn_qp *qp, enum sn_list list);
void sn_qp_set_busy(struct sn_qp *qp);
void sn_qp_stop(struct sn_qp *qp);
void sn_qp_enter_error(struct sn_qp *qp); /* and flush */
bool sn_qp_flush(struct sn_qp *qp);
/* sn_qp_flush() for requests that were posted in ERR. */
bool sn_qp_flush_posted(struct sn_qp *qp);
void sn_qp_free_all(struct sn_dev *dev);
bool sn_qp_needs_work(const struct sn_qp *qp);
bool sn_qp_waits(const struct sn_qp *qp); /* true: waits for answers, and for nothing else */

static inline bool sn_qp_is_connected(const struct sn_qp *qp)
{
	return qp->attr.type != IBV_QPT_UD;
}

#endif
