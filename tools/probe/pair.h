/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A connected pair: one end here, the other in a slot of the agent's; and traffic on it. */
#ifndef PROBE_PAIR_H
#define PROBE_PAIR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/probe/end.h"
#include "tools/probe/ring.h"

#define PR_GOOD 4u /* WRITEs that are acknowledged before an error is made */

struct probe;

struct pr_pair {
	struct pr_end mine;
	struct pr_end_options opt;
	unsigned slot;
	struct pr_addr peer;
};

/* @srq: the peer's end takes its receives from the agent's shared queue. */
int pr_pair_open(struct probe *p, struct pr_pair *pair, unsigned slot, bool srq,
		 const struct pr_end_options *opt);
int pr_pair_reconnect(struct probe *p, struct pr_pair *pair);
void pr_pair_close(struct probe *p, struct pr_pair *pair);
/* A request between arenas: from or to the offset @off here, and @roff there. */
struct pr_wr pr_request(const struct pr_pair *pair, uint8_t opcode, uint32_t off, uint32_t roff,
			uint32_t len);
/* The completion of the request at @index must be next. */
int pr_await_good(struct pr_end *end, uint16_t index);
/* @ms: how long for each; 0: PR_LONG_MS. -1: not all came; @list has those that did, or is NULL. */
int pr_peer_poll(struct probe *p, unsigned slot, unsigned n, unsigned ms, json_t **list);
/* Is the peer's memory at @off of this pattern? 1, 0, or -1. */
int pr_peer_has(struct probe *p, uint32_t off, uint32_t len, uint32_t seed);

/* Ends the peer's end: @how is "err", "reset". */
int pr_peer_stop(struct probe *p, unsigned slot, const char *how);
/* PR_GOOD WRITEs, the last one signaled: all are acknowledged. */
int pr_pair_good(struct pr_pair *pair);
/*
 * Opens a pair on which they are. With few retries, a busy host that pauses for that long ends the
 * pair: then another one is opened.
 */
int pr_pair_open_good(struct probe *p, struct pr_pair *pair, unsigned slot,
		      const struct pr_end_options *few);
/* Five WRITEs to a peer that does not answer any more. */
uint16_t pr_pair_post_unanswered(struct pr_pair *pair);

#endif
