/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The root: one indirect key at each NIC (mlx5). The key's list has a range for each generation and
 * in it a place for each slot: the user's buffer behind those that are open, the null key behind
 * all others. A late packet arrives at a place that is no longer its message's: it is counted, and
 * written nowhere.
 *
 * A place is two entries, of the message's bytes and of what is left of the place. Their sum never
 * changes, since an entry that grew would move all places behind it; and the part behind the
 * message's end is null, too. Entries are rewritten four at a time (64 bytes), that is, with those
 * of the slot beside it as they are: mlx5_ib does the same to its own lists.
 *
 * A complete request means that nothing is written by the old entries any more: mlx5_ib unmaps
 * pages by that (its mlx5_ib_invalidate_range() zaps by UMR, and then frees).
 */
#include "sdr/nic/change.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>

enum {
	PAGE = 4096,
	TOGETHER = 4, /* entries */
	PER_PLACE = 2,
	CTRL = sizeof(struct mlx5_wqe_ctrl_seg),
	UMR = sizeof(struct mlx5_wqe_umr_ctrl_seg),
	MKEY = offsetof(struct mlx5_wqe_mkey_context_seg, inseg),
	ENTRY = sizeof(struct mlx5_wqe_umr_klm_seg),
	REQUEST = CTRL + UMR + MKEY + TOGETHER * ENTRY,
};

#define ENTRY_BYTES_MAX (1ull << 31)

struct root {
	struct ibv_mr *null;
	struct mlx5dv_mkey *key;
	struct mlx5_wqe_umr_klm_seg *entries; /* the entries after all requests are complete */
	uint32_t n_entries;
};

/* ---- places ---------------------------------------------------------------------------------- */

/*
 * Returns a place's bytes: somewhat more than a message's, so that something is left. An entry of
 * no bytes would be one of 2 GiB.
 */
static uint64_t place_bytes(const struct sdr_slots *s)
{
	return s->slot_size + PAGE;
}

static uint32_t place_of(const struct sdr_slots *s, uint32_t slot, uint32_t generation)
{
#ifdef SDR_ROOT_ONE_RANGE /* the paper's way; for a test that must fail */
	generation = 0;
#endif
	return generation * s->n + slot;
}

static struct mlx5_wqe_umr_klm_seg entry(uint64_t bytes, uint32_t key, uint64_t addr)
{
	return (struct mlx5_wqe_umr_klm_seg){ .byte_count = htobe32((uint32_t)bytes),
					      .mkey = htobe32(key),
					      .address = htobe64(addr) };
}

static void fill_place(struct root *r, uint32_t place, uint64_t bytes, uint64_t used, uint32_t key,
		       uint64_t addr)
{
	r->entries[place * PER_PLACE] = entry(used, key, addr);
	r->entries[place * PER_PLACE + 1] = entry(bytes - used, r->null->lkey, 0);
}

static void empty_place(struct root *r, uint32_t place, uint64_t bytes)
{
	fill_place(r, place, bytes, PAGE, r->null->lkey, 0);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The first one also makes the key what it is for good: so long, and writable. */
static void first_request(const struct root *r, uint64_t bytes, struct mlx5_wqe_umr_ctrl_seg *umr,
			  struct mlx5_wqe_mkey_context_seg *mkey)
{
	umr->mkey_mask = htobe64(
		MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY | MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE |
		MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC);
	mkey->access_flags = MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE |
			     MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE;
	mkey->qpn_mkey = htobe32(0xffffff00 | (r->key->rkey & 0xff));
	mkey->len = htobe64(bytes);
}

/* Each waits for the one before it: they change one list. */
static void build(const struct sdr_changer *c, uint32_t first, bool signaled, uint64_t bytes,
		  uint8_t *request)
{
	const struct root *r = c->priv;
	struct mlx5_wqe_ctrl_seg ctrl = {
		.opmod_idx_opcode = htobe32(MLX5_OPCODE_UMR),
		.qpn_ds = htobe32(c->channel.qp->qp_num << 8 | REQUEST / 16),
		.fm_ce_se = MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE |
			    (signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0),
		.imm = htobe32(r->key->rkey),
	};
	struct mlx5_wqe_umr_ctrl_seg umr = {
		.flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE | MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET,
		.klm_octowords = htobe16(TOGETHER),
		.translation_offset = htobe16((uint16_t)first),
	};
	struct mlx5_wqe_mkey_context_seg mkey = { 0 };

	if (bytes)
		first_request(r, bytes, &umr, &mkey);
	memcpy(request, &ctrl, CTRL);
	memcpy(request + CTRL, &umr, UMR);
	memcpy(request + CTRL + UMR, &mkey, MKEY);
	memcpy(request + CTRL + UMR + MKEY, &r->entries[first], TOGETHER * ENTRY);
}

static int post(struct sdr_changer *c, uint64_t id, const uint8_t *request)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(c->channel.qp);

	ibv_wr_start(qp);
	qp->wr_id = id;
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(qp), request);
	return -ibv_wr_complete(qp);
}

