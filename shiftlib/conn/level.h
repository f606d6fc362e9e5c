/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How far a connection is protected, and why it is no further. */
#ifndef SHIFTLIB_CONN_LEVEL_H
#define SHIFTLIB_CONN_LEVEL_H

#include "shiftlib/base/locked.h"

struct sc_action;
struct sh_qp;

enum sh_level { SH_FOREIGN, SH_DRIVEN, SH_PROTECTED };

const char *sh_level_name(enum sh_level level);
/* why: a constant. It is told if it is news. */
void sh_level_set(struct sh_qp *qp, enum sh_level level, const char *why) SH_LOCKED;
/* Returns the reason for the level, as precisely as is known now; a constant. */
const char *sh_level_why(const struct sh_qp *qp) SH_LOCKED;
/* The core's action. */
void sh_level_report(struct sh_qp *qp, const struct sc_action *action) SH_LOCKED;
/* Sets the level anew by the state of the core, when what a part has said of it is over. */
void sh_level_again(struct sh_qp *qp) SH_LOCKED;
/* Said of each before it is anything else: no news, and not worth a line in the caller's thread. */
extern const char sh_level_looking[];
/*
 * The reason of a queue pair that must not move, as its program knows the clock of the default
 * NIC alone.
 */
extern const char sh_level_stamped[];

#endif
