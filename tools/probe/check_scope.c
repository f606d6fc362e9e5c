/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Checks of what memory shows: of atomics over two NICs, and of a short WRITE behind a long one. */
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/pair.h"

/* ---- atomic-scope ---------------------------------------------------------------------------- */

#define ADDS	  2000u /* each of two ends */
#define ADD_AHEAD 4u

/* Two ends of this host that add to one word, each over a loopback QP. */
struct adder {
	struct pr_end end;
	struct ibv_mr *mr; /* of the word */
	uint32_t posted, reaped;
};

static uint64_t *word_of(struct probe *p)
{
	return (uint64_t *)(p->dev.mem + PR_OUT - 64);
}

static int adder_open(struct probe *p, struct adder *a, struct pr_dev *dev)
{
	const struct pr_end_options opt = { 0 };

	memset(a, 0, sizeof(*a));
	if (pr_end_make(&a->end, dev, &opt))
		return -1;
	a->mr = ibv_reg_mr(dev->pd, word_of(p), sizeof(uint64_t),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (!a->mr)
		return pr_fail("cannot register a word for atomics");
	return pr_end_connect_self(&a->end, &opt);
}

static void adder_close(struct adder *a)
{
	pr_end_free(&a->end);
	if (a->mr)
		ibv_dereg_mr(a->mr);
}

static int adder_step(struct probe *p, struct adder *a)
{
	struct pr_wr add = { .opcode = MLX5_OPCODE_ATOMIC_FA,
			     .signaled = true,
			     .off = PR_OUT,
			     .len = sizeof(uint64_t),
			     .raddr = (uintptr_t)word_of(p),
			     .rkey = a->mr->rkey,
			     .add = 1 };
	struct pr_done d;

	for (; a->posted < ADDS && a->posted - a->reaped < ADD_AHEAD; a->posted++)
		pr_post(&a->end, &add);
	if (a->posted - a->reaped == ADD_AHEAD || a->posted == ADDS) {
		if (!pr_wait(&a->end, &d, PR_LONG_MS))
			return pr_fail("an atomic over a loopback QP does not complete");
		if (!pr_is_good(&d))
			return pr_fail("an atomic over a loopback QP ends with %s",
				       pr_done_text(&d));
		a->reaped++;
	}
	return 0;
}

/* How many of the additions of both are missing; -1. */
static long long adds_missing(struct probe *p, struct pr_dev *one, struct pr_dev *other)
{
	struct adder a, b = { .mr = NULL };
	int rc = adder_open(p, &a, one);

	if (!rc)
		rc = adder_open(p, &b, other);
	__atomic_store_n(word_of(p), 0, __ATOMIC_SEQ_CST);
	while (!rc && (a.reaped < ADDS || b.reaped < ADDS)) {
		if (a.reaped < ADDS)
			rc = adder_step(p, &a);
		if (!rc && b.reaped < ADDS)
			rc = adder_step(p, &b);
	}
	/* Atomics under way in a NIC are written when their queue pair is destroyed. */
	adder_close(&a);
	adder_close(&b);
	return rc ? -1 : 2ll * ADDS - (long long)__atomic_load_n(word_of(p), __ATOMIC_SEQ_CST);
}

/* True if the NIC says that its atomics of 8 bytes are atomic to all. */
static bool says_global(const struct pr_dev *dev)
{
	struct ibv_device_attr_ex attr = { .comp_mask = 0 };

	if (ibv_query_device_ex(dev->ctx, NULL, &attr))
		return false;
	return attr.orig_attr.atomic_cap == IBV_ATOMIC_GLOB ||
	       (attr.pci_atomic_caps.fetch_add & IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP &&
		attr.pci_atomic_caps.compare_swap & IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP);
}

/* Another NIC of this host with a link and atomics; -1: there is none. */
static int open_other(const struct probe *p, struct pr_dev *other)
{
	int n = 0, rc = -1;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; i < n && rc; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), p->dev.name) ||
		    !mlx5dv_is_supported(list[i]))
			continue;
		rc = pr_dev_open(other, ibv_get_device_name(list[i]), -1);
		if (!rc && !other->attr.atomic_cap) {
			pr_dev_close(other);
			rc = -1;
		}
	}
	ibv_free_device_list(list);
	return rc;
}

