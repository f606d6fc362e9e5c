/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Indirect keys and the null key under the distribution's libibverbs and libmlx5: a list of parts of other keys, made by
 * libmlx5 or entry by entry with raw requests, and what is written by it. One argument: eth or ib.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/simnic_rig.h"

enum {
	PART = 4096,
	ENTRIES = 16,
	FROM = 256 * PART,
	MARK = 512 * PART,
	CTRL = sizeof(struct mlx5_wqe_ctrl_seg),
	UMR = sizeof(struct mlx5_wqe_umr_ctrl_seg),
	MKEY = sizeof(struct mlx5_wqe_mkey_context_seg),
	RAW = CTRL + UMR + MKEY + 4 * sizeof(struct mlx5_wqe_umr_klm_seg),
	WRITES = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
};

static const struct rig_conn uc = { .type = IBV_QPT_UC, .access = IBV_ACCESS_REMOTE_WRITE };
static const struct rig_conn rc = { IBV_QPT_RC, RIG_TIMEOUT, 1, 7, IBV_ACCESS_REMOTE_WRITE, false };
static const struct rig_conn *conn;
static struct ibv_mr *null_mr, *marker;
static struct mlx5dv_mkey *key;
static struct ibv_qp *changer; /* whose requests change the key */

/* ---- the two queue pairs -------------------------------------------------------------------- */

static struct ibv_qp *make_changer(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = rig.cq,
		.recv_cq = rig.cq,
		.qp_type = type,
		.cap = { RIG_DEPTH, 1, 4, 1, 512 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_LOCAL_INV,
		.pd = rig.pd,
	};
	struct mlx5dv_qp_init_attr direct = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
					      .send_ops_flags = ops };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp *qp = mlx5dv_create_qp(rig.ctx, &init, &direct);

	if (!qp ||
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return NULL;
	return qp;
}

static int connect_changer(struct rig_addr self)
{
	struct ibv_qp *data = rig.qp;
	int err;

	self.qpn = changer->qp_num;
	rig.qp = changer;
	err = rig_qp_to_rts(&rig, conn, &self);
	rig.qp = data;
	return err;
}

static struct mlx5dv_mkey *make_key(uint16_t entries)
{
	struct mlx5dv_mkey_init_attr attr = { .pd = rig.pd,
					      .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					      .max_entries = entries };

	return mlx5dv_create_mkey(&attr);
}

static int start(const struct rig_conn *how, uint64_t ops)
{
	struct rig_addr self;

	conn = how;
	if (rig_open(&rig, IBV_ACCESS_LOCAL_WRITE) || rig_loopback(how, &self))
		return -1;
	marker = ibv_reg_mr(rig.pd, rig.mem + MARK, PART, WRITES);
	null_mr = ibv_alloc_null_mr(rig.pd);
	key = make_key(ENTRIES);
	changer = make_changer(how->type, ops);
	return marker && null_mr && key && changer ? connect_changer(self) : -1;
}

static int start_uc(void **state)
{
	return start(&uc, MLX5DV_QP_EX_WITH_RAW_WQE);
}

static int start_rc(void **state)
{
	return start(&rc, MLX5DV_QP_EX_WITH_RAW_WQE | MLX5DV_QP_EX_WITH_MR_LIST |
				  MLX5DV_QP_EX_WITH_MR_INTERLEAVED);
}

static int finish(void **state)
{
	if (key && mlx5dv_destroy_mkey(key))
		return -1;
	key = NULL;
	ibv_destroy_qp(changer);
	ibv_dereg_mr(null_mr);
	ibv_dereg_mr(marker);
	rig_close(&rig);
	return 0;
}

/* ---- changing the key ----------------------------------------------------------------------- */

struct change {
	uint8_t flags;
	uint64_t mask, length;
	uint8_t rights, fm_ce_se;
	uint16_t first, n; /* n: how many it says */
	struct ibv_sge entries[4];
};

