/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The forwarding builders of ibv_wr_*, used on the application's own NIC while nothing is withheld.
 * Each call is logged in a slot and goes on to the provider's own, which takes the slot for the
 * wr_id. sq.head moves when the provider has taken all.
 */
#include "providers/ledger/psn.h"
#include "providers/ledger/send.h"
#include "providers/ledger/wr.h"

/* -- which set of builders --------------------------------------------------------------------- */

/* A pointer that is NULL stays NULL, as it says what the provider granted. */
static void use_builders(struct sp_qp *qp, const struct ibv_qp_ex *set)
{
	struct ibv_qp_ex *ex = (struct ibv_qp_ex *)qp->ibv;

#define USE(f)                                                                                     \
	if (ex->f && ex->f != set->f)                                                              \
		ex->f = set->f;
	LED_WR_FUNCS(USE)
	qp->ex.kept = set == &led_wr_kept;
}

/* Repeated after each modify at which a provider sets pointers of its own. */
void led_wr_install(struct sp_qp *qp)
{
	struct ibv_qp_ex *ex = (struct ibv_qp_ex *)qp->ibv;

	sp_lock(&qp->sq_lock);
#define SAVE(f)                                                                                    \
	if (ex->f != led_wr_kept.f && ex->f != led_wr_forwarded.f)                                 \
		qp->ex.saved.f = ex->f;
	LED_WR_FUNCS(SAVE)
	use_builders(qp, &led_wr_kept);
	sp_unlock(&qp->sq_lock);
}

void led_wr_restore(struct sp_qp *qp)
{
	struct ibv_qp_ex *ex = (struct ibv_qp_ex *)qp->ibv;

#define RESTORE(f) ex->f = qp->ex.saved.f;
	LED_WR_FUNCS(RESTORE)
}

/* -- begin and end ----------------------------------------------------------------------------- */

LED_INLINE void begin(struct sp_qp *qp, struct ibv_qp_ex *ex)
{
	qp->b.slot = led_slot(qp, qp->sq.head - 1);
	qp->b.room = (int32_t)(qp->sq.limit - qp->sq.head);
	qp->ex.saved.wr_start(ex);
}

/* Returns the number behind the last request that was built. */
LED_INLINE uint32_t built_head(const struct sp_qp *qp)
{
	return qp->sq.limit - (uint32_t)qp->b.room;
}

/* Chooses the set of builders. sq_lock is held: so nobody is between start and complete. */
static LED_NOINLINE void start_other(struct sp_qp *qp, struct ibv_qp_ex *ex)
{
	led_tx_tell(qp);
	if (!qp->tx_mode && qp->dev->forwards_wr && qp->ex.saved.wr_abort) {
		use_builders(qp, &led_wr_forwarded);
		begin(qp, ex);
		return;
	}
	use_builders(qp, &led_wr_kept);
	qp->b = (struct led_builder){ .n = qp->sq.head };
}

static LED_NOINLINE void start_late(struct sp_qp *qp, struct ibv_qp_ex *ex)
{
	sp_lock_wait(&qp->sq_lock);
	start_other(qp, ex);
}

void led_wr_start(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = led_qp_of_ex(ex);

	if (led_unlikely(!sp_trylock(&qp->sq_lock)))
		start_late(qp, ex);
	else if (led_unlikely(qp->tx_mode | qp->ex.kept))
		start_other(qp, ex);
	else
		begin(qp, ex);
}

/* Takes back a batch that the provider has dropped. Drops sq_lock. */
static LED_NOINLINE int undo_refused(struct sp_qp *qp, int err)
{
	uint32_t n = qp->sq.head;

	qp->sq.head = built_head(qp);
	led_unpost(qp, n);
	sp_unlock(&qp->sq_lock);
	return err;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = led_qp_of_ex(ex);
	int err = qp->ex.saved.wr_complete(ex);
	uint32_t head = built_head(qp);

	if (led_unlikely(err))
		return undo_refused(qp, err);
	qp->sq.head = head;
	atomic_store_explicit(&qp->sq.pub, head, memory_order_relaxed);
	sp_unlock(&qp->sq_lock);
	return 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = led_qp_of_ex(ex);

	qp->ex.saved.wr_abort(ex);
	undo_refused(qp, 0);
}

