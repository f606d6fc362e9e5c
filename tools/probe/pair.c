/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connected pairs: opened, used, closed; and what is asked of the peer's end. */
#include <stdio.h>
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/pair.h"

#define PAUSES 10u /* pauses of a busy host, one after the other */

static json_t *connect_question(const struct pr_pair *pair)
{
	struct pr_addr mine;
	json_t *question;

	pr_end_addr(&pair->mine, &mine);
	question = pr_addr_pack(&mine);
	json_object_set_new(question, "op", json_string("connect"));
	json_object_set_new(question, "slot", json_integer(pair->slot));
	return question;
}

/* Connects. The end's own first sequence number may have changed since: it does with each RESET. */
static int pair_connect(struct probe *p, struct pr_pair *pair)
{
	json_t *answer = pr_send(&p->peer, connect_question(pair)) ? NULL : pr_receive(&p->peer);
	const char *error = json_string_value(json_object_get(answer, "error"));
	int rc = answer ? 0 : -1;

	if (error)
		rc = pr_fail("at the peer: %.200s", error);
	if (!rc)
		rc = pr_addr_unpack(answer, &pair->peer);
	json_decref(answer);
	return rc ? rc : pr_end_connect(&pair->mine, &pair->peer, &pair->opt);
}

int pr_pair_open(struct probe *p, struct pr_pair *pair, unsigned slot, bool srq,
		 const struct pr_end_options *opt)
{
	memset(pair, 0, sizeof(*pair));
	pair->slot = slot;
	if (opt)
		pair->opt = *opt;
	if (pr_end_make(&pair->mine, &p->dev, &pair->opt))
		return -1;
	if (pr_tell(&p->peer, "{s:s, s:i, s:b}", "op", "make", "slot", slot, "srq", srq)) {
		pr_end_free(&pair->mine);
		return -1;
	}
	if (!pair_connect(p, pair))
		return 0;
	pr_pair_close(p, pair);
	return -1;
}

int pr_pair_reconnect(struct probe *p, struct pr_pair *pair)
{
	if (pr_end_state(&pair->mine, IBV_QPS_RESET) ||
	    pr_tell(&p->peer, "{s:s, s:i, s:s}", "op", "stop", "slot", pair->slot, "how", "reset"))
		return -1;
	return pair_connect(p, pair);
}

/* Closes the pair, and keeps the check's own sentence. */
void pr_pair_close(struct probe *p, struct pr_pair *pair)
{
	char said[PR_WHY_MAX];

	snprintf(said, sizeof(said), "%s", pr_why());
	pr_end_free(&pair->mine);
	pr_tell(&p->peer, "{s:s, s:i}", "op", "destroy", "slot", pair->slot);
	pr_fail("%s", said);
}

struct pr_wr pr_request(const struct pr_pair *pair, uint8_t opcode, uint32_t off, uint32_t roff,
			uint32_t len)
{
	return (struct pr_wr){ .opcode = opcode,
			       .off = off,
			       .len = len,
			       .raddr = pair->peer.raddr + roff,
			       .rkey = pair->peer.rkey };
}

int pr_await_good(struct pr_end *end, uint16_t index)
{
	struct pr_done d;

	if (!pr_wait(end, &d, PR_LONG_MS))
		return pr_fail("request %u does not complete", index);
	if (!pr_is_good(&d) || d.index != index)
		return pr_fail("instead of request %u, %s", index, pr_done_text(&d));
	return 0;
}

int pr_peer_poll(struct probe *p, unsigned slot, unsigned n, unsigned ms, json_t **list)
{
	json_t *answer = pr_ask(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "poll", "slot", slot, "n",
				n, "ms", ms);

	*list = json_incref(json_object_get(answer, "list"));
	json_decref(answer);
	if (!*list)
		return -1;
	return json_array_size(*list) == n ? 0
					   : pr_fail("of %u completions at the peer only %zu came",
						     n, json_array_size(*list));
}

int pr_peer_has(struct probe *p, uint32_t off, uint32_t len, uint32_t seed)
{
	json_t *answer = pr_ask(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "has", "off", off, "len",
				len, "seed", seed);
	int has = answer ? json_is_true(json_object_get(answer, "has")) : -1;

	json_decref(answer);
	return has;
}

/* ---- traffic that a check begins with -------------------------------------------------------- */

int pr_peer_stop(struct probe *p, unsigned slot, const char *how)
{
	return pr_tell(&p->peer, "{s:s, s:i, s:s}", "op", "stop", "slot", slot, "how", how);
}

int pr_pair_good(struct pr_pair *pair)
{
	struct pr_wr write = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 0, 64);
	uint16_t index = 0;

	for (unsigned i = 0; i < PR_GOOD; i++) {
		write.signaled = i == PR_GOOD - 1;
		index = pr_lay(&pair->mine, &write);
	}
	pr_publish(&pair->mine, false);
	return pr_await_good(&pair->mine, index);
}

int pr_pair_open_good(struct probe *p, struct pr_pair *pair, unsigned slot,
		      const struct pr_end_options *few)
{
	bool ended = true;

	for (unsigned i = 0; ended && i < PAUSES; i++) {
		if (pr_pair_open(p, pair, slot, false, few))
			return -1;
		if (!pr_pair_good(pair))
			return 0;
		ended = pair->mine.ci; /* WRITE completed, with an error */
		pr_pair_close(p, pair);
	}
	return -1;
}

uint16_t pr_pair_post_unanswered(struct pr_pair *pair)
{
	struct pr_wr write = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, 0, 64);
	uint16_t index = 0;

	for (unsigned i = 0; i < 5; i++) {
		write.signaled = i == 4;
		index = pr_lay(&pair->mine, &write);
	}
	pr_publish(&pair->mine, false);
	return index;
}
