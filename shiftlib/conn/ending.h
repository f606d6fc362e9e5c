/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The end of a connection with errors. */
#ifndef SHIFTLIB_CONN_ENDING_H
#define SHIFTLIB_CONN_ENDING_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"

struct sh_conn_part;
struct sh_qp;

/*
 * Takes all queue pairs to ERR; when no NIC executes anything any more, n_delivered requests
 * complete well, the next one ends with `first` and vendor_err, and the others are flushed. An
 * error of the program's that is found meanwhile takes the place of `first`.
 */
void sh_ending_begin(struct sh_qp *qp, enum ibv_wc_status first, uint32_t vendor_err,
		     uint32_t n_delivered) SH_LOCKED;
void sh_ending_poll(struct sh_qp *qp) SH_LOCKED; /* a command to ERR has returned */

extern const struct sh_conn_part sh_ending_part;

#endif
