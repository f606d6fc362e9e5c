/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The introduction's two halves: intro.c knows what is written and what an answer means, intro_kv.c
 * carries many questions at once to the KV and back. Of no concern to anybody else.
 */
#ifndef SHIFTLIB_CONN_MEET_INTRO_KV_H
#define SHIFTLIB_CONN_MEET_INTRO_KV_H

#include <stdbool.h>
#include <stdint.h>
#include "kvclient/kv.h"
#include "shiftlib/base/locked.h"

struct sh_qp;

#define SH_INTRO_PORT 1

/*
 * The questions to the KV for one connection. No object of shiftlib is held: a KV that does not
 * answer must not hold a destroy up.
 */
struct sh_intro_item {
	uint32_t conn_id, nonce; /* the connection that the answer is for */
	bool put, get;
	char own_keys[2][KV_KEY_MAX + 1];
	int n_own;
	char peer_key[KV_KEY_MAX + 1];
	struct kv_record own, peer;
	int put_ret, get_ret;
};

/*
 * intro_record.c. gid_known: false if the NIC is being asked, and the introduction goes on with
 * the answer.
 */
bool sh_intro_gid_known(struct sh_qp *qp) SH_LOCKED;
int sh_intro_own_keys(const struct sh_qp *qp, char keys[2][KV_KEY_MAX + 1], int *n) SH_LOCKED;
int sh_intro_keys(const struct sh_qp *qp, struct sh_intro_item *item) SH_LOCKED;
void sh_intro_record(const struct sh_qp *qp, struct kv_record *record) SH_LOCKED;

/* intro.c. fill: false if there is nothing to ask after all. error: of the KV's calls. */
bool sh_intro_fill(struct sh_qp *qp, struct sh_intro_item *item) SH_LOCKED;
/* How often the store was contacted anew; 0: it was not. One that was may have lost what it had. */
void sh_intro_contact(uint32_t contacts) SH_LOCKED;
void sh_intro_answer(struct sh_qp *qp, const struct sh_intro_item *item,
		     const char *error) SH_LOCKED;

/* intro_kv.c. The connection stands in line once, until it is answered or forgotten. */
void sh_intro_line_up(struct sh_qp *qp) SH_LOCKED;
void sh_intro_line_remove(struct sh_qp *qp) SH_LOCKED;
/* Takes its entry out of the KV, if it is still its own: soon, with others. */
void sh_intro_line_withdraw(uint32_t nonce, char keys[][KV_KEY_MAX + 1], int n) SH_LOCKED;
/* Asks the NIC for the GID of that index; sh_intro_start() follows. False: it cannot be asked. */
bool sh_intro_ask_gid(struct sh_qp *qp, uint8_t index) SH_LOCKED;

#endif
