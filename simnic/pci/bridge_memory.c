/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Guest memory as the engine sees it. Pages that follow each other are taken where the machine has
 * them. Others are mapped once more, side by side; neighbours share a map, as a process has 65530
 * of them at most.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "simnic/pci/bridge_own.h"
#include "simnic/pci/bridge_space.h"

#define PAGE 4096u

uint64_t sn_bridge_at(const struct sn_bridge *bridge, uint64_t guest, uint64_t bytes)
{
	if (bridge->space)
		return sn_bridge_space_at(bridge, guest, bytes);
	if (bytes > bridge->config.ram_bytes || guest > bridge->config.ram_bytes - bytes)
		return 0;
	return (uint64_t)bridge->config.ram + guest;
}

uint64_t sn_bridge_reach(const struct sn_bridge *bridge)
{
	return bridge->space ? SN_BRIDGE_SPACE_BYTES : bridge->config.ram_bytes;
}

/* Bytes of a list of pages that the caller wants, in whole pages of 4 KiB. */
struct span {
	uint64_t from, to; /* offsets in the list */
};

static bool is_sane(const struct sn_bridge_pages *pages, uint64_t bytes)
{
	uint64_t each;

	if (pages->shift < 12 || pages->shift > 40 || !pages->n || !bytes)
		return false;
	each = 1ull << pages->shift;
	if (pages->offset >= each || bytes > ((uint64_t)pages->n << pages->shift) - pages->offset)
		return false;
	for (uint32_t i = 0; i < pages->n; i++)
		if (pages->page[i] % PAGE)
			return false;
	return true;
}

/* The run that begins at an offset of the list, as long as the span allows. */
static struct sn_bridge_run run_at(const struct sn_bridge_pages *pages, uint64_t offset,
				   uint64_t end)
{
	uint64_t each = 1ull << pages->shift, i = offset >> pages->shift;
	struct sn_bridge_run run = { pages->page[i] + (offset & (each - 1)),
				     each - (offset & (each - 1)) };

	while (offset + run.bytes < end && pages->page[i + 1] == pages->page[i] + each) {
		run.bytes += each;
		i++;
	}
	if (run.bytes > end - offset)
		run.bytes = end - offset;
	return run;
}

static int map_runs(const struct sn_bridge *bridge, const struct sn_bridge_pages *pages,
		    struct span span, uint8_t *to)
{
	struct sn_bridge_run run;

	for (uint64_t at = span.from; at < span.to; at += run.bytes, to += run.bytes) {
		run = run_at(pages, at, span.to);
		if (!sn_bridge_at(bridge, run.guest, run.bytes))
			return -EINVAL;
		if (mmap(to, run.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 bridge->config.ram_fd, (off_t)run.guest) == MAP_FAILED)
			return -ENOMEM;
	}
	return 0;
}

/* A view of DMA addresses: what it shows is the machine's to say, now and later. */
static void *view_span(struct sn_bridge *bridge, const struct sn_bridge_pages *pages,
		       struct span span)
{
	uint64_t most = (span.to - span.from) / PAGE;
	struct sn_bridge_run *run = calloc(most, sizeof(*run));
	uint32_t n = 0;
	void *base = NULL;

	errno = ENOMEM;
	if (!run)
		return NULL;
	for (uint64_t at = span.from; at < span.to; at += run[n++].bytes) {
		run[n] = run_at(pages, at, span.to);
		if (!sn_bridge_at(bridge, run[n].guest, run[n].bytes))
			errno = EINVAL;
	}
	if (errno != EINVAL)
		base = sn_bridge_space_view(bridge, run, n);
	free(run);
	return base;
}

static void *map_span(struct sn_bridge *bridge, const struct sn_bridge_pages *pages,
		      struct span span)
{
	size_t bytes = span.to - span.from;
	void *base =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int err;

	if (base == MAP_FAILED)
		return NULL;
	err = map_runs(bridge, pages, span, base);
	if (!err)
		return base;
	munmap(base, bytes);
	errno = -err;
	return NULL;
}

void *sn_bridge_map_locked(struct sn_bridge *bridge, const struct sn_bridge_pages *pages,
			   uint64_t bytes)
{
	struct span span;
	struct sn_bridge_run first;
	uint8_t *base;

	if (!is_sane(pages, bytes)) {
		errno = EINVAL;
		return NULL;
	}
	span.from = pages->offset & ~(uint64_t)(PAGE - 1);
	span.to = (pages->offset + bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	first = run_at(pages, span.from, span.to);
	if (first.bytes < span.to - span.from) {
		base = bridge->space ? view_span(bridge, pages, span)
				     : map_span(bridge, pages, span);
	} else {
		base = (uint8_t *)sn_bridge_at(bridge, first.guest, first.bytes);
		if (!base)
			errno = EINVAL;
	}
	return base ? base + pages->offset % PAGE : NULL;
}

static bool is_in_ram(const struct sn_bridge *bridge, const uint8_t *at)
{
	const uint8_t *ram = bridge->config.ram;

	return at >= ram && at < ram + bridge->config.ram_bytes;
}

void sn_bridge_unmap_locked(struct sn_bridge *bridge, void *at, uint64_t bytes)
{
	uint64_t within = (uint64_t)at % PAGE;

	if (bridge->space)
		sn_bridge_space_end_view(bridge, at);
	else if (!is_in_ram(bridge, at))
		munmap((uint8_t *)at - within, (within + bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1));
}

void *sn_bridge_map(struct sn_bridge *bridge, const struct sn_bridge_pages *pages, uint64_t bytes)
{
	void *at;

	sn_lock();
	at = sn_bridge_map_locked(bridge, pages, bytes);
	sn_unlock();
	return at;
}

void sn_bridge_unmap(struct sn_bridge *bridge, void *at, uint64_t bytes)
{
	sn_lock();
	sn_bridge_unmap_locked(bridge, at, bytes);
	sn_unlock();
}
