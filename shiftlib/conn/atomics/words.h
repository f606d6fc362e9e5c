/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The words that compare-and-swaps of unknown fate have changed or not (SHIFT_ATOMICS=owner,
 * core/owner.c): asked of the peer's SHIFT when it has quiesced, which reads its own memory.
 */
#ifndef SHIFTLIB_CONN_ATOMICS_WORDS_H
#define SHIFTLIB_CONN_ATOMICS_WORDS_H

#include "shiftlib/base/locked.h"

struct sh_conn_part;
struct sh_qp;

void sh_words_forget(struct sh_qp *qp);

extern const struct sh_conn_part sh_words_part;

#endif
