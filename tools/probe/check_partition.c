/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Partitions: what a queue pair's P_Key index does to its packets. */
#include <endian.h>

#include "tools/probe/check.h"
#include "tools/probe/ring.h"

#define TIMEOUT 10 /* 4 ms */
#define RETRY	1
#define BYTES	64u
#define TO	4096u

/* The places of two partitions in which the port is a full member, other than each other. */
static int partitions_find(const struct pr_dev *dev, uint16_t place[2])
{
	uint16_t found = 0;
	__be16 pkey;

	for (int i = 0, n = 0; i < dev->port.pkey_tbl_len; i++) {
		if (ibv_query_pkey(dev->ctx, 1, i, &pkey) || be16toh(pkey) <= 0x8000 ||
		    (n && be16toh(pkey) == found))
			continue;
		found = be16toh(pkey);
		place[n++] = (uint16_t)i;
		if (n == 2)
			return 0;
	}
	return -1;
}

/* A WRITE from one queue pair to another of this NIC: 1 arrived, 0 not, -1 with a sentence. */
static int write_passes(struct probe *p, uint16_t from, uint16_t to)
{
	const struct pr_end_options opt[2] = {
		{ .timeout = TIMEOUT, .retry = RETRY, .pkey_index = from },
		{ .timeout = TIMEOUT, .retry = RETRY, .pkey_index = to },
	};
	struct pr_wr wr = { .opcode = MLX5_OPCODE_RDMA_WRITE,
			    .signaled = true,
			    .len = BYTES,
			    .raddr = (uintptr_t)p->dev.mem + TO,
			    .rkey = p->dev.mr->rkey };
	struct pr_end end[2] = { 0 };
	struct pr_addr addr[2];
	struct pr_done done;
	int passes = -1;

	if (pr_end_make(&end[0], &p->dev, &opt[0]) || pr_end_make(&end[1], &p->dev, &opt[1]))
		goto free;
	pr_end_addr(&end[0], &addr[0]);
	pr_end_addr(&end[1], &addr[1]);
	if (pr_end_connect(&end[0], &addr[1], &opt[0]) ||
	    pr_end_connect(&end[1], &addr[0], &opt[1]))
		goto free;
	pr_post(&end[0], &wr);
	if (pr_wait(&end[0], &done, PR_LONG_MS))
		passes = pr_is_good(&done);
	else
		pr_fail("a WRITE to another queue pair of this NIC does not end");
free:
	pr_end_free(&end[1]);
	pr_end_free(&end[0]);
	return passes;
}

enum pr_verdict check_pkey_drops(struct probe *p, struct pr_result *r)
{
	uint16_t place[2];
	int same, other;

	if (pr_dev_ethernet(&p->dev))
		return pr_cannot_tell(r, "the link layer is Ethernet, which has no partitions");
	if (partitions_find(&p->dev, place))
		return pr_cannot_tell(r, "the port is a full member of fewer than two partitions");
	same = write_passes(p, place[1], place[1]);
	other = same < 0 ? -1 : write_passes(p, place[0], place[1]);
	if (other < 0)
		return PR_CANNOT_TELL;
	pr_note(r, "index", place[1]);
	pr_note(r, "within", same);
	pr_note(r, "across", other);
	if (!same)
		return pr_fails(r, "within one partition, at index %u, nothing passes", place[1]);
	return other ? pr_fails(r, "a WRITE passed from one partition into another") : PR_HOLDS;
}
