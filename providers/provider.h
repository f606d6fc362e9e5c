/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The seam between a data-path engine (providers/<name>/) and the shell (shiftlib/).
 *
 * Words as in docs/design: a *driven* QP is posted and polled by the engine. Its traffic is
 * carried by one *carrier* (a real QP) at a time; carrier 0 is the application's own QP. A
 * driven CQ is what the application polls: its own hardware ring, rings of shadow CQs on
 * other NICs, and a *backlog* of completions that were taken out of a ring by somebody else
 * than the application's poll.
 *
 * Locks. The engine has one spinlock per send queue, receive queue and CQ, as libmlx5 has.
 * Order: CQ lock before send-queue lock before receive-queue lock. Functions take what
 * they need; those marked [shell] are called by the shell's background thread (or a control
 * verb under the connection's lock), never from the data path; they hold a lock for memory
 * operations only, but wait while the application is between wr_start and wr_complete.
 *
 * Errors are -errno unless a function is said to follow the verbs convention.
 */
#ifndef SHIFT_PROVIDER_H
#define SHIFT_PROVIDER_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "providers/callbacks.h"
#include "providers/cq.h"
#include "providers/move.h"
#include "providers/object.h"
#include "providers/qp.h"
#include "providers/srq.h"

struct ib_uverbs_ioctl_hdr;

#define SP_PD_ANY UINT32_MAX

struct sp_key_command {
	enum { SP_KEY_NONE, SP_KEY_MADE, SP_KEY_GONE, SP_QP_SET, SP_QP_MADE } what;
	uint32_t object; /* handle of the object, among all of the context */
	uint32_t pd;	 /* MADE: number of the PD, or SP_PD_ANY */
};

struct sp_dmabuf {
	uint64_t offset, iova;
	size_t length;
	int fd, access;
	uint32_t flags; /* not 0 */
};

/* The properties of an engine that matter to the shell, which never asks for its name. */
enum sp_trait {
	/* QPs that the engine does not drive may stay on a CQ that it drives */
	SP_SHARES_CQ = 1 << 0,
	SP_ANY_DEVICE = 1 << 1, /* carriers may lie on devices of other vendors */
	SP_OWN_STATE_WORD =
		1 << 2, /* ibv_qp.state is the provider's to read until its flush was seen */
	/* the engine posts requests of its own: queues are made one larger */
	SP_HIDDEN_SENDS = 1 << 3,
	SP_PROVIDER_ARMS = 1 << 4, /* the provider arms CQs, and must hear of their events */
	SP_OWN_CQ_SIZE = 1 << 5,   /* a driven CQ's ibv_cq.cqe is read around a resize alone */
};

struct shift_provider {
	const char *name;
	uint32_t traits; /* enum sp_trait */

	/* True if the engine is for the device. By its driver, not by its name. */
	bool (*serves)(struct ibv_device *device);

	/*
	 * True if anything that this process has loaded has a way to rings that the provider made
	 * (direct verbs).
	 */
	bool (*direct_verbs)(void);

	/* True if this engine can drive the QPs of this device. No side effect. */
	bool (*probe)(struct ibv_context *ctx, const char **why_not);

	/*
	 * dev_init: called once per context, after open. install: also points
	 * ctx->ops.{post_send,post_recv,poll_cq,req_notify_cq} at the engine (the application's
	 * contexts; not SHIFT's own). Undriven objects of an installed context are handed to the
	 * saved functions.
	 */
	int (*dev_init)(struct ibv_context *ctx, bool install, const struct sp_callbacks *cb,
			struct sp_dev **out);
	void (*dev_uninit)(struct sp_dev *dev);

	/*
	 * [shell] Notes that a translation that lkey or rkey gave may be wrong from now on: its key
	 * was taken away or stands for another. Behind the change of what they look up, and before
	 * the memory is given up. Queues remember translations, but not a missing one, so a new key
	 * needs no call. Takes no lock.
	 */
	void (*keys_changed)(void);

	/*
	 * Tells what a program's command to the kernel's driver did to memory keys (DEVX).
	 * SP_QP_SET: it set something of a queue pair, and `object` is that one's handle.
	 * SP_QP_MADE: it made a queue pair, or a DC target, that no verb knows.
	 */
	void (*key_command)(const struct ib_uverbs_ioctl_hdr *command, struct sp_key_command *out);
	/*
	 * Returns the flags of a dma-buf that the provider registered by itself, out of what it
	 * added to the command. -EINVAL: they cannot be told. dmabuf_reg does the same on another
	 * device.
	 */
	int (*dmabuf_flags)(const void *driver, uint32_t *flags);
	struct ibv_mr *(*dmabuf_reg)(struct ibv_pd *pd, const struct sp_dmabuf *buf);
	/* Returns the number by which such commands name the PD; SP_PD_ANY: not known. */
	uint32_t (*pd_number)(struct ibv_pd *pd);

	struct sp_cq_ops cq;
	struct sp_srq_ops srq;
	struct sp_reclaim_ops reclaim;
	struct sp_qp_ops qp;
	struct sp_carrier_ops carrier;
	struct sp_move_ops move;
};

#endif
