/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The range that shows guest memory by DMA address, and the table behind it: one entry for each
 * page. Lists of pages that are not neighbours are shown once more, side by side, at the range's
 * end (a view); views follow the table as the rest does.
 *
 * Everything here is changed with the engine's lock held, which whoever accesses the range holds.
 */
#include "simnic/pci/bridge_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simnic/fabric/check.h"
#include "simnic/pci/bridge_own.h"
#include "simnic/pci/bridge_stray.h"

#define PAGE	    4096u
#define PAGES	    (SN_BRIDGE_SPACE_BYTES / PAGE)
#define VIEW_BYTES  (1ull << 36)
#define RANGE_BYTES (SN_BRIDGE_SPACE_BYTES + VIEW_BYTES)
#define TABLE_BYTES (PAGES * sizeof(uint64_t))

/* Bits of an entry beside the guest address; 0: the page leads nowhere. */
enum { PRESENT = 1, WRITABLE = 2 };

/* Pages of DMA addresses side by side. */
struct view {
	struct view *next; /* by address */
	uint8_t *at;
	uint64_t bytes;
	uint32_t n;
	struct {
		uint64_t dma, bytes;
	} run[];
};

struct sn_bridge_space {
	uint8_t *base;	 /* the range: by DMA address, then views */
	uint64_t *entry; /* what each page of DMA addresses leads to */
	struct view *views;
	struct sn_strays strays;
};

/* ---- life ----------------------------------------------------------------------------------- */

