/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The functions that the files of core share. */
#ifndef SDR_CORE_INTERNAL_H
#define SDR_CORE_INTERNAL_H

#include "sdr/core/check.h"
#include "sdr/core/core.h"
#include "sdr/core/mutants.h"

#include <errno.h>

struct sdr_action *sdr_act(struct sdr_actions *a, enum sdr_action_type type, uint64_t n);
enum sdr_slot_state sdr_slot_state(const struct sdr_slot *s);
struct sdr_use *sdr_core_use(struct sdr_core *c, uint64_t n);

/* slot.c: receives */
int sdr_slot_post(struct sdr_core *c, struct sdr_event *e, uint64_t now, struct sdr_actions *a);
int sdr_slot_bound(struct sdr_core *c, const struct sdr_event *e, struct sdr_actions *a);
int sdr_slot_complete(struct sdr_core *c, uint64_t n, struct sdr_actions *a);
int sdr_slot_unbound(struct sdr_core *c, uint64_t n, uint64_t now, struct sdr_actions *a);

/* message.c: sends */
int sdr_send_begin(struct sdr_core *c, struct sdr_event *e, struct sdr_actions *a);
int sdr_send_injected(struct sdr_core *c, const struct sdr_event *e);
int sdr_send_ended(struct sdr_core *c, uint64_t n);
int sdr_send_cts(struct sdr_core *c, const struct sdr_event *e, struct sdr_actions *a);
void sdr_send_ends_told(struct sdr_core *c, uint32_t low);

/* cts.c: what is told, and told again */
int sdr_told_end(struct sdr_core *c, const struct sdr_event *e, uint64_t now);
void sdr_told_heard(struct sdr_core *c, const struct sdr_event *e);
void sdr_told_tick(struct sdr_core *c, uint64_t now, struct sdr_actions *a);

#endif
