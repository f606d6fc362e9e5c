/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory of this process that is nobody's: one to write to, one that is never written. */
#include <infiniband/verbs.h>
#include <stddef.h>
#include <sys/mman.h>

#include "simnic/device/null.h"

#define NULL_BYTES (2ULL << 30) /* the longest part of a list, and the longest message */
/* bytes of the sink that are kept; more is given back before the next use */
#define SINK_KEPT (4ULL << 20)

static uint8_t *sink, *zeros;
static uint64_t sunk;

static uint8_t *reserve(int prot)
{
	void *at = mmap(NULL, NULL_BYTES, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static uint8_t *sink_at(uint64_t len)
{
	if (!sink)
		sink = reserve(PROT_READ | PROT_WRITE);
	if (sink && sunk > SINK_KEPT) {
		madvise(sink, sunk, MADV_DONTNEED);
		sunk = 0;
	}
	sunk = len > sunk ? len : sunk;
	return sink;
}

uint64_t sn_null_at(uint64_t len, uint32_t access)
{
	if (len > NULL_BYTES || access & IBV_ACCESS_REMOTE_ATOMIC)
		return 0;
	if (access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
		return (uint64_t)sink_at(len);
	if (!zeros)
		zeros = reserve(PROT_READ);
	return (uint64_t)zeros;
}
