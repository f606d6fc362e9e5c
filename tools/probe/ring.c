/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rings as mlx5dv.h lays them out. Each request takes one unit of 64 bytes, so indices count
 * requests. By the PRM's doorbell rules: request, then record, then register.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "tools/probe/dev.h"
#include "tools/probe/end.h"
#include "tools/probe/probe.h"
#include "tools/probe/ring.h"

/* The NIC must find earlier stores when it sees later ones; of write-combining memory, too. */
static void device_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dsb st" ::: "memory");
#else
	__sync_synchronize();
#endif
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint8_t *slot_of(const struct pr_end *end, uint16_t index)
{
	return (uint8_t *)end->dvq.sq.buf +
	       (size_t)(index & (end->dvq.sq.wqe_cnt - 1)) * MLX5_SEND_WQE_BB;
}

static bool is_atomic(uint8_t opcode)
{
	return opcode == MLX5_OPCODE_ATOMIC_FA || opcode == MLX5_OPCODE_ATOMIC_CS;
}

static uint8_t *lay_remote(uint8_t *at, const struct pr_wr *wr)
{
	struct mlx5_wqe_raddr_seg *remote = (void *)at;
	struct mlx5_wqe_atomic_seg *atomic = (void *)(at + sizeof(*remote));

	if (wr->opcode == MLX5_OPCODE_NOP || wr->opcode == MLX5_OPCODE_SEND)
		return at;
	remote->raddr = htobe64(wr->raddr);
	remote->rkey = htobe32(wr->rkey);
	remote->reserved = 0;
	if (!is_atomic(wr->opcode))
		return at + sizeof(*remote);
	atomic->swap_add = htobe64(wr->add);
	atomic->compare = htobe64(wr->compare);
	return at + sizeof(*remote) + sizeof(*atomic);
}

static uint8_t *lay_data(const struct pr_end *end, uint8_t *at, const struct pr_wr *wr)
{
	if (wr->opcode == MLX5_OPCODE_NOP || !wr->len)
		return at;
	mlx5dv_set_data_seg((void *)at, wr->len, end->dev->mr->lkey,
			    (uintptr_t)end->dev->mem + wr->off);
	return at + sizeof(struct mlx5_wqe_data_seg);
}

/*
 * Writes the half with the queue pair and index last: a NIC that reads ahead finds all of the
 * request, or nothing.
 */
static void lay_ctrl(struct mlx5_wqe_ctrl_seg *at, const struct mlx5_wqe_ctrl_seg *ctrl)
{
	uint64_t half[2];

	memcpy(half, ctrl, sizeof(half));
	((volatile uint64_t *)at)[1] = half[1];
	device_barrier();
	((volatile uint64_t *)at)[0] = half[0];
}

uint16_t pr_lay(struct pr_end *end, const struct pr_wr *wr)
{
	uint8_t *slot = slot_of(end, end->post), *at = slot + sizeof(struct mlx5_wqe_ctrl_seg);
	uint8_t flags = (wr->signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0) |
			(wr->send_fence ? MLX5_WQE_CTRL_FENCE : 0);
	struct mlx5_wqe_ctrl_seg ctrl;

	at = lay_data(end, lay_remote(at, wr), wr);
	mlx5dv_set_ctrl_seg(&ctrl, end->post, wr->opcode, 0, end->qp->qp_num, flags,
			    (uint8_t)((at - slot + 15) / 16), 0, 0);
	lay_ctrl((void *)slot, &ctrl);
	return end->post++;
}

/* Patches a WRITE, whose data segment is behind control and remote address. */
void pr_patch_source(struct pr_end *end, uint16_t index, uint32_t off)
{
	struct mlx5_wqe_data_seg *data = (void *)(slot_of(end, index) + 32);

	data->addr = htobe64((uintptr_t)end->dev->mem + off);
}

void pr_publish_record(struct pr_end *end)
{
	device_barrier();
	*(volatile __be32 *)&end->dvq.dbrec[MLX5_SND_DBR] = htobe32(end->post);
	device_barrier();
}

