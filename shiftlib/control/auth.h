/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The signature behind every datagram of the control plane, if the job has a secret:
 *
 *	number, 8 bytes | NIC of the sender | NIC of the receiver | 2 zeros | MAC, 16 bytes
 *
 * The MAC is HMAC-SHA256, cut to half, over the datagram and all before the MAC. Its key is derived
 * from the secret for one sender and one receiver, so a datagram counts for no other instance, nor
 * for its sender. The number rises with each datagram on a pair of NICs, and the receiver keeps a
 * window of numbers for each pair: a datagram counts once, and over no other pair. So a recorded
 * one neither repeats an order nor lets a dead path seem alive. Loss leaves gaps, which do no harm;
 * one pair may be far behind another; on a pair, datagrams may overtake each other within the
 * window.
 *
 * A sender that has forgotten a peer begins again with a later number (by its clock). A receiver
 * that forgets a peer keeps its windows: the latest SH_AUTH_RESTING_MAX of them.
 *
 * Knows no clock and takes no lock: the caller serializes the calls.
 */
#ifndef SHIFTLIB_AUTH_H
#define SHIFTLIB_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvclient/kv.h"
#include "shiftlib/base/list.h"

#define SH_AUTH_PURPOSE	    "shift-control-1" /* purpose of the key in kv_derive() */
#define SH_AUTH_BYTES	    28u
#define SH_AUTH_WINDOW	    256u /* datagrams that may be overtaken on a pair of NICs */
#define SH_AUTH_PATHS_MAX   64u	 /* pairs of NICs that lead from one peer */
#define SH_AUTH_RESTING_MAX 8192u

/* The reasons why a datagram does not count; the first two also exist without a secret. */
enum sh_refusal {
	SH_REFUSED_NOT,
	SH_REFUSED_DAMAGED,  /* cut, or malformed */
	SH_REFUSED_ASTRAY,   /* addressed to another instance or NIC */
	SH_REFUSED_UNSIGNED, /* no MAC where one must be */
	SH_REFUSED_FORGED,   /* wrong MAC */
	SH_REFUSED_REPLAYED, /* seen before, or older than the window */
	SH_REFUSALS,
};

const char *sh_refusal_name(enum sh_refusal refusal);

/* A pair of NICs, by their numbers at both ends. */
struct sh_auth_pair {
	uint8_t from, to;
};

/* The process's key of the control plane, and its memory of forgotten peers. */
struct sh_auths {
	struct kv_mac *root; /* NULL: there is no secret, nothing is signed */
	uint64_t own;	     /* instance */
	struct list_node resting;
	uint32_t n_resting;
};

/* The keys and windows of one peer. */
struct sh_auth;

/* init makes the lists; own: this instance. begin has the key of kv_derive(): 0 or -ENOMEM. */
void sh_auths_init(struct sh_auths *auths, uint64_t own);
int sh_auths_begin(struct sh_auths *auths, const uint8_t key[KV_MAC_LEN]);
void sh_auths_uninit(struct sh_auths *auths);

/*
 * new returns the remembered entry of the peer, or another one; NULL: no memory. rest: the peer is
 * forgotten.
 */
struct sh_auth *sh_auth_new(struct sh_auths *auths, uint64_t peer);
void sh_auth_rest(struct sh_auths *auths, struct sh_auth *auth);

/*
 * Appends the signature; buf has room for SH_AUTH_BYTES more. number: higher than all before on
 * this pair. Returns the new length; 0: libcrypto refuses.
 */
size_t sh_auth_sign(struct sh_auth *auth, struct sh_auth_pair pair, uint64_t number, uint8_t *buf,
		    size_t length);

/*
 * Checks the signature. length: all bytes that came; datagram: those of the datagram itself, at
 * most length. to: the NIC that it came to. A datagram that is not refused was signed by the peer,
 * and has not been here before.
 */
enum sh_refusal sh_auth_check(struct sh_auth *auth, uint8_t to, const uint8_t *buf, size_t datagram,
			      size_t length);

/* Checks whether an unknown instance has the secret. The datagram may be a replay. */
enum sh_refusal sh_auth_stranger(const struct sh_auths *auths, uint64_t peer, const uint8_t *buf,
				 size_t datagram, size_t length);

#endif
