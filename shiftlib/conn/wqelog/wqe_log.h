/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The log of a connection (SHIFT_WQE_LOG): behind each n-th request that changes the peer's
 * memory its sender writes one word there, so that what ran is known also where the peer's NIC is
 * dead (core/settle.h). Who sends asks where the word of a carrier is, and behind a fault what it
 * says; who receives has it registered, and reads it.
 */
#ifndef SHIFTLIB_CONN_WQELOG_WQE_LOG_H
#define SHIFTLIB_CONN_WQELOG_WQE_LOG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sc_counts;
struct sh_carrier;
struct sh_conn_part;
struct sh_qp;
struct sh_wire_log;
struct sp_request;

/*
 * Returns the extra requests that the log of such a send queue needs (SHIFT_WQE_LOG); 0: none.
 * sh_wqe_log_caps() adds them, and inline bytes.
 */
uint32_t sh_wqe_log_room(uint32_t requests);
void sh_wqe_log_caps(struct ibv_qp_cap *cap);

/*
 * "off", "on", "asked", "refused", of the carrier in use; *why: of the last one. NULL: it is
 * not wanted.
 */
const char *sh_wqe_log_state(const struct sh_qp *qp, const char **why) SH_LOCKED;

/* Gives the words back: the queue pairs are gone. */
void sh_wqe_log_free(struct sh_qp *qp) SH_LOCKED;
/*
 * Deregisters the word of a QP that is gone. May block: on the NIC's worker, or without the
 * lock.
 */
void sh_wqe_log_drop(struct ibv_mr *mr);

extern const struct sh_conn_part sh_wqe_log_part;

#endif