/* Ascending stores of 8 bytes: a memcpy may store in another order. */
void pr_publish(struct pr_end *end, bool blueflame)
{
	volatile uint64_t *reg = (void *)((uint8_t *)end->dvq.bf.reg + end->bf_offset);
	const uint64_t *slot = (void *)slot_of(end, (uint16_t)(end->post - 1));

	pr_publish_record(end);
	for (unsigned i = 0; i < (blueflame ? MLX5_SEND_WQE_BB / 8 : 1); i++)
		reg[i] = slot[i];
	device_barrier();
	end->bf_offset ^= end->dvq.bf.size;
	end->published = end->post;
}

uint16_t pr_post(struct pr_end *end, const struct pr_wr *wr)
{
	uint16_t index = pr_lay(end, wr);

	pr_publish(end, false);
	return index;
}

/* ---- completions ----------------------------------------------------------------------------- */

static struct mlx5_cqe64 *cqe_at(const struct pr_end *end, uint32_t ci)
{
	uint32_t size = end->dvc.cqe_size;

	return (void *)((uint8_t *)end->dvc.buf + (size_t)(ci & (end->dvc.cqe_cnt - 1)) * size +
			size - sizeof(struct mlx5_cqe64));
}

static bool cqe_is_there(const struct pr_end *end, uint32_t ci)
{
	uint8_t op_own = __atomic_load_n(&cqe_at(end, ci)->op_own, __ATOMIC_ACQUIRE);

	return op_own >> 4 != MLX5_CQE_INVALID && (op_own & 1) == !!(ci & end->dvc.cqe_cnt);
}

static void cqe_read(struct mlx5_cqe64 *cqe, struct pr_done *done)
{
	const struct mlx5_err_cqe *err = (void *)cqe;
	const uint8_t *data = (void *)cqe;

	*done = (struct pr_done){ .opcode = mlx5dv_get_cqe_opcode(cqe),
				  .format = cqe->op_own & 0xc,
				  .index = be16toh(cqe->wqe_counter),
				  .bytes = be32toh(cqe->byte_cnt) };
	if (done->opcode == MLX5_CQE_REQ_ERR || done->opcode == MLX5_CQE_RESP_ERR) {
		done->syndrome = err->syndrome;
		done->vendor = err->vendor_err_synd;
	}
	if (done->format == MLX5_INLINE_SCATTER_32)
		memcpy(done->data, data, 32);
	else if (done->format == MLX5_INLINE_SCATTER_64)
		memcpy(done->data, data - 64, 64);
}

bool pr_next(struct pr_end *end, struct pr_done *done)
{
	if (!cqe_is_there(end, end->ci))
		return false;
	cqe_read(cqe_at(end, end->ci), done);
	end->ci++;
	__atomic_store_n(&end->dvc.dbrec[0], htobe32(end->ci & 0xffffff), __ATOMIC_RELEASE);
	return true;
}

/*
 * Spins for a while, as most checks look at completions that come at once; then leaves the core to
 * others.
 */
bool pr_waiting(const struct pr_end *end, uint32_t n, unsigned timeout_ms)
{
	uint64_t begin = pr_now_ns(), now = begin;

	while (!cqe_is_there(end, end->ci + n - 1)) {
		if (now - begin > timeout_ms * 1000000ull)
			return false;
		if (now - begin > 300000)
			pr_nap_us(20);
		now = pr_now_ns();
	}
	return true;
}

bool pr_wait(struct pr_end *end, struct pr_done *done, unsigned timeout_ms)
{
	return pr_waiting(end, 1, timeout_ms) && pr_next(end, done);
}

bool pr_is_good(const struct pr_done *done)
{
	return done->opcode != MLX5_CQE_REQ_ERR && done->opcode != MLX5_CQE_RESP_ERR;
}

bool pr_is_flush(const struct pr_done *done)
{
	return !pr_is_good(done) && done->syndrome == MLX5_CQE_SYNDROME_WR_FLUSH_ERR;
}

const char *pr_done_text(const struct pr_done *done)
{
	static char text[96];

	if (pr_is_good(done))
		snprintf(text, sizeof(text), "a good completion (opcode %u, index %u)",
			 done->opcode, done->index);
	else
		snprintf(text, sizeof(text), "an error (syndrome 0x%02x, vendor 0x%02x, index %u)",
			 done->syndrome, done->vendor, done->index);
	return text;
}