static void raw_of(const struct change *c, uint8_t *raw)
{
	struct mlx5_wqe_ctrl_seg ctrl = { .opmod_idx_opcode = htobe32(MLX5_OPCODE_UMR),
					  .qpn_ds = htobe32(changer->qp_num << 8 | RAW / 16),
					  .fm_ce_se = c->fm_ce_se,
					  .imm = htobe32(key->rkey) };
	struct mlx5_wqe_umr_ctrl_seg umr = { .flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE | c->flags,
					     .klm_octowords = htobe16(c->n),
					     .translation_offset = htobe16(c->first),
					     .mkey_mask = htobe64(c->mask) };
	struct mlx5_wqe_mkey_context_seg mkey = { .access_flags = c->rights,
						  .qpn_mkey = htobe32(0xffffff00),
						  .len = htobe64(c->length) };

	memcpy(raw, &ctrl, CTRL);
	memcpy(raw + CTRL, &umr, UMR);
	memcpy(raw + CTRL + UMR, &mkey, MKEY);
	for (int i = 0; i < 4; i++) {
		struct mlx5_wqe_umr_klm_seg klm = { htobe32(c->entries[i].length),
						    htobe32(c->entries[i].lkey),
						    htobe64(c->entries[i].addr) };

		memcpy(raw + CTRL + UMR + MKEY + i * sizeof(klm), &klm, sizeof(klm));
	}
}

static void put_raw(const struct change *c)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(changer);
	uint8_t raw[RAW];

	raw_of(c, raw);
	ex->wr_id = 7;
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), raw);
}

static int change(struct change c)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(changer);
	struct ibv_wc wc = { 0 };
	int status;

	c.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	ibv_wr_start(ex);
	put_raw(&c);
	assert_int_equal(ibv_wr_complete(ex), 0);
	status = rig_poll(&wc);
	assert_int_equal(wc.wr_id, 7);
	if (!status)
		assert_int_equal(wc.opcode, IBV_WC_DRIVER2);
	return status;
}

static struct ibv_sge part(uint32_t at)
{
	return rig_sge(at * PART, PART);
}

static struct ibv_sge nothing(void)
{
	return (struct ibv_sge){ 0, PART, null_mr->lkey };
}

#define ALL_MASKS                                                                                  \
	(MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE |                      \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY | MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE |       \
	 MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE)
#define ALL_RIGHTS                                                                                 \
	(MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE |                                          \
	 MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE)

/* The first request to a key: it is in use from now on, for the first four entries or as many bytes as is said. */
static struct change enable(uint64_t length)
{
	return (struct change){ .mask = ALL_MASKS,
				.rights = ALL_RIGHTS,
				.length = length,
				.n = 4,
				.flags = MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET };
}

static void enable_all_of_nothing(void)
{
	struct change c = enable(ENTRIES * PART);

	for (c.first = 0; c.first < ENTRIES; c.first += 4) {
		for (int i = 0; i < 4; i++)
			c.entries[i] = nothing();
		assert_int_equal(change(c), 0);
		c.mask = 0;
	}
}

static struct change at_entry(uint16_t first, uint32_t a, uint32_t b)
{
	return (struct change){ .first = first,
				.n = 4,
				.flags = MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET,
				.entries = { part(a), part(b), nothing(), nothing() } };
}

/* ---- writing by it -------------------------------------------------------------------------- */

