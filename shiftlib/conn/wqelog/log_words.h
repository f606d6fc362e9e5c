/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The words of the log, of who receives: where they lie, and what they say. */
#ifndef SHIFTLIB_CONN_WQELOG_LOG_WORDS_H
#define SHIFTLIB_CONN_WQELOG_LOG_WORDS_H

#include "shiftlib/base/locked.h"

struct sh_qp;
struct sh_wire_log;

void sh_log_words_asked(struct sh_qp *qp, const struct sh_wire_log *ask) SH_LOCKED;

#endif
