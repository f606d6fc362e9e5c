/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Checks of mlx5's indirect keys, lists of parts of other keys that requests change four entries
 * at a time, and of the null key in such a list: SDR's backend root is made of these.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stddef.h>
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/uc.h"

#define BYTES	64u
#define PART	4096u	    /* bytes of an entry */
#define MARK	(64u << 10) /* place in the arena for the packet behind all others */
#define ENTRIES 8u
#define FOUR	4u

struct list {
	struct pr_uc pair;
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* queue pair for requests that change the list */
	struct ibv_mr *null, *mr;
	struct mlx5dv_mkey *key;
};

enum {
	CTRL = sizeof(struct mlx5_wqe_ctrl_seg),
	UMR = sizeof(struct mlx5_wqe_umr_ctrl_seg),
	MKEY = offsetof(struct mlx5_wqe_mkey_context_seg, inseg),
	ENTRY = sizeof(struct mlx5_wqe_umr_klm_seg),
	REQUEST = CTRL + UMR + MKEY + FOUR * ENTRY,
};

/* ---- made ------------------------------------------------------------------------------------ */

static int keys_make(struct list *l, struct pr_dev *dev)
{
	struct mlx5dv_mkey_init_attr attr = { .pd = dev->pd,
					      .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					      .max_entries = ENTRIES };

	l->null = ibv_alloc_null_mr(dev->pd);
	if (!l->null)
		return pr_fail("this NIC has no null key (%s)", strerror(errno));
	l->key = mlx5dv_create_mkey(&attr);
	if (!l->key)
		return pr_fail("there are no indirect keys here, or no commands of a program's "
			       "own, by which they are made (%s)",
			       strerror(errno));
	l->mr = ibv_reg_mr(dev->pd, dev->mem, ENTRIES * PART, IBV_ACCESS_LOCAL_WRITE);
	return l->mr ? 0 : pr_fail("cannot register memory: %s", strerror(errno));
}

static int to_rts(struct list *l, struct pr_dev *dev)
{
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr =
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	if (ibv_modify_qp(l->qp, &attr, init))
		return -1;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = dev->port.active_mtu,
				     .dest_qp_num = l->qp->qp_num };
	pr_ah_fill(dev, &dev->gid, dev->port.lid, &attr.ah_attr);
	if (ibv_modify_qp(l->qp, &attr, rtr))
		return -1;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	return ibv_modify_qp(l->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) ? -1 : 0;
}

/*
 * Makes a queue pair for raw requests. A request that binds is as long as ours: libmlx5 leaves
 * room for it.
 */
static int qp_make(struct list *l, struct pr_dev *dev)
{
	struct ibv_qp_init_attr_ex init = {
		.cap = { .max_send_wr = UC_WR, .max_send_sge = 1 },
		.qp_type = IBV_QPT_UC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW,
		.pd = dev->pd,
	};
	struct mlx5dv_qp_init_attr direct = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
					      .send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE };

	l->cq = ibv_create_cq(dev->ctx, UC_WR, NULL, NULL, 0);
	if (!l->cq)
		return pr_fail("cannot make a completion queue: %s", strerror(errno));
	init.send_cq = init.recv_cq = l->cq;
	l->qp = mlx5dv_create_qp(dev->ctx, &init, &direct);
	if (!l->qp)
		return pr_fail("this NIC takes no raw requests (%s)", strerror(errno));
	return to_rts(l, dev) ? pr_fail("a queue pair for raw requests cannot be connected") : 0;
}

static void list_close(struct list *l)
{
	pr_uc_close(&l->pair);
	if (l->qp)
		ibv_destroy_qp(l->qp);
	if (l->cq)
		ibv_destroy_cq(l->cq);
	if (l->mr)
		ibv_dereg_mr(l->mr);
	if (l->key)
		mlx5dv_destroy_mkey(l->key);
	if (l->null)
		ibv_dereg_mr(l->null);
}

