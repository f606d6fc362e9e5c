/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* READs of loopback QPs, which are connected to themselves, on every NIC that receives. */
#ifndef SHIFTLIB_CONN_PARTS_LOOPBACK_H
#define SHIFTLIB_CONN_PARTS_LOOPBACK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/core/core.h"
#include "shiftlib/replica/reader.h"

struct sh_conn_part;
struct sh_qp;

/* SHIFT's own loopback QP, which READs there: see loopback.c. */
struct sh_loopback_reader {
	struct sh_reader of;
	bool asked;
};

/* The application's own QP is a loopback QP. */
bool sh_loopback_is(const struct sh_qp *qp) SH_LOCKED;
/* True if there is a reader on that path, or one is being made. */
bool sh_loopback_has_reader(const struct sh_qp *qp, uint32_t path) SH_LOCKED;
void sh_loopback_drop(struct sh_qp *qp) SH_DROPS; /* the connection is closed */
void sh_loopback_uninit(struct sh_qp *qp);	  /* behind that */

extern const struct sh_conn_part sh_loopback_part;

#endif