/*
 * Lets the ledger keep what is built from here on. err: wr_complete returns it to the application.
 */
static LED_NOINLINE void keep_batch(struct sp_qp *qp, struct ibv_qp_ex *ex, int err)
{
	uint32_t n = qp->sq.head;

	qp->ex.saved.wr_abort(ex);
	qp->sq.head = built_head(qp);
	qp->b.n = n;
	qp->b.err = err;
	use_builders(qp, &led_wr_kept);
}

/* -- builders ---------------------------------------------------------------------------------- */

/*
 * Looks for room again, as there was none at the last look. If there is none now, the other set
 * gets the request.
 */
static LED_NOINLINE void look_for_room(struct ibv_qp_ex *ex)
{
	struct sp_qp *qp = led_qp_of_ex(ex);
	uint32_t at;

	qp->b.room = 0;
	at = built_head(qp);
	qp->b.room = (int32_t)(led_limit(qp, at) - at);
	if (!qp->b.room)
		keep_batch(qp, ex, ENOMEM);
}

LED_INLINE union led_send *next_slot(struct sp_qp *qp, struct ibv_qp_ex *ex,
				     enum ibv_wr_opcode opcode)
{
	union led_send *slot = (union led_send *)qp->b.slot->wr.next;

	qp->b.slot = slot;
	slot->own.wr_id = ex->wr_id;
	slot->wr.num_sge = 0;
	slot->wr.opcode = opcode;
	slot->wr.send_flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE;
	qp->sq.two_sided += led_kind(opcode) == SP_REQ_TWO_SIDED;
	ex->wr_id = (uintptr_t)slot;
	return slot;
}

/* Restores wr_id: the application may count on finding there what it wrote. */
LED_INLINE void give_back(struct ibv_qp_ex *ex)
{
	ex->wr_id = ((const union led_send *)(uintptr_t)ex->wr_id)->own.wr_id;
}

LED_INLINE void put_rdma(union led_send *slot, uint32_t rkey, uint64_t addr)
{
	slot->wr.wr.rdma.remote_addr = addr;
	slot->wr.wr.rdma.rkey = rkey;
}

LED_INLINE void put_atomic(union led_send *slot, uint32_t rkey, uint64_t addr, uint64_t compare_add,
			   uint64_t swap)
{
	slot->wr.wr.atomic.remote_addr = addr;
	slot->wr.wr.atomic.compare_add = compare_add;
	slot->wr.wr.atomic.swap = swap;
	slot->wr.wr.atomic.rkey = rkey;
}

/*
 * A builder, declared and passed on with these arguments, logged by `log`. If there was no room,
 * the call is made again from the beginning, by the set in place then: so nothing needs to be kept
 * in registers.
 */
#define BUILDER(f, op, decl, args, log)                                                            \
	static LED_NOINLINE void f##_again decl                                                    \
	{                                                                                          \
		look_for_room(ex);                                                                 \
		ex->f args;                                                                        \
	}                                                                                          \
                                                                                                   \
	static void f decl                                                                         \
	{                                                                                          \
		struct sp_qp *qp = led_qp_of_ex(ex);                                               \
		union led_send *slot;                                                              \
                                                                                                   \
		if (led_unlikely(--qp->b.room < 0)) {                                              \
			f##_again args;                                                            \
			return;                                                                    \
		}                                                                                  \
		slot = next_slot(qp, ex, op);                                                      \
		log;                                                                               \
		qp->ex.saved.f args;                                                               \
		give_back(ex);                                                                     \
	}

/* clang-format off: one argument of the macro a line */
BUILDER(wr_send, IBV_WR_SEND, (struct ibv_qp_ex * ex), (ex), (void)slot)

