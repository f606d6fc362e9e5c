/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completions of QPs that libmlx5 posts, between start_poll and end_poll of a CQ that the engine
 * drives. libmlx5 polls the private CQ, which is extended like the program's. What its readers
 * return is laid into a CQE that the engine's readers look at.
 */
#include "providers/mlx5/cqe.h"
#include "providers/mlx5/foreign.h"

/* A program's CQ has the readers that it asked for; the private CQ has the same. */
#define READ(ex, what) ((ex)->read_##what ? (ex)->read_##what(ex) : 0)

static void read_wc(struct ibv_cq_ex *ex, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){ .wr_id = ex->wr_id, .status = ex->status };
	wc->qp_num = READ(ex, qp_num);
	if (ex->status != IBV_WC_SUCCESS) {
		wc->vendor_err = ex->read_vendor_err(ex);
		return;
	}
	wc->opcode = ex->read_opcode(ex);
	wc->wc_flags = ex->read_wc_flags(ex);
	wc->byte_len = READ(ex, byte_len);
	wc->imm_data = READ(ex, imm_data);
	wc->src_qp = READ(ex, src_qp);
	wc->slid = (uint16_t)READ(ex, slid);
	wc->sl = READ(ex, sl);
	wc->dlid_path_bits = READ(ex, dlid_path_bits);
}

static void lay_success(const struct ibv_wc *wc, struct mlx5_cqe64 *cqe)
{
	cqe->op_own = RING_CQE_FOREIGN << 4;
	cqe->wqe_counter = htobe16((uint16_t)wc->wc_flags);
	cqe->flags_rqpn = htobe32((wc->sl & 0xfu) << 24 | (wc->src_qp & 0xffffff));
	cqe->byte_cnt = htobe32(wc->byte_len);
	cqe->imm_inval_pkey = wc->imm_data;
	cqe->slid = htobe16(wc->slid);
	cqe->ml_path = wc->dlid_path_bits;
}

static void lay(const struct ibv_wc *wc, struct ring_comp *comp, struct mlx5_cqe64 *cqe)
{
	bool success = wc->status == IBV_WC_SUCCESS;

	*comp = (struct ring_comp){ .cqe = cqe,
				    .cqpn = RING_NO_QPN,
				    .wr_id = wc->wr_id,
				    .qpn = wc->qp_num,
				    .status = (uint8_t)wc->status,
				    .op = success ? (uint8_t)wc->opcode : 0 };
	*cqe = (struct mlx5_cqe64){ .op_own = MLX5_CQE_RESP_ERR << 4 };
	if (success)
		lay_success(wc, cqe);
	else
		((struct mlx5_err_cqe *)cqe)->vendor_err_synd = (uint8_t)wc->vendor_err;
}

/* Lays what poll_cq does not return. A tag-matching header lies where it does on stock. */
static void lay_more(struct ibv_cq_ex *ex, struct mlx5_cqe64 *cqe)
{
	struct ibv_wc_tm_info tm;

	cqe->timestamp = htobe64(READ(ex, completion_ts));
	cqe->vlan_info = htobe16(READ(ex, cvlan));
	cqe->sop_drop_qpn = htobe32(READ(ex, flow_tag));
	if (!ex->read_tm_info)
		return;
	ex->read_tm_info(ex, &tm);
	cqe->tmh.tag = htobe64(tm.tag);
	cqe->tmh.app_ctx = htobe32(tm.priv);
}

static bool next_of(struct ring_foreign *f, struct ring_comp *comp, struct mlx5_cqe64 *cqe)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)f->cq;
	struct ibv_wc wc;

	if (ring_kept_take(&f->kept, 1, &wc)) {
		lay(&wc, comp, cqe);
		return true;
	}
	if (ibv_start_poll(ex, &(struct ibv_poll_cq_attr){ 0 }))
		return false;
	read_wc(ex, &wc);
	lay(&wc, comp, cqe);
	if (wc.status == IBV_WC_SUCCESS)
		lay_more(ex, cqe);
	ibv_end_poll(ex);
	return true;
}

bool ring_foreign_next(struct sp_cq *cq, bool fed, struct ring_comp *comp, struct ring_entry *soft)
{
	for (struct ring_foreign *f = cq->foreign; f; f = f->next)
		if (!f->muted && (!fed || f->fed) && next_of(f, comp, &soft->cqe))
			return true;
	return false;
}