/* ---- changed --------------------------------------------------------------------------------- */

/*
 * Fills four entries from @first on: all with the null key, except @own, which is the arena at the
 * entry's own place. own == ENTRIES: no exception.
 */
static void entries_fill(const struct list *l, uint32_t first, uint32_t own, uint8_t *at)
{
	for (uint32_t i = 0; i < FOUR; i++) {
		bool mine = first + i == own;
		struct mlx5_wqe_umr_klm_seg entry = {
			.byte_count = htobe32(PART),
			.mkey = htobe32(mine ? l->mr->lkey : l->null->lkey),
			.address =
				htobe64(mine ? (uintptr_t)l->mr->addr + (uint64_t)own * PART : 0),
		};

		memcpy(at + i * ENTRY, &entry, ENTRY);
	}
}

/* The first request makes the key what it is: so long, and writable. */
static void attributes_fill(const struct list *l, struct mlx5_wqe_umr_ctrl_seg *umr,
			    struct mlx5_wqe_mkey_context_seg *mkey)
{
	umr->mkey_mask = htobe64(
		MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY | MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE);
	mkey->access_flags = MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE |
			     MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE;
	mkey->qpn_mkey = htobe32(0xffffff00 | (l->key->rkey & 0xff));
	mkey->len = htobe64((uint64_t)ENTRIES * PART);
}

static int await(struct list *l)
{
	uint64_t end_ns = pr_now_ns() + UC_LONG_MS * 1000000ull;
	struct ibv_wc wc;

	while (ibv_poll_cq(l->cq, 1, &wc) != 1) {
		if (pr_now_ns() > end_ns)
			return pr_fail("a request that changes a list does not complete");
		pr_nap_us(20);
	}
	return wc.status ? pr_fail("a request that changes a list ends with: %s",
				   ibv_wc_status_str(wc.status))
			 : 0;
}

static int list_change(struct list *l, uint32_t first, uint32_t own, bool attributes)
{
	struct mlx5_wqe_ctrl_seg ctrl = {
		.opmod_idx_opcode = htobe32(MLX5_OPCODE_UMR),
		.qpn_ds = htobe32(l->qp->qp_num << 8 | REQUEST / 16),
		.fm_ce_se = MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE | MLX5_WQE_CTRL_CQ_UPDATE,
		.imm = htobe32(l->key->rkey),
	};
	struct mlx5_wqe_umr_ctrl_seg umr = {
		.flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE | MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET,
		.klm_octowords = htobe16(FOUR),
		.translation_offset = htobe16((uint16_t)first),
	};
	struct mlx5_wqe_mkey_context_seg mkey = { 0 };
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(l->qp);
	uint8_t request[REQUEST];

	if (attributes)
		attributes_fill(l, &umr, &mkey);
	memcpy(request, &ctrl, CTRL);
	memcpy(request + CTRL, &umr, UMR);
	memcpy(request + CTRL + UMR, &mkey, MKEY);
	entries_fill(l, first, own, request + CTRL + UMR + MKEY);
	ibv_wr_start(qp);
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(qp), request);
	return ibv_wr_complete(qp) ? pr_fail("a raw request cannot be posted") : await(l);
}

static int list_open(struct list *l, struct probe *p)
{
	memset(l, 0, sizeof(*l));
	if (!p->dev.rings)
		return pr_fail("indirect keys are libmlx5's, and this NIC has another provider");
	if (!pr_uc_open(&l->pair, &p->dev) && !keys_make(l, &p->dev) && !qp_make(l, &p->dev))
		return 0;
	list_close(l);
	return -1;
}

/* ---- written to ------------------------------------------------------------------------------ */

/* The fate of a packet to an entry, and of the packet behind it. */
struct fate {
	bool completed, written, next;
};