static void *reserve(uint64_t bytes, int rights)
{
	void *at = mmap(NULL, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

int sn_bridge_space_new(struct sn_bridge *bridge)
{
	struct sn_bridge_space *space = calloc(1, sizeof(*space));

	if (!space)
		return -ENOMEM;
	space->base = reserve(RANGE_BYTES, PROT_NONE);
	space->entry = reserve(TABLE_BYTES, PROT_READ | PROT_WRITE);
	space->strays = (struct sn_strays){ .base = space->base,
					    .bytes = RANGE_BYTES,
					    .wake = bridge->config.stray,
					    .ctx = bridge->config.ctx };
	bridge->space = space;
	if (space->base && space->entry && !sn_strays_watch(&space->strays))
		return 0;
	sn_bridge_space_free(bridge);
	return -ENOMEM;
}

void sn_bridge_space_free(struct sn_bridge *bridge)
{
	struct sn_bridge_space *space = bridge->space;

	if (!space)
		return;
	SN_ASSERT(!space->views);
	sn_strays_forget(&space->strays);
	if (space->base)
		munmap(space->base, RANGE_BYTES);
	if (space->entry)
		munmap(space->entry, TABLE_BYTES);
	free(space);
	bridge->space = NULL;
}

uint64_t sn_bridge_space_at(const struct sn_bridge *bridge, uint64_t dma, uint64_t bytes)
{
	if (bytes > SN_BRIDGE_SPACE_BYTES || dma > SN_BRIDGE_SPACE_BYTES - bytes)
		return 0;
	return (uint64_t)bridge->space->base + dma;
}

/* ---- pages as the table says ---------------------------------------------------------------- */

static int hide(uint8_t *at, uint64_t bytes)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	return mmap(at, bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED ? -ENOMEM : 0;
}

static int show(const struct sn_bridge *bridge, uint8_t *at, uint64_t bytes, uint64_t entry)
{
	int rights = entry & WRITABLE ? PROT_READ | PROT_WRITE : PROT_READ;
	off_t ram = (off_t)(entry & ~(uint64_t)(PAGE - 1));

	if (!entry)
		return hide(at, bytes);
	return mmap(at, bytes, rights, MAP_SHARED | MAP_FIXED, bridge->config.ram_fd, ram) ==
			       MAP_FAILED
		       ? -ENOMEM
		       : 0;
}

/* Bytes from a page on that one mapping can show. */
static uint64_t one_piece(const uint64_t *entry, uint64_t bytes)
{
	uint64_t done = PAGE;

	while (done < bytes && entry[done / PAGE] == (entry[0] ? entry[0] + done : 0))
		done += PAGE;
	return done;
}

/* Shows pages of DMA addresses at a place of the range. */
static int lay(const struct sn_bridge *bridge, uint8_t *to, uint64_t dma, uint64_t bytes)
{
	const uint64_t *entry = bridge->space->entry + dma / PAGE;
	uint64_t piece;
	int err = 0;

	SN_ASSERT(bytes <= SN_BRIDGE_SPACE_BYTES && dma <= SN_BRIDGE_SPACE_BYTES - bytes);
	for (uint64_t done = 0; done < bytes && !err; done += piece) {
		piece = one_piece(entry + done / PAGE, bytes - done);
		err = show(bridge, to + done, piece, entry[done / PAGE]);
	}
	return err;
}

/* Lets a view follow the table, where it shows these addresses. */
static int lay_view(const struct sn_bridge *bridge, const struct view *view, uint64_t dma,
		    uint64_t end)
{
	uint8_t *to = view->at;
	int err = 0;

	for (uint32_t i = 0; i < view->n && !err; to += view->run[i++].bytes) {
		uint64_t from = view->run[i].dma, till = from + view->run[i].bytes;
		uint64_t first = from > dma ? from : dma, last = till < end ? till : end;

		if (first < last)
			err = lay(bridge, to + (first - from), first, last - first);
	}
	return err;
}

static int lay_views(const struct sn_bridge *bridge, uint64_t dma, uint64_t end)
{
	const struct view *view = bridge->space->views;
	int err = 0;

	for (; view && !err; view = view->next)
		err = lay_view(bridge, view, dma, end);
	return err;
}

/* ---- what the machine says ------------------------------------------------------------------ */

static bool are_pages(uint64_t at, uint64_t bytes, uint64_t limit)
{
	return !(at % PAGE) && !(bytes % PAGE) && bytes && bytes <= limit && at <= limit - bytes;
}

int sn_bridge_space_map(struct sn_bridge *bridge, const struct sn_bridge_mapping *mapping)
{
	struct sn_bridge_space *space = bridge->space;
	uint64_t bits = PRESENT | (mapping->writable ? WRITABLE : 0);
	int err;

	if (!are_pages(mapping->at, mapping->bytes, SN_BRIDGE_SPACE_BYTES) ||
	    !are_pages(mapping->ram, mapping->bytes, bridge->config.ram_bytes))
		return -EINVAL;
	sn_lock();
	for (uint64_t done = 0; done < mapping->bytes; done += PAGE)
		space->entry[(mapping->at + done) / PAGE] = (mapping->ram + done) | bits;
	err = lay(bridge, space->base + mapping->at, mapping->at, mapping->bytes);
	if (!err)
		err = lay_views(bridge, mapping->at, mapping->at + mapping->bytes);
	sn_unlock();
	return err;
}

/* Empties entries; the table's pages go back where all of their entries are among them. */
static void empty(uint64_t *entry, uint64_t n)
{
	uintptr_t from = (uintptr_t)entry, to = (uintptr_t)(entry + n);
	uintptr_t first = (from + PAGE - 1) & -(uintptr_t)PAGE, last = to & -(uintptr_t)PAGE;

	if (first >= last || madvise((void *)first, last - first, MADV_DONTNEED)) {
		memset(entry, 0, to - from);
		return;
	}
	memset((void *)from, 0, first - from);
	memset((void *)last, 0, to - last);
}

void sn_bridge_space_unmap(struct sn_bridge *bridge, uint64_t at, uint64_t bytes)
{
	struct sn_bridge_space *space = bridge->space;
	int err;

	if (at >= SN_BRIDGE_SPACE_BYTES)
		return;
	if (bytes > SN_BRIDGE_SPACE_BYTES - at)
		bytes = SN_BRIDGE_SPACE_BYTES - at;
	if (!are_pages(at, bytes, SN_BRIDGE_SPACE_BYTES))
		return;
	sn_lock();
	if (bridge->dev)
		sn_dev_push(bridge->dev);
	empty(space->entry + at / PAGE, bytes / PAGE);
	err = hide(space->base + at, bytes);
	if (!err)
		err = lay_views(bridge, at, at + bytes);
	SN_ASSERT(!err); /* the device must lose its reach of the pages */
	sn_unlock();
}

/* ---- views ---------------------------------------------------------------------------------- */

/* Finds a place for a view, and links the view in. */
static bool place(struct sn_bridge_space *space, struct view *view)
{
	uint8_t *at = space->base + SN_BRIDGE_SPACE_BYTES, *end = space->base + RANGE_BYTES;
	struct view **link = &space->views;

	while (*link && (uint64_t)((*link)->at - at) < view->bytes) {
		at = (*link)->at + (*link)->bytes;
		link = &(*link)->next;
	}
	if ((uint64_t)(end - at) < view->bytes)
		return false;
	view->at = at;
	view->next = *link;
	*link = view;
	return true;
}

static void drop(struct sn_bridge_space *space, struct view **link)
{
	struct view *view = *link;

	hide(view->at, view->bytes);
	*link = view->next;
	free(view);
}

void *sn_bridge_space_view(struct sn_bridge *bridge, const struct sn_bridge_run *run, uint32_t n)
{
	struct sn_bridge_space *space = bridge->space;
	struct view *view = calloc(1, sizeof(*view) + n * sizeof(view->run[0]));
	struct view **link;

	if (!view)
		return NULL;
	view->n = n;
	for (uint32_t i = 0; i < n; i++) {
		view->run[i].dma = run[i].guest;
		view->run[i].bytes = run[i].bytes;
		view->bytes += run[i].bytes;
	}
	if (!place(space, view)) {
		free(view);
		return NULL;
	}
	if (!lay_view(bridge, view, 0, SN_BRIDGE_SPACE_BYTES))
		return view->at;
	for (link = &space->views; *link != view; link = &(*link)->next)
		;
	drop(space, link);
	return NULL;
}

void sn_bridge_space_end_view(struct sn_bridge *bridge, const uint8_t *at)
{
	struct view **link = &bridge->space->views;

	while (*link && at >= (*link)->at + (*link)->bytes)
		link = &(*link)->next;
	if (*link && at >= (*link)->at)
		drop(bridge->space, link);
}

/* ---- stray accesses ------------------------------------------------------------------------- */

/* The DMA address of a place in a view; false: none is there any more. */
static bool find_in_views(const struct sn_bridge_space *space, const uint8_t *at, uint64_t *dma)
{
	const struct view *view = space->views;
	uint64_t offset;

	while (view && at >= view->at + view->bytes)
		view = view->next;
	if (!view || at < view->at)
		return false;
	offset = (uint64_t)(at - view->at);
	for (uint32_t i = 0; i < view->n; offset -= view->run[i++].bytes) {
		if (offset < view->run[i].bytes) {
			*dma = view->run[i].dma + offset;
			return true;
		}
	}
	return false;
}

static bool find_dma(const struct sn_bridge_space *space, const uint8_t *at, uint64_t *dma)
{
	uint64_t offset = (uint64_t)(at - space->base);

	if (offset >= SN_BRIDGE_SPACE_BYTES)
		return find_in_views(space, at, dma);
	*dma = offset;
	return true;
}

/* Puts a page that a stray access was given back to what the table says. */
static bool mend(const struct sn_bridge *bridge, uint8_t *at, uint64_t *dma)
{
	return find_dma(bridge->space, at, dma) && !lay(bridge, at, *dma, PAGE);
}

bool sn_bridge_space_take(struct sn_bridge *bridge, struct sn_bridge_stray *stray)
{
	bool any = false;
	struct sn_stray met;
	uint64_t dma;

	if (!bridge->space)
		return false;
	sn_lock();
	while (!any && sn_strays_take(&bridge->space->strays, &met)) {
		for (uint64_t done = 0; done < met.bytes; done += PAGE) {
			if (!mend(bridge, met.at + done, &dma) || any)
				continue;
			any = true;
			*stray = (struct sn_bridge_stray){ dma, met.bytes, met.write };
		}
	}
	sn_unlock();
	return any;
}

bool sn_bridge_space_unread(const struct sn_bridge *bridge)
{
	return bridge->space && bridge->space->strays.read;
}

int sn_bridge_go_astray(struct sn_bridge *bridge, uint64_t at, bool write)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)sn_bridge_at(bridge, at, sizeof(*word));

	if (!word || at % sizeof(*word))
		return -EINVAL;
	sn_lock();
	if (write)
		atomic_store(word, UINT64_MAX);
	else
		(void)atomic_load(word);
	sn_unlock();
	return 0;
}