static int post_write(uint32_t rkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = rig_sge(FROM, length);
	struct ibv_send_wr wr = { .wr_id = 8,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
	return rig_poll(&wc);
}

/* Behind what left on UC goes a byte by the marker's own key: when that is there, all before it had its turn. */
static int write_to(uint64_t offset, uint32_t length)
{
	volatile uint8_t *mark = rig.mem + MARK;
	int status;

	for (uint32_t i = 0; i < length; i++)
		rig.mem[FROM + i] = (uint8_t)(i / 16 + i / PART + 1);
	*mark = 0;
	status = post_write(key->rkey, offset, length);
	if (status || rig.qp->qp_type != IBV_QPT_UC)
		return status;
	assert_int_equal(post_write(marker->rkey, (uintptr_t)rig.mem + MARK, 1), 0);
	for (int i = 0; i < 20000 && !*mark; i++)
		usleep(500);
	assert_true(*mark);
	return 0;
}

static void clear(void)
{
	memset(rig.mem, 0, 64 * PART);
}

/* All of memory is as it was cleared, but for @bytes from @at on, which are those of the message from @from on. */
static void only(uint32_t at, uint32_t from, uint32_t bytes)
{
	assert_memory_equal(rig.mem + at, rig.mem + FROM + from, bytes);
	memset(rig.mem + at, 0, bytes);
}

static void nothing_more(void)
{
	for (uint32_t i = 0; i < 64 * PART; i++)
		assert_int_equal(rig.mem[i], 0);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void refused(uint64_t offset, uint32_t length)
{
	clear();
	assert_int_equal(write_to(offset, length), 0);
	nothing_more();
	assert_int_equal(state_of(rig.qp), IBV_QPS_RTS);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void list_is_one_behind_the_other(void **state)
{
	struct change c = enable(3 * PART + 100);

	c.entries[0] = part(5);
	c.entries[1] = part(2);
	c.entries[2] = part(9);
	c.entries[3] = rig_sge(20 * PART + 7, 100);
	assert_int_equal(change(c), 0);
	clear();
	assert_int_equal(write_to(0, 3 * PART + 100), 0);
	only(5 * PART, 0, PART);
	only(2 * PART, PART, PART);
	only(9 * PART, 2 * PART, PART);
	only(20 * PART + 7, 3 * PART, 100);
	nothing_more();
	assert_int_equal(write_to(PART - 3, 10), 0);
	only(5 * PART + PART - 3, 0, 3);
	only(2 * PART, 3, 7);
	nothing_more();
	refused(3 * PART, 101);
	refused(1ull << 40, 1);
}

static void null_part_takes_and_keeps_nothing(void **state)
{
	enable_all_of_nothing();
	clear();
	assert_int_equal(write_to(0, ENTRIES * PART), 0);
	nothing_more();
	assert_int_equal(change(at_entry(4, 1, 2)), 0);
	assert_int_equal(write_to(3 * PART + 100, 3 * PART), 0);
	only(1 * PART, PART - 100, PART);
	only(2 * PART, 2 * PART - 100, PART);
	nothing_more();
	assert_int_equal(state_of(rig.qp), IBV_QPS_RTS);
}

/* What was written goes nowhere, also not to who reads the null key. */
static void null_key_is_zeros_here_and_dead_there(void **state)
{
	struct ibv_sge sge = { 12345, PART, null_mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	enable_all_of_nothing();
	assert_int_equal(write_to(0, 2 * PART), 0);
	memset(rig.mem + MARK, 0x77, PART);
	wr.wr.rdma.remote_addr = (uintptr_t)rig.mem + MARK;
	wr.wr.rdma.rkey = marker->rkey;
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
	assert_int_equal(rig_poll(&wc), 0);
	assert_memory_equal(rig.mem + MARK, (uint8_t[PART]){ 0 }, PART);
	/* As its own responder the QP stops first, and flushes its own request. */
	assert_int_not_equal(post_write(null_mr->lkey, 0, 1), 0);
	assert_int_equal(state_of(rig.qp), IBV_QPS_ERR);
}

static void offset_changes_its_entries_alone(void **state)
{
	enable_all_of_nothing();
	assert_int_equal(change(at_entry(0, 1, 2)), 0);
	assert_int_equal(change(at_entry(12, 3, 4)), 0);
	clear();
	assert_int_equal(write_to(0, ENTRIES * PART), 0);
	only(1 * PART, 0, PART);
	only(2 * PART, PART, PART);
	only(3 * PART, 12 * PART, PART);
	only(4 * PART, 13 * PART, PART);
	nothing_more();
	assert_int_equal(change(at_entry(12, 6, 4)), 0);
	assert_int_equal(write_to(12 * PART, PART), 0);
	only(6 * PART, 0, PART);
	nothing_more();
}

static void offsets_are_of_four_entries_and_within(void **state)
{
	enable_all_of_nothing();
	assert_int_not_equal(change(at_entry(2, 1, 2)), 0);
	assert_int_equal(state_of(changer), IBV_QPS_ERR);
	refused(2 * PART, PART);
}

static void entries_behind_the_last_are_refused(void **state)
{
	enable_all_of_nothing();
	assert_int_equal(change(at_entry(ENTRIES, 1, 2)), IBV_WC_MW_BIND_ERR);
	assert_int_equal(state_of(changer), IBV_QPS_ERR);
}

static void key_is_no_longer_than_its_list(void **state)
{
	struct change c = { .mask = MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN,
			    .length = 2 * ENTRIES * PART,
			    .n = 4,
			    .first = 12,
			    .flags = MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET,
			    .entries = { part(1), part(2), part(3), part(4) } };

	enable_all_of_nothing();
	assert_int_equal(change(c), 0);
	refused((ENTRIES - 1) * PART, 2 * PART);
	clear();
	assert_int_equal(write_to((ENTRIES - 1) * PART, PART), 0);
	only(4 * PART, 0, PART);
}

static void entries_must_be_in_the_request(void **state)
{
	struct change c = at_entry(0, 1, 2);

	enable_all_of_nothing();
	c.n = 8;
	assert_int_not_equal(change(c), 0);
	refused(0, PART);
}

static void check_of_free_is_made(void **state)
{
	struct change c = enable(4 * PART);

	c.flags |= 1 << 6; /* only if it is in use */
	assert_int_equal(change(c), IBV_WC_MW_BIND_ERR);
	refused(0, 1);
}

static void free_key_names_nothing(void **state)
{
	struct change c = at_entry(0, 1, 2);

	refused(0, 1);
	assert_int_equal(change(c), 0); /* a list, but not in use */
	refused(0, 1);
	c = enable(4 * PART);
	c.entries[0] = part(1);
	assert_int_equal(change(c), 0);
	clear();
	assert_int_equal(write_to(0, PART), 0);
	only(PART, 0, PART);
	c.mask = MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE;
	c.rights = 0;
	assert_int_equal(change(c), 0);
	refused(0, 1);
}

/* An entry's region is of the same domain, writable by the NIC, long enough, and there. */
static void entries_are_checked_at_each_access(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(rig.ctx);
	struct ibv_mr *foreign = ibv_reg_mr(pd, rig.mem, PART, WRITES);
	struct ibv_mr *only_read = ibv_reg_mr(rig.pd, rig.mem, PART, 0);
	struct ibv_mr *brief = ibv_reg_mr(rig.pd, rig.mem, PART / 2, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge bad[] = { { (uintptr_t)rig.mem, PART, foreign->lkey },
				 { (uintptr_t)rig.mem, PART, only_read->lkey },
				 { (uintptr_t)rig.mem, PART, brief->lkey },
				 { 5 * PART, PART, key->lkey }, /* what its own next entry names */
				 { (uintptr_t)rig.mem, PART, rig.mr->lkey + 1 },
				 { 0, PART, 0 } };
	struct change c = at_entry(4, 1, 2);

	enable_all_of_nothing();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		c.entries[0] = bad[i];
		assert_int_equal(change(c), 0);
		refused(4 * PART, PART);
		refused(3 * PART, 2 * PART); /* nothing of it, not even what could land */
	}
	c.entries[0] = (struct ibv_sge){ (uintptr_t)rig.mem, PART, brief->lkey };
	assert_int_equal(change(c), 0);
	clear();
	assert_int_equal(write_to(4 * PART, PART / 2), 0);
	only(0, 0, PART / 2);
	assert_int_equal(ibv_dereg_mr(brief), 0);
	refused(4 * PART, PART / 2);
	assert_int_equal(ibv_dereg_mr(only_read), 0);
	assert_int_equal(ibv_dereg_mr(foreign), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void destroyed_key_is_dead(void **state)
{
	uint32_t rkey = key->rkey;

	enable_all_of_nothing();
	assert_int_equal(change(at_entry(0, 1, 2)), 0);
	assert_int_equal(mlx5dv_destroy_mkey(key), 0);
	key = NULL;
	clear();
	assert_int_equal(post_write(rkey, 0, PART), 0);
	assert_int_equal(post_write(marker->rkey, (uintptr_t)rig.mem + MARK, 1), 0);
	nothing_more();
}

static void longest_list_can_be_made(void **state)
{
	struct mlx5dv_mkey *longest = make_key(65535);

	assert_non_null(longest);
	assert_int_equal(mlx5dv_destroy_mkey(longest), 0);
}

/* ---- as libmlx5 does it itself -------------------------------------------------------------- */

static void put_list(struct ibv_sge *sges, uint16_t n, uint32_t flags)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(changer);

	ex->wr_id = 9;
	ex->wr_flags = IBV_SEND_INLINE | flags;
	mlx5dv_wr_mr_list(mlx5dv_qp_ex_from_ibv_qp_ex(ex), key, WRITES, n, sges);
}

static void put_write(uint32_t flags)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(changer);

	ex->wr_id = 10;
	ex->wr_flags = IBV_SEND_SIGNALED | flags;
	ibv_wr_rdma_write(ex, key->rkey, 0);
	ibv_wr_set_sge(ex, rig.mr->lkey, (uintptr_t)rig.mem + FROM, 16);
}

static void finish_posting(uint64_t id)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_wr_complete(ibv_qp_to_qp_ex(changer)), 0);
	assert_int_equal(rig_poll(&wc), 0);
	assert_int_equal(wc.wr_id, id);
}

static void libmlx5_makes_lists_and_takes_them_back(void **state)
{
	struct ibv_sge sges[] = { part(3), rig_sge(8 * PART, 100), nothing(), part(1), part(12) };
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(changer);

	for (int round = 0; round < 3; round++) {
		ibv_wr_start(ex);
		put_list(sges, 5, IBV_SEND_SIGNALED);
		finish_posting(9);
		clear();
		assert_int_equal(write_to(0, 4 * PART + 100), 0);
		only(3 * PART, 0, PART);
		only(8 * PART, PART, 100);
		only(1 * PART, 2 * PART + 100, PART);
		only(12 * PART, 3 * PART + 100, PART);
		nothing_more();
		ibv_wr_start(ex);
		ex->wr_id = 11;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_local_inv(ex, key->rkey);
		finish_posting(11);
	}
	assert_int_not_equal(write_to(0, 1), 0);
}

static void put_interleaved(uint32_t repeat)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(changer);
	struct mlx5dv_mr_interleaved parts[] = {
		{ (uintptr_t)rig.mem + 3 * PART, 8, 2, rig.mr->lkey },
		{ (uintptr_t)rig.mem + PART, 16, 48, rig.mr->lkey },
	};

	ex->wr_id = 9;
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	mlx5dv_wr_mr_interleaved(mlx5dv_qp_ex_from_ibv_qp_ex(ex), key, WRITES, repeat, 2, parts);
}

/* A list repeats two parts three times, a stride apart; then the key names a plain list. */
static void parts_are_repeated_with_gaps(void **state)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(changer);
	struct ibv_sge sges[] = { part(5), part(6) };

	ibv_wr_start(ex);
	put_interleaved(3);
	finish_posting(9);
	clear();
	assert_int_equal(write_to(4, 60), 0); /* of 72: from within the first to within the last */
	only(3 * PART + 4, 0, 4);
	only(PART, 4, 16);
	only(3 * PART + 10, 20, 8);
	only(PART + 64, 28, 16);
	only(3 * PART + 20, 44, 8);
	only(PART + 128, 52, 8);
	nothing_more();
	ibv_wr_start(ex);
	put_list(sges, 2, IBV_SEND_SIGNALED);
	finish_posting(9);
	assert_int_equal(write_to(0, 2 * PART), 0);
	only(5 * PART, 0, 2 * PART);
	nothing_more();
	ibv_wr_start(ex);
	put_interleaved(3);
	finish_posting(9);
	assert_int_not_equal(write_to(60, 13), 0); /* one byte more than there is */
	nothing_more();
}