static enum pr_verdict scope_judge(struct probe *p, struct pr_dev *other, struct pr_result *r)
{
	bool global = says_global(&p->dev) && says_global(other);
	long long alone = adds_missing(p, &p->dev, &p->dev), missing;

	if (alone < 0)
		return PR_CANNOT_TELL;
	missing = adds_missing(p, &p->dev, other);
	if (missing < 0)
		return PR_CANNOT_TELL;
	pr_note_text(r, "says", global ? "global" : "of one NIC");
	pr_note(r, "adds", 2 * ADDS);
	pr_note(r, "missing_one_nic", alone);
	pr_note(r, "missing_two_nics", missing);
	if (alone)
		return pr_fails(r, "%lld of %u additions over one NIC are missing", alone,
				2 * ADDS);
	if (global && missing)
		return pr_fails(r,
				"both NICs say that their atomics are global, and %lld of %u "
				"additions are missing",
				missing, 2 * ADDS);
	return PR_HOLDS;
}

enum pr_verdict check_atomic_scope(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_dev other;

	if (!p->dev.attr.atomic_cap)
		return pr_cannot_tell(r, "this NIC says that it has no atomics");
	if (open_other(p, &other))
		return pr_cannot_tell(r, "there is no second NIC here with a link and atomics");
	verdict = scope_judge(p, &other, r);
	pr_dev_close(&other);
	return verdict;
}

/* ---- log-order ------------------------------------------------------------------------------- */

#define LOG_ROUNDS 100u
#define LOG_BYTES  (64u << 10)
#define LOG_WORD   64u		/* where the short WRITE goes */
#define LOG_AT	   (128u << 10) /* where the long one does */

/* 1: the data were there; 0: they were not; -1. */
static int log_round(struct probe *p, struct pr_pair *pair, unsigned round)
{
	struct pr_wr data = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT, LOG_AT, LOG_BYTES);
	struct pr_wr word = pr_request(pair, MLX5_OPCODE_RDMA_WRITE, PR_OUT + LOG_BYTES, LOG_WORD,
				       sizeof(uint64_t));
	json_t *answer;
	int has;

	pr_pattern_fill(p->dev.mem + PR_OUT, LOG_BYTES, round + 1);
	*(uint64_t *)(p->dev.mem + PR_OUT + LOG_BYTES) = round + 1;
	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i, s:i, s:i}", "op", "log", "off", LOG_AT, "len",
		    LOG_BYTES, "seed", round + 1, "word", LOG_WORD, "value", round + 1))
		return -1;
	word.signaled = true;
	pr_lay(&pair->mine, &data);
	pr_lay(&pair->mine, &word);
	pr_publish(&pair->mine, false);
	answer = pr_receive(&p->peer);
	has = answer && !json_object_get(answer, "error")
		      ? json_is_true(json_object_get(answer, "has"))
		      : -1;
	json_decref(answer);
	if (has < 0)
		return pr_fail("the short WRITE does not come");
	return pr_await_good(&pair->mine, (uint16_t)(pair->mine.post - 1)) ? -1 : has;
}

enum pr_verdict check_log_order(struct probe *p, struct pr_result *r)
{
	unsigned behind = 0;
	struct pr_pair pair;
	int has = 1;

	if (pr_pair_open(p, &pair, 0, false, NULL))
		return PR_CANNOT_TELL;
	for (unsigned i = 0; i < LOG_ROUNDS && has >= 0; i++) {
		has = log_round(p, &pair, i);
		behind += !has;
	}
	pr_pair_close(p, &pair);
	if (has < 0)
		return PR_CANNOT_TELL;
	pr_note(r, "rounds", LOG_ROUNDS);
	pr_note(r, "data_behind", behind);
	return behind ? pr_fails(r,
				 "in %u of %u rounds a short WRITE was in memory before the data "
				 "of the WRITE ahead of it",
				 behind, LOG_ROUNDS)
		      : PR_HOLDS;
}
