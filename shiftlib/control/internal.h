/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Declarations shared by control_qp.c, which sends and receives, and life.c. */
#ifndef SHIFTLIB_CONTROL_INTERNAL_H
#define SHIFTLIB_CONTROL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "shiftlib/control/control_qp.h"

#define GRH_BYTES	40   /* bytes before each received UD payload (IBA 11.4.1.2) */
#define RECEIVE_BYTES	4160 /* GRH and payload, on a cache line */
#define POLL_BATCH	32 /* half of the first receives: a full batch shows that these are tight */
#define ROCE_HOP_LIMIT	64
#define QKEY_PRIVILEGED 0x80000000u /* Q_Keys never sent: the QP's own is (IBA 10.2.5) */

_Static_assert(POLL_BATCH == SH_CONTROL_RECEIVES_FIRST / 2, "a batch tells whether it is tight");
_Static_assert(GRH_BYTES + SH_CONTROL_MTU_MAX <= RECEIVE_BYTES, "a datagram fits its slot");

/* The registered memory of the beginning, and what sh_control_widen() adds. */
enum control_part { CONTROL_FIRST, CONTROL_WIDE, CONTROL_PARTS };

struct control_memory {
	uint8_t *buffer; /* receives, then sends */
	struct ibv_mr *mr;
};

/*
 * The copies of sent datagrams, one behind the other. Completions come in posting order, so bytes
 * are freed in the order in which they were taken.
 */
struct control_ring {
	uint8_t *at;
	uint32_t lkey, bytes, head, used;
	uint32_t took[SH_CONTROL_SENDS]; /* bytes of each send under way; 0: none of this ring */
};

struct sh_control {
	const struct shift_real *real;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *recv_cq, *send_cq;
	struct ibv_qp *qp;
	struct control_memory memory[CONTROL_PARTS];
	uint8_t port;
	_Atomic bool dead, rests;
	_Atomic bool wide;     /* CONTROL_WIDE is there: its receives may complete */
	_Atomic bool tight;    /* half of the receives were used at once, or a send found no room */
	struct sh_pkeys pkeys; /* the port's, when it was opened */
	pthread_mutex_t lock;
	/* Under lock: */
	struct sh_address address;
	bool grh_required;
	struct control_ring ring;
	uint32_t sends_posted, sends_done;
	uint32_t proof; /* number of a send posted at proof_at, which becomes proven_at once sent */
	uint64_t proof_at, proven_at;
	uint64_t waiting_since; /* sends under way: time of the first, or of the last completion if
				 * later */
};

struct sh_path {
	struct sh_control *control;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	size_t payload_max;
};

static inline const char *control_nic(const struct sh_control *control)
{
	return control->real->get_device_name(control->context->device);
}

/* True while its memory is given back: see sh_control_rest(). */
static inline bool sh_control_rests(const struct sh_control *control)
{
	return atomic_load_explicit(&control->rests, memory_order_acquire);
}

int sh_control_post_receive(struct sh_control *control, uint64_t slot);
int sh_control_arm(struct sh_control *control);

#endif
