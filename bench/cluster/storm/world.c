/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Virtual time: a heap of what is to come. And chance. */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>

void *storm_alloc(void *old, uint64_t n, uint64_t size)
{
	void *grown = old ? realloc(old, n * size) : calloc(n, size);

	if (!grown) {
		fprintf(stderr, "storm: no memory for %llu things\n", (unsigned long long)n);
		exit(1);
	}
	return grown;
}

/* splitmix64: any seed is as good as any other */
uint32_t storm_pick(struct storm_world *w, uint64_t n)
{
	uint64_t z = (w->random += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return n ? (uint32_t)((z ^ (z >> 31)) % n) : 0;
}

/* Ties are broken by age. */
static bool earlier(const struct storm_event *a, const struct storm_event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void storm_at(struct storm_world *w, const struct storm_event *event)
{
	struct storm_heap *heap = &w->heap;
	struct storm_event new = *event;
	uint32_t i;

	if (heap->n + 2 > heap->room) {
		heap->room = heap->room ? 2 * heap->room : 1024;
		heap->list = storm_alloc(heap->list, heap->room, sizeof(*heap->list));
	}
	new.order = heap->order++;
	for (i = ++heap->n; i > 1 && earlier(&new, &heap->list[i / 2]); i /= 2)
		heap->list[i] = heap->list[i / 2];
	heap->list[i] = new;
}

void storm_input_at(struct storm_world *w, uint64_t at, uint32_t host,
		    const struct storm_input *input)
{
	storm_at(w, &(struct storm_event){
			    .at = at, .host = host, .type = STORM_EV_INPUT, .input = *input });
}

bool storm_next(struct storm_world *w, struct storm_event *event)
{
	struct storm_heap *heap = &w->heap;
	struct storm_event last;
	uint32_t i, child;

	if (!heap->n)
		return false;
	*event = heap->list[1];
	last = heap->list[heap->n--];
	for (i = 1; 2 * i <= heap->n; i = child) {
		child = 2 * i;
		if (child < heap->n && earlier(&heap->list[child + 1], &heap->list[child]))
			child++;
		if (!earlier(&heap->list[child], &last))
			break;
		heap->list[i] = heap->list[child];
	}
	heap->list[i] = last;
	w->now = event->at;
	return true;
}

void storm_heap_clear(struct storm_world *w)
{
	for (uint32_t i = 1; i <= w->heap.n; i++)
		free(w->heap.list[i].input.datagram);
	free(w->heap.list);
	w->heap = (struct storm_heap){ 0 };
}
