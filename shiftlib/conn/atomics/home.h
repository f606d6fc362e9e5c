/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The home of atomics, the NIC that runs those of a group of connections (core/home.h): messages,
 * evidence, the engine's bar.
 */
#ifndef SHIFTLIB_CONN_ATOMICS_HOME_H
#define SHIFTLIB_CONN_ATOMICS_HOME_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/core/home.h"
#include "shiftlib/loop/loop.h"

struct sh_conn_part;
struct sh_ctx;
struct sh_qp;

/* home.c: who requests, and the messages of both */
/* Does the peer take part? Else atomics run where the connection is, as without all this. */
bool sh_home_on(const struct sh_qp *qp) SH_LOCKED;
void sh_home_tell(struct sh_qp *qp) SH_LOCKED;
/* Returns why the connection's atomics wait; NULL: they do not. */
const char *sh_home_why(const struct sh_qp *qp) SH_LOCKED;

/* home_group.c: who responds */
/*
 * The application sets attributes of its own QP, driven or not: what may not be set now is left
 * out. Behind it: done.
 */
void sh_home_modify(struct sh_qp *qp, struct ibv_qp_attr *attr, int *mask) SH_LOCKED;
void sh_home_modified(struct sh_qp *qp) SH_LOCKED;
/* The same of one that SHIFT has no record of, before the command. */
void sh_home_modify_unknown(const struct ibv_qp *real, const struct sh_ctx *ctx,
			    struct ibv_qp_attr *attr, int mask) SH_LOCKED;
/* Where atomics of its group are at home. SC_HOME_NOWHERE: on none of its NICs. */
uint8_t sh_home_path(const struct sh_qp *qp) SH_LOCKED;
/* Atomics may come to it, and its peer cannot be asked to take them elsewhere. */
bool sh_home_alone(struct sh_qp *qp) SH_LOCKED;

/* All groups are to be looked at. */
void sh_home_due(void) SH_LOCKED;
/* A region for atomics was registered. */
void sh_home_region(void) SH_LOCKED;
/* Processes of SHIFT_ATOMIC_GROUP that this one knows of; 0: none, or it has not joined. */
uint32_t sh_home_processes(void) SH_LOCKED;

extern const struct sh_module sh_homes_module;
extern const struct sh_conn_part sh_home_part, sh_home_group_part;

#endif