BUILDER(wr_send_imm, IBV_WR_SEND_WITH_IMM, (struct ibv_qp_ex * ex, __be32 imm), (ex, imm),
	slot->wr.imm_data = imm)

BUILDER(wr_rdma_write, IBV_WR_RDMA_WRITE, (struct ibv_qp_ex * ex, uint32_t rkey, uint64_t addr),
	(ex, rkey, addr), put_rdma(slot, rkey, addr))

BUILDER(wr_rdma_write_imm, IBV_WR_RDMA_WRITE_WITH_IMM,
	(struct ibv_qp_ex * ex, uint32_t rkey, uint64_t addr, __be32 imm), (ex, rkey, addr, imm),
	put_rdma(slot, rkey, addr);
	slot->wr.imm_data = imm)

BUILDER(wr_rdma_read, IBV_WR_RDMA_READ, (struct ibv_qp_ex * ex, uint32_t rkey, uint64_t addr),
	(ex, rkey, addr), put_rdma(slot, rkey, addr))

BUILDER(wr_atomic_cmp_swp, IBV_WR_ATOMIC_CMP_AND_SWP,
	(struct ibv_qp_ex * ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap),
	(ex, rkey, addr, compare, swap), put_atomic(slot, rkey, addr, compare, swap))

BUILDER(wr_atomic_fetch_add, IBV_WR_ATOMIC_FETCH_AND_ADD,
	(struct ibv_qp_ex * ex, uint32_t rkey, uint64_t addr, uint64_t add), (ex, rkey, addr, add),
	put_atomic(slot, rkey, addr, add, 0))

/*
 * A builder of requests that need more than a slot: the ledger posts these, and all that is built
 * with them.
 */
#define KEEPER(f, decl, args)                                                                      \
	static LED_NOINLINE void f decl                                                            \
	{                                                                                          \
		keep_batch(led_qp_of_ex(ex), ex, 0);                                               \
		ex->f args;                                                                        \
	}

KEEPER(wr_send_inv, (struct ibv_qp_ex * ex, uint32_t rkey), (ex, rkey))
KEEPER(wr_local_inv, (struct ibv_qp_ex * ex, uint32_t rkey), (ex, rkey))
KEEPER(wr_bind_mw,
       (struct ibv_qp_ex * ex, struct ibv_mw *mw, uint32_t rkey,
	const struct ibv_mw_bind_info *info),
       (ex, mw, rkey, info))
KEEPER(wr_send_tso, (struct ibv_qp_ex * ex, void *header, uint16_t size, uint16_t mss),
       (ex, header, size, mss))
/* clang-format on */

/* -- setters ----------------------------------------------------------------------------------- */

/* A long SGE, of more than one packet, should not cost the others a register. */
static LED_NOINLINE void set_sge_long(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
				      uint32_t length)
{
	struct sp_qp *qp = led_qp_of_ex(ex);

	led_count_now(&qp->sq, qp->b.slot->wr.opcode, length);
	qp->ex.saved.wr_set_sge(ex, lkey, addr, length);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct sp_qp *qp = led_qp_of_ex(ex);
	union led_send *slot = qp->b.slot;

	slot->wr.sg_list = slot->own.sge;
	slot->wr.num_sge = 1;
	slot->own.sge[0].addr = addr;
	slot->own.sge[0].length = length;
	slot->own.sge[0].lkey = lkey;
	if (led_unlikely(length > qp->sq.psn.limit))
		set_sge_long(ex, lkey, addr, length);
	else
		qp->ex.saved.wr_set_sge(ex, lkey, addr, length);
}