/* A request that is not fenced may go by the list as it was; one that is fenced never does. */
static uint32_t rounds_by_the_old_list(uint32_t rounds, uint32_t fence, bool libmlx5s_own)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(changer);
	uint32_t old = 0;

	for (uint32_t i = 0; i < rounds; i++) {
		struct change c = at_entry(0, 1 + i % 2, 3);
		struct ibv_sge sges[4];

		memcpy(sges, c.entries, sizeof(sges));
		clear();
		memset(rig.mem + FROM, 0xab, 16);
		ibv_wr_start(ex);
		if (libmlx5s_own)
			put_list(sges, 4, 0);
		else
			put_raw(&c);
		put_write(fence);
		finish_posting(10);
		assert_int_not_equal(rig.mem[PART], rig.mem[2 * PART]);
		old += rig.mem[(1 + i % 2) * PART] != 0xab;
		clear();
		assert_int_equal(write_to(0, 16), 0); /* it is complete: by the new one */
		only((1 + i % 2) * PART, 0, 16);
		nothing_more();
	}
	return old;
}

static void what_is_not_fenced_may_go_by_the_old_list(void **state)
{
	struct change c = enable(4 * PART);

	c.entries[0] = part(2);
	assert_int_equal(change(c), 0);
	assert_int_equal(rounds_by_the_old_list(100, IBV_SEND_FENCE, false), 0);
	assert_int_equal(rounds_by_the_old_list(100, 0, true), 0);
	assert_int_not_equal(rounds_by_the_old_list(100, 0, false), 0);
}

