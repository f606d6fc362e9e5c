/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shift/shift_uid.h: the protocol over a queue pair. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "include/shift/shift_uid.h"
#include "uid/protocol.h"

#define API __attribute__((visibility("default")))

enum { SPINS = 200 };

struct shift_uid {
	struct uid_line line; /* first */
	struct uid_machine machine;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct uid_record memory[UID_REQUESTS];
};

/* ---- at the responder ------------------------------------------------------------------------ */

API size_t shift_uid_region_size(void)
{
	return UID_INSTANCES * UID_SLOTS * sizeof(struct uid_record);
}

API void shift_uid_region_init(void *region)
{
	struct uid_record *record = region;
	uint32_t i;

	memset(region, 0, shift_uid_region_size());
	for (i = 0; i < UID_INSTANCES * UID_SLOTS; i++)
		record[i].state = uid_first_state((uint8_t)(i / UID_SLOTS));
}

/*
 * The UID was in the word before the look at its record and after it, and a UID comes there only
 * once: so the record was the UID's own.
 */
API uint64_t shift_uid_value(const void *region, const uint64_t *word)
{
	const struct uid_record *records = region;
	uint64_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE), swap;

	while (uid_is_uid(value)) {
		uint64_t uid = value;

		swap = __atomic_load_n(&records[uid_place(uid)].swap, __ATOMIC_ACQUIRE);
		value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		if (value == uid)
			return swap;
	}
	return value;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void fill_cas(struct ibv_send_wr *wr, const struct uid_request *r)
{
	wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr->wr.atomic.remote_addr = r->addr;
	wr->wr.atomic.rkey = r->rkey;
	wr->wr.atomic.compare_add = r->compare;
	wr->wr.atomic.swap = r->swap;
}

static void fill_move(struct ibv_send_wr *wr, const struct uid_request *r)
{
	wr->opcode = r->verb == UID_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	wr->wr.rdma.remote_addr = r->addr;
	wr->wr.rdma.rkey = r->rkey;
}

static char *data_of(const struct uid_request *r)
{
	return (char *)r->data + r->from;
}

static void fill(struct shift_uid *uid, const struct uid_request *r, uint32_t i,
		 struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	struct uid_record *memory = &uid->memory[i];
	uint32_t bytes = r->verb == UID_CAS ? sizeof(memory->state) : r->bytes;

	*sge = (struct ibv_sge){ (uintptr_t)memory, bytes, uid->mr->lkey };
	*wr = (struct ibv_send_wr){
		.wr_id = i, .sg_list = sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED
	};
	if (r->verb == UID_CAS) {
		memory->state = r->old;
		fill_cas(wr, r);
		return;
	}
	if (r->verb == UID_WRITE)
		memcpy(memory, data_of(r), bytes);
	fill_move(wr, r);
}

/*
 * Awaits the requests that were posted, even after an error: the NIC may use the memory until
 * then.
 */
static int await(struct shift_uid *uid, uint32_t n)
{
	uint32_t got = 0, spins = 0;
	struct ibv_wc wc;
	int ret = 0, polled;

	while (got < n) {
		polled = ibv_poll_cq(uid->cq, 1, &wc);
		if (polled < 0)
			return ECONNRESET;
		if (!polled) {
			if (++spins > SPINS)
				sched_yield();
			continue;
		}
		got++;
		if (wc.status != IBV_WC_SUCCESS)
			ret = ECONNRESET;
	}
	return ret;
}

static void take(struct shift_uid *uid, struct uid_request *r, uint32_t i)
{
	if (r->verb == UID_CAS)
		r->old = uid->memory[i].state;
	else if (r->verb == UID_READ)
		memcpy(data_of(r), &uid->memory[i], r->bytes);
}

static int run(struct uid_line *line, struct uid_request *requests, uint32_t n)
{
	struct shift_uid *uid = (struct shift_uid *)line;
	struct ibv_send_wr wr[UID_REQUESTS], *bad = NULL;
	struct ibv_sge sge[UID_REQUESTS];
	uint32_t i, posted = n;
	int ret;

	for (i = 0; i < n; i++) {
		fill(uid, &requests[i], i, &wr[i], &sge[i]);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	if (ibv_post_send(uid->qp, wr, &bad))
		posted = bad ? (uint32_t)(bad - wr) : 0;
	ret = await(uid, posted);
	if (ret || posted < n)
		return ECONNRESET;
	for (i = 0; i < n; i++)
		take(uid, &requests[i], i);
	return 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int uid_register(struct shift_uid *uid, const struct shift_uid_attr *attr)
{
	uid->mr =
		ibv_reg_mr(attr->qp->pd, uid->memory, sizeof(uid->memory), IBV_ACCESS_LOCAL_WRITE);
	if (!uid->mr)
		return errno ? errno : ENOMEM;
	return uid_open(&uid->machine);
}

API struct shift_uid *shift_uid_open(const struct shift_uid_attr *attr)
{
	struct shift_uid *uid = calloc(1, sizeof(*uid));
	int ret;

	if (!uid)
		return NULL;
	uid->line.run = run;
	uid->qp = attr->qp;
	uid->cq = attr->cq;
	uid->machine = (struct uid_machine){ .line = &uid->line,
					     .region = attr->region,
					     .rkey = attr->rkey,
					     .instance = attr->instance };
	ret = uid_register(uid, attr);
	if (!ret)
		return uid;
	shift_uid_close(uid);
	errno = ret;
	return NULL;
}

API void shift_uid_close(struct shift_uid *uid)
{
	if (uid->mr)
		ibv_dereg_mr(uid->mr);
	free(uid);
}

API int shift_uid_cas(struct shift_uid *uid, uint64_t addr, uint32_t rkey, uint64_t expect,
		      uint64_t swap, uint64_t *old)
{
	int ret = uid_begin_cas(&uid->machine, addr, rkey, expect, swap);

	return ret ? ret : uid_finish(&uid->machine, old);
}

API int shift_uid_faa(struct shift_uid *uid, uint64_t addr, uint32_t rkey, uint64_t add,
		      uint64_t *old)
{
	int ret = uid_begin_faa(&uid->machine, addr, rkey, add);

	return ret ? ret : uid_finish(&uid->machine, old);
}

API int shift_uid_read(struct shift_uid *uid, uint64_t addr, uint32_t rkey, uint64_t *value)
{
	return uid_read(&uid->machine, addr, rkey, value);
}

API int shift_uid_resume(struct shift_uid *uid, struct ibv_qp *qp, struct ibv_cq *cq, uint64_t *old)
{
	uid->qp = qp;
	uid->cq = cq;
	return uid_finish(&uid->machine, old);
}