static LED_NOINLINE void set_sge_list_long(struct ibv_qp_ex *ex, size_t n,
					   const struct ibv_sge *list)
{
	struct sp_qp *qp = led_qp_of_ex(ex);

	led_count_now(&qp->sq, qp->b.slot->wr.opcode, led_length(&qp->b.slot->wr));
	qp->ex.saved.wr_set_sge_list(ex, n, list);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct sp_qp *qp = led_qp_of_ex(ex);
	union led_send *slot = qp->b.slot;
	struct ibv_sge *to = slot->own.sge;

	if (led_unlikely(n > qp->sq.max_sge)) {
		keep_batch(qp, ex, EINVAL);
		return;
	}
	if (n > LED_SLOT_SGES)
		to = led_many_sges(&qp->sq, slot);
	slot->wr.sg_list = to;
	slot->wr.num_sge = (int)n;
	if (led_unlikely(led_copy_sges(to, list, (uint32_t)n) > qp->sq.psn.limit))
		set_sge_list_long(ex, n, list);
	else
		qp->ex.saved.wr_set_sge_list(ex, n, list);
}

/* Returns the place for so many inline bytes of the request being built. There is room. */
LED_INLINE uint8_t *put_inline(struct sp_qp *qp, size_t length)
{
	union led_send *slot = qp->b.slot;
	uint8_t *at = led_inline_at(&qp->sq, slot);

	slot->wr.sg_list = slot->own.sge;
	slot->wr.num_sge = 1;
	slot->wr.send_flags |= IBV_SEND_INLINE;
	slot->own.sge[0].addr = (uintptr_t)at;
	slot->own.sge[0].length = (uint32_t)length;
	slot->own.sge[0].lkey = 0;
	return at;
}

static LED_HOT void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
					    const struct ibv_data_buf *list)
{
	struct sp_qp *qp = led_qp_of_ex(ex);
	size_t length = 0, i;
	uint8_t *at;

	for (i = 0; i < n; i++)
		length += list[i].length;
	if (length > qp->sq.max_inline || (length && led_inline_make(&qp->sq))) {
		keep_batch(qp, ex, ENOMEM);
		return;
	}
	if (length) {
		at = put_inline(qp, length);
		led_count_now(&qp->sq, qp->b.slot->wr.opcode, (uint32_t)length);
		for (i = 0; i < n; at += list[i].length, i++)
			memcpy(at, list[i].addr, list[i].length);
	}
	qp->ex.saved.wr_set_inline_data_list(ex, n, list);
}

/* Rare cases: no bytes, many, too many, or the first ones. */
static LED_NOINLINE void set_inline_other(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct sp_qp *qp = led_qp_of_ex(ex);

	if (length > qp->sq.max_inline || (length && led_inline_make(&qp->sq))) {
		keep_batch(qp, ex, ENOMEM);
		return;
	}
	if (length)
		memcpy(put_inline(qp, length), addr, length);
	led_count_now(&qp->sq, qp->b.slot->wr.opcode, (uint32_t)length);
	qp->ex.saved.wr_set_inline_data(ex, addr, length);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct sp_qp *qp = led_qp_of_ex(ex);

	if (led_unlikely(length - 1 >= qp->sq.inline_short)) {
		set_inline_other(ex, addr, length);
		return;
	}
	led_copy_short(put_inline(qp, length), addr, length);
	qp->ex.saved.wr_set_inline_data(ex, addr, length);
}

const struct ibv_qp_ex led_wr_forwarded = {
	.wr_start = led_wr_start,
	.wr_complete = wr_complete,
	.wr_abort = wr_abort,
	.wr_send = wr_send,
	.wr_send_imm = wr_send_imm,
	.wr_send_inv = wr_send_inv,
	.wr_send_tso = wr_send_tso,
	.wr_rdma_write = wr_rdma_write,
	.wr_rdma_write_imm = wr_rdma_write_imm,
	.wr_rdma_read = wr_rdma_read,
	.wr_atomic_cmp_swp = wr_atomic_cmp_swp,
	.wr_atomic_fetch_add = wr_atomic_fetch_add,
	.wr_bind_mw = wr_bind_mw,
	.wr_local_inv = wr_local_inv,
	.wr_set_sge = wr_set_sge,
	.wr_set_sge_list = wr_set_sge_list,
	.wr_set_inline_data = wr_set_inline_data,
	.wr_set_inline_data_list = wr_set_inline_data_list,
};
