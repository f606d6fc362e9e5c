/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The heap of timers against a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "shiftlib/base/timers.h"
#include "tests/lib/random.h"

#define TIMERS	700
#define STEPS	400000
#define INSTANT 1000 /* few, so that many are equal */

static struct sh_timer timers[TIMERS];

static uint64_t model_first(const uint64_t *at)
{
	uint64_t first = 0;
	int i;

	for (i = 0; i < TIMERS; i++)
		if (at[i] && (!first || at[i] < first))
			first = at[i];
	return first;
}

static void heap_is_sound(const struct sh_timers *heap, const uint64_t *at)
{
	uint32_t i, n = 0;

	for (i = 0; i < TIMERS; i++) {
		assert_int_equal(timers[i].at, at[i]);
		n += at[i] != 0;
		if (at[i])
			assert_ptr_equal(heap->heap[timers[i].place], &timers[i]);
	}
	assert_int_equal(heap->n, n);
	for (i = 2; i <= heap->n; i++)
		assert_true(heap->heap[i / 2]->at <= heap->heap[i]->at);
}

static void test_random(void **state)
{
	uint64_t rng = random_seed("timers"), at[TIMERS] = { 0 }, first;
	struct sh_timers heap = { 0 };
	struct sh_timer *got;
	int step, i;

	(void)state;
	memset(timers, 0, sizeof(timers));
	assert_int_equal(sh_timers_reserve(&heap, TIMERS), 0);
	for (step = 0; step < STEPS; step++) {
		i = (int)random_below(&rng, TIMERS);
		at[i] = random_below(&rng, 3) ? 1 + random_below(&rng, INSTANT) : 0;
		sh_timer_set(&heap, &timers[i], at[i]);
		if (step % 1000 == 0)
			heap_is_sound(&heap, at);
		if (step % 16)
			continue;
		got = sh_timers_first(&heap);
		first = model_first(at);
		assert_int_equal(got ? got->at : 0, first);
	}
	sh_timers_uninit(&heap);
}

/* In order, each once, equal ones too. */
static void test_drained(void **state)
{
	struct sh_timers heap = { 0 };
	struct sh_timer *first;
	uint64_t last = 0;
	uint32_t n = 0;
	int i;

	(void)state;
	memset(timers, 0, sizeof(timers));
	for (i = 0; i < TIMERS; i++) {
		assert_int_equal(sh_timers_reserve(&heap, (uint32_t)i + 1), 0);
		sh_timer_set(&heap, &timers[i], 1 + (uint64_t)(i * 7919) % 97);
	}
	while ((first = sh_timers_first(&heap))) {
		assert_true(first->at >= last);
		last = first->at;
		sh_timer_set(&heap, first, 0);
		assert_int_equal(first->place, 0);
		n++;
	}
	assert_int_equal(n, TIMERS);
	sh_timers_uninit(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_drained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
