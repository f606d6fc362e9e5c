/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requests and completions as the NIC sees them: in the rings. */
#ifndef PROBE_RING_H
#define PROBE_RING_H

#include <stdbool.h>
#include <stdint.h>

struct pr_end;

struct pr_wr {
	uint8_t opcode; /* MLX5_OPCODE_ */
	bool signaled;
	bool send_fence; /* IBV_SEND_FENCE */
	uint32_t off;	 /* place of the local bytes in the arena */
	uint32_t len;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t add, compare; /* atomics: value to add or swap in; value to compare with */
};

struct pr_done {
	uint8_t opcode, format, syndrome, vendor; /* MLX5_CQE_; bits of inline data; error codes */
	uint16_t index;
	uint32_t bytes;
	uint8_t data[64]; /* bytes that came in the completion, if format says so */
};

/* Lays a request into the ring, without a word to the NIC: its index. */
uint16_t pr_lay(struct pr_end *end, const struct pr_wr *wr);
/* Lets the NIC have all that was laid: record, then register. */
void pr_publish(struct pr_end *end, bool blueflame);
void pr_publish_record(struct pr_end *end);
uint16_t pr_post(struct pr_end *end, const struct pr_wr *wr);
/* Has another source for a request that was laid and not published. */
void pr_patch_source(struct pr_end *end, uint16_t index, uint32_t off);
bool pr_next(struct pr_end *end, struct pr_done *done);
bool pr_wait(struct pr_end *end, struct pr_done *done, unsigned timeout_ms);
/* Are @n completions there that nobody took? */
bool pr_waiting(const struct pr_end *end, uint32_t n, unsigned timeout_ms);
bool pr_is_good(const struct pr_done *done);
bool pr_is_flush(const struct pr_done *done);
/* A completion in words, for a reason. */
const char *pr_done_text(const struct pr_done *done);

#endif