/* What is sent comes from all parts of the list. */
static void list_is_read_here_too(void **state)
{
	struct ibv_sge sge = { PART - 8, 2 * PART, key->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_mr *to = ibv_reg_mr(rig.pd, rig.mem + FROM, 2 * PART, WRITES);
	struct ibv_wc wc;

	enable_all_of_nothing();
	assert_int_equal(change(at_entry(0, 1, 2)), 0);
	for (uint32_t i = 0; i < 3 * PART; i++)
		rig.mem[i] = (uint8_t)(i / 8 + 1);
	memset(rig.mem + FROM, 0xee, 2 * PART);
	wr.wr.rdma.remote_addr = (uintptr_t)rig.mem + FROM;
	wr.wr.rdma.rkey = to->rkey;
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
	assert_int_equal(rig_poll(&wc), 0);
	assert_memory_equal(rig.mem + FROM, rig.mem + 2 * PART - 8, 8 + PART);
	assert_memory_equal(rig.mem + FROM + 8 + PART, (uint8_t[PART]){ 0 }, PART - 8);
	assert_int_equal(ibv_dereg_mr(to), 0);
}

/* Device memory has no operations of its own, and the NIC says so where it is asked by DEVX. */
static void device_memory_has_no_operations(void **state)
{
	const uint8_t in[16] = { 1, 0, [7] = 15 << 1 | 1 };
	const uint8_t other[16] = { 1, 0, [7] = 14 << 1 | 1 };
	uint8_t out[0x1010], nothing[64] = { 0 };

	memset(out, 0xff, sizeof(out));
	assert_int_equal(mlx5dv_devx_general_cmd(rig.ctx, in, sizeof(in), out, sizeof(out)), 0);
	assert_memory_equal(out, nothing, sizeof(nothing));
	assert_int_not_equal(
		mlx5dv_devx_general_cmd(rig.ctx, other, sizeof(other), out, sizeof(out)), 0);
}

static int tests(void)
{
#define WITH(connect, f) cmocka_unit_test_setup_teardown(f, connect, finish)
	static const struct CMUnitTest list[] = {
		WITH(start_uc, list_is_one_behind_the_other),
		WITH(start_uc, null_part_takes_and_keeps_nothing),
		WITH(start_rc, null_part_takes_and_keeps_nothing),
		WITH(start_rc, null_key_is_zeros_here_and_dead_there),
		WITH(start_uc, offset_changes_its_entries_alone),
		WITH(start_uc, offsets_are_of_four_entries_and_within),
		WITH(start_uc, entries_behind_the_last_are_refused),
		WITH(start_uc, key_is_no_longer_than_its_list),
		WITH(start_uc, entries_must_be_in_the_request),
		WITH(start_uc, check_of_free_is_made),
		WITH(start_uc, free_key_names_nothing),
		WITH(start_uc, entries_are_checked_at_each_access),
		WITH(start_uc, destroyed_key_is_dead),
		WITH(start_uc, longest_list_can_be_made),
		WITH(start_rc, libmlx5_makes_lists_and_takes_them_back),
		WITH(start_rc, parts_are_repeated_with_gaps),
		WITH(start_rc, what_is_not_fenced_may_go_by_the_old_list),
		WITH(start_rc, list_is_read_here_too),
		WITH(start_rc, device_memory_has_no_operations),
	};

	return cmocka_run_group_tests_name("indirect keys", list, NULL, NULL);
}

int main(int argc, char **argv)
{
	setenv("SIMNIC_DEVX", "1", 1);
	return rig_main(argc, argv, tests);
}
