/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The words that compare-and-swaps of unknown fate have changed or not (SHIFT_ATOMICS=owner, core/owner.c): asked of
 * the peer's SHIFT when it has quiesced, which reads its own memory. Lock held.
 */
#ifndef SHIFTLIB_CONN_ATOMICS_WORDS_H
#define SHIFTLIB_CONN_ATOMICS_WORDS_H

#include <stdbool.h>
#include <stdint.h>

struct sh_qp;
struct sh_wire_word;
struct sp_request;

struct sh_words;

/* What was told of the carrier that the requests lie in. */
void sh_words_fill(const struct sh_qp *qp, struct sp_request *requests, uint32_t n);
/* Settling says that it needs them. False: what can be told is, or nobody can tell. */
bool sh_words_ask(struct sh_qp *qp, const struct sp_request *requests, uint32_t n);
/* Atomics outstanding, could each be decided so, whatever becomes of them? */
bool sh_words_would_tell(const struct sh_qp *qp, const struct sp_request *requests, uint32_t n,
			 uint32_t i);
void sh_words_heard(struct sh_qp *qp, const struct sh_wire_word *word);
void sh_words_forget(struct sh_qp *qp);

#endif
