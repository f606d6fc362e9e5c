/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include "shiftlib/base/timers.h"

int sh_timers_reserve(struct sh_timers *timers, uint32_t n)
{
	uint32_t capacity = timers->capacity ? timers->capacity : 64;
	struct sh_timer **grown;

	if (n <= timers->capacity)
		return 0;
	while (capacity < n)
		capacity *= 2;
	grown = realloc(timers->heap, ((size_t)capacity + 1) * sizeof(struct sh_timer *));
	if (!grown)
		return -ENOMEM;
	timers->heap = grown;
	timers->capacity = capacity;
	return 0;
}

void sh_timers_uninit(struct sh_timers *timers)
{
	free(timers->heap);
	*timers = (struct sh_timers){ 0 };
}

static void timers_put(struct sh_timers *timers, struct sh_timer *timer, uint32_t place)
{
	timers->heap[place] = timer;
	timer->place = place;
}

static void timers_up(struct sh_timers *timers, struct sh_timer *timer)
{
	uint32_t at = timer->place;

	for (; at > 1 && timers->heap[at / 2]->at > timer->at; at /= 2)
		timers_put(timers, timers->heap[at / 2], at);
	timers_put(timers, timer, at);
}

static void timers_down(struct sh_timers *timers, struct sh_timer *timer)
{
	uint32_t at = timer->place, child;

	for (; (child = at * 2) <= timers->n; at = child) {
		if (child < timers->n && timers->heap[child + 1]->at < timers->heap[child]->at)
			child++;
		if (timers->heap[child]->at >= timer->at)
			break;
		timers_put(timers, timers->heap[child], at);
	}
	timers_put(timers, timer, at);
}

static void timers_remove(struct sh_timers *timers, struct sh_timer *timer)
{
	struct sh_timer *last = timers->heap[timers->n--];

	if (last != timer) {
		timers_put(timers, last, timer->place);
		timers_up(timers, last);
		timers_down(timers, last);
	}
	*timer = (struct sh_timer){ 0 };
}

void sh_timer_set(struct sh_timers *timers, struct sh_timer *timer, uint64_t at)
{
	if (timer->at == at)
		return;
	if (!at) {
		timers_remove(timers, timer);
		return;
	}
	if (!timer->at)
		timers_put(timers, timer, ++timers->n);
	timer->at = at;
	timers_up(timers, timer);
	timers_down(timers, timer);
}

struct sh_timer *sh_timers_first(const struct sh_timers *timers)
{
	return timers->n ? timers->heap[1] : NULL;
}
