/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Slots whose memory is changed by requests, one to each NIC, that are awaited: windows are bound,
 * entries of a root key are rewritten. This is what window.c and root.c share: which NIC has
 * answered for which slot, and what becomes of a NIC that fails.
 */
#ifndef SDR_NIC_CHANGE_H
#define SDR_NIC_CHANGE_H

#include "sdr/nic/nic.h"

/* At one NIC. */
struct sdr_changer {
	struct sdr_channel
		channel; /* connected to itself, so that no data stands before requests */
	void *priv;	 /* of the kind */
	uint64_t asked, answered;
	bool lost, over;
};

/* Memory for a slot; length 0: it gets none from now on, and addr and mr are those that it had. */
struct sdr_change {
	uint32_t slot, generation;
	struct ibv_mr *mr;
	uint64_t addr, length;
};

struct sdr_change_kind {
	/* 0 or -errno; after an error, too, close() is called. */
	int (*open)(struct sdr_changer *c, const struct sdr_slots *s, uint32_t nic);
	void (*close)(struct sdr_changer *c, const struct sdr_slots *s);
	/* Posts a request that is signaled, with the slot as wr_id. */
	int (*ask)(struct sdr_changer *c, const struct sdr_slots *s,
		   const struct sdr_change *change);
	/* the key by which the sender writes to the slot, and the place */
	uint32_t (*rkey)(const struct sdr_changer *c, uint32_t slot);
	uint64_t (*place)(const struct sdr_slots *s, const struct sdr_change *change);
};

int sdr_changes_open(struct sdr_slots *s, const struct sdr_change_kind *kind);
/* Functions for struct sdr_slots_ops. */
void sdr_changes_close(struct sdr_slots *s);
int sdr_changes_bind(struct sdr_slots *s, uint32_t slot, uint32_t generation,
		     struct ibv_mr *const *mrs, uint64_t addr, uint64_t length);
int sdr_changes_unbind(struct sdr_slots *s, uint32_t slot);
int sdr_changes_poll(struct sdr_slots *s, struct sdr_slot_event *events, uint32_t max);
void sdr_changes_lost(struct sdr_slots *s, uint32_t nic, bool over);
void sdr_changes_bury(struct sdr_slots *s, uint32_t nic);
int sdr_changes_renew(struct sdr_slots *s, uint32_t nic);
void sdr_changes_joined(struct sdr_slots *s, uint32_t nic);
uint64_t sdr_changes_waits(const struct sdr_slots *s, uint32_t nic, uint64_t *answered);

/* All but open(), which names the kind. */
#define SDR_CHANGES_OPS                                                                            \
	.close = sdr_changes_close, .bind = sdr_changes_bind, .unbind = sdr_changes_unbind,        \
	.poll = sdr_changes_poll, .lost = sdr_changes_lost, .bury = sdr_changes_bury,              \
	.renew = sdr_changes_renew, .joined = sdr_changes_joined, .waits = sdr_changes_waits

#endif