/* Not waited for: the changes of slots come behind it. */
static int post_all_empty(struct sdr_changer *c, const struct sdr_slots *s)
{
	struct root *r = c->priv;
	uint64_t bytes = s->n * s->generations * place_bytes(s);
	uint8_t request[REQUEST];
	int err = 0;

	for (uint32_t i = 0; i < r->n_entries / PER_PLACE; i++)
		empty_place(r, i, place_bytes(s));
	for (uint32_t i = 0; i < r->n_entries && !err; i += TOGETHER) {
		build(c, i, false, i ? 0 : bytes, request);
		err = post(c, 0, request);
	}
	return err;
}

static int root_ask(struct sdr_changer *c, const struct sdr_slots *s,
		    const struct sdr_change *change)
{
	uint32_t place = place_of(s, change->slot, change->generation);
	uint8_t request[REQUEST];

	if (change->length)
		fill_place(c->priv, place, place_bytes(s), change->length, change->mr->lkey,
			   change->addr);
	else
		empty_place(c->priv, place, place_bytes(s));
	build(c, place * PER_PLACE / TOGETHER * TOGETHER, true, 0, request);
	return post(c, change->slot, request);
}

static uint32_t root_rkey(const struct sdr_changer *c, uint32_t slot)
{
	(void)slot;
	return ((const struct root *)c->priv)->key->rkey;
}

static uint64_t root_place(const struct sdr_slots *s, const struct sdr_change *change)
{
	return place_of(s, change->slot, change->generation) * place_bytes(s);
}

/* ---- open, close ----------------------------------------------------------------------------- */

static void root_close(struct sdr_changer *c, const struct sdr_slots *s)
{
	struct root *r = c->priv;

	(void)s;
	sdr_channel_close(&c->channel);
	if (!r)
		return;
	if (r->key)
		mlx5dv_destroy_mkey(r->key);
	if (r->null)
		ibv_dereg_mr(r->null);
	free(r->entries);
	free(r);
	c->priv = NULL;
}

/* A queue pair for raw requests. That of a bind is as long as ours: libmlx5 leaves room for it. */
static int make_qp(struct sdr_changer *c, const struct sdr_nic *nic, uint32_t depth)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = c->channel.send_cq,
		.recv_cq = c->channel.recv_cq,
		.cap = { .max_send_wr = depth, .max_send_sge = 1 },
		.qp_type = IBV_QPT_UC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW,
		.pd = nic->pd,
	};
	struct mlx5dv_qp_init_attr direct = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
					      .send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = nic->port };

	c->channel.qp = mlx5dv_create_qp(nic->verbs, &init, &direct);
	if (!c->channel.qp)
		return -errno;
	return -ibv_modify_qp(c->channel.qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int make_channel(struct sdr_changer *c, const struct sdr_slots *s, const struct sdr_nic *nic,
			uint32_t n_entries)
{
	struct sdr_peer self = { .gid = nic->gid, .lid = nic->lid, .mtu = nic->mtu };
	int err;

	c->channel.send_cq = ibv_create_cq(nic->verbs, (int)s->n, NULL, NULL, 0);
	c->channel.recv_cq = ibv_create_cq(nic->verbs, 1, NULL, NULL, 0);
	if (!c->channel.send_cq || !c->channel.recv_cq)
		return -errno;
	err = make_qp(c, nic, n_entries / TOGETHER + s->n);
	return err ? err : sdr_channel_connect(&c->channel, nic, &self, c->channel.qp->qp_num);
}

static int make_keys(struct root *r, const struct sdr_nic *nic)
{
	struct mlx5dv_mkey_init_attr attr = { .pd = nic->pd,
					      .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					      .max_entries = (uint16_t)r->n_entries };

	r->null = ibv_alloc_null_mr(nic->pd);
	r->key = r->null ? mlx5dv_create_mkey(&attr) : NULL;
	if (!r->key)
		return errno == ENOMEM ? -ENOMEM : -EOPNOTSUPP;
	r->entries = calloc(r->n_entries, sizeof(*r->entries));
	return r->entries ? 0 : -ENOMEM;
}

static int root_open(struct sdr_changer *c, const struct sdr_slots *s, uint32_t nic_index)
{
	const struct sdr_nic *nic = sdr_slots_nic(s, nic_index);
	uint64_t places = (uint64_t)s->n * s->generations, entries = places * PER_PLACE;
	struct root *r;
	int err;

	entries = (entries + TOGETHER - 1) / TOGETHER * TOGETHER;
	if (!mlx5dv_is_supported(nic->verbs->device))
		return -EOPNOTSUPP;
	if (entries > UINT16_MAX)
		return -EINVAL;
	if (place_bytes(s) > ENTRY_BYTES_MAX)
		return -EMSGSIZE;
	c->priv = r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->n_entries = (uint32_t)entries;
	err = make_keys(r, nic);
	if (!err)
		err = make_channel(c, s, nic, r->n_entries);
	return err ? err : post_all_empty(c, s);
}

static int roots_open(struct sdr_slots *s)
{
	static const struct sdr_change_kind kind = { .open = root_open,
						     .close = root_close,
						     .ask = root_ask,
						     .rkey = root_rkey,
						     .place = root_place };

	return sdr_changes_open(s, &kind);
}

const struct sdr_slots_ops sdr_slots_root = {
	.open = roots_open,
	SDR_CHANGES_OPS,
};