static int entry_write(struct probe *p, struct list *l, uint32_t entry, uint32_t imm,
		       struct fate *fate)
{
	struct pr_uc_write write = pr_uc_packet(&l->pair, imm, entry * PART, BYTES);
	struct pr_uc_write mark = pr_uc_packet(&l->pair, UC_MARK, MARK, BYTES);
	struct pr_uc_seen seen;

	memset(p->dev.mem + entry * PART, 0, BYTES);
	write.to = entry * PART;
	write.rkey = l->key->rkey;
	if (pr_uc_recv(&l->pair, 2) || pr_uc_write(&l->pair, &write) ||
	    pr_uc_write(&l->pair, &mark))
		return -1;
	pr_uc_look(&l->pair, UC_MARK, &seen);
	*fate = (struct fate){ .completed = seen.n && seen.imm[0] == imm,
			       .written = pr_pattern_is(p->dev.mem + entry * PART, BYTES, imm),
			       .next = seen.last };
	return 0;
}

static bool is_taken(const struct fate *fate)
{
	return fate->completed && fate->written && fate->next;
}

static bool is_swallowed(const struct fate *fate)
{
	return fate->completed && !fate->written && fate->next;
}

/* All entries but one are null. */
static int list_begin(struct list *l, uint32_t own)
{
	return list_change(l, 0, own, true) || list_change(l, FOUR, own, false) ? -1 : 0;
}

/* ---- null-key -------------------------------------------------------------------------------- */

static enum pr_verdict null_tried(struct probe *p, struct list *l, struct pr_result *r)
{
	struct fate null, own;

	if (list_begin(l, 1) || entry_write(p, l, 0, 1, &null) || entry_write(p, l, 1, 2, &own))
		return PR_CANNOT_TELL;
	pr_note(r, "null_completed", null.completed);
	pr_note(r, "null_written", null.written);
	pr_note(r, "own_completed", own.completed);
	pr_note(r, "own_written", own.written);
	if (!is_swallowed(&null))
		return pr_fails(r, "a packet to an entry of the null key is %s",
				null.written ? "written"
				: !null.next ? "the last that is taken"
					     : "dropped, without a completion");
	return is_taken(&own) ? PR_HOLDS
			      : pr_fails(r, "a packet to an entry beside one of the null key is "
					    "not taken");
}

enum pr_verdict check_null_key(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct list l;

	if (list_open(&l, p))
		return PR_CANNOT_TELL;
	verdict = null_tried(p, &l, r);
	list_close(&l);
	return verdict;
}

/* ---- umr-offset ------------------------------------------------------------------------------ */

static enum pr_verdict offset_tried(struct probe *p, struct list *l, struct pr_result *r)
{
	struct fate low, high, closed, still;

	/*
	 * Entry 1 is the arena's; then entry 5 is too, by a request for the second four; then no
	 * longer.
	 */
	if (list_begin(l, 1) || list_change(l, FOUR, 5, false) || entry_write(p, l, 1, 1, &low) ||
	    entry_write(p, l, 5, 2, &high) || list_change(l, FOUR, ENTRIES, false) ||
	    entry_write(p, l, 5, 3, &closed) || entry_write(p, l, 1, 4, &still))
		return PR_CANNOT_TELL;
	pr_note(r, "entries", ENTRIES);
	pr_note(r, "changed_reached", is_taken(&high));
	pr_note(r, "others_kept", is_taken(&low) && is_taken(&still));
	pr_note(r, "closed", is_swallowed(&closed));
	if (!is_taken(&high) || !is_taken(&low) || !is_taken(&still))
		return pr_fails(r, "a request that names four entries of a list changes others, or "
				   "not these");
	return is_swallowed(&closed) ? PR_HOLDS
				     : pr_fails(r, "an entry that was taken back is written to");
}

enum pr_verdict check_umr_offset(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct list l;

	if (list_open(&l, p))
		return PR_CANNOT_TELL;
	verdict = offset_tried(p, &l, r);
	list_close(&l);
	return verdict;
}
