/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The key map against a plain array, and its readers against a writer that never rests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <pthread.h>
#include <cmocka.h>

#include "shiftlib/base/keymap.h"
#include "tests/lib/random.h"

#define MODEL_KEYS   5000
#define MODEL_STEPS  2000000
#define STABLE_KEYS  8
#define PASSING_KEYS 20000 /* numbers to draw from */
#define PRESENT_MAX  22	   /* of them at a time: the smallest table is full again soon */
#define WAVE_KEYS    3000
#define CHURN_STEPS  600000
#define READERS	     3

static uint64_t rng;

static size_t count(const struct sh_keymap *map)
{
	return map->n_keys + !!map->special[0] + !!map->special[1];
}

/* ---- against a model ------------------------------------------------------------------------ */

struct model {
	uint32_t key[MODEL_KEYS], value[MODEL_KEYS];
	bool in[MODEL_KEYS];
	size_t n;
};

/* Keys like a NIC's: an index in the upper bits, few lower ones; and those that mark slots. */
static void model_init(struct model *model)
{
	uint32_t i;

	memset(model, 0, sizeof(*model));
	for (i = 0; i < MODEL_KEYS; i++)
		model->key[i] = i << 8 | (i & 3);
	model->key[1] = UINT32_MAX;
	model->key[2] = 1;
	model->key[3] = UINT32_MAX - 1;
}

static void model_put(struct model *model, struct sh_keymap *map, uint32_t i)
{
	uint32_t value = (uint32_t)random_next(&rng);

	assert_int_equal(sh_keymap_put(map, model->key[i], value), 0);
	model->n += !model->in[i];
	model->in[i] = true;
	model->value[i] = value;
}

static void model_remove(struct model *model, struct sh_keymap *map, uint32_t i)
{
	assert_int_equal(sh_keymap_remove(map, model->key[i]), model->in[i] ? 0 : -ENOENT);
	model->n -= model->in[i];
	model->in[i] = false;
}

static void model_check(const struct model *model, const struct sh_keymap *map, uint32_t i)
{
	uint32_t value = 0;

	assert_int_equal(sh_keymap_get(map, model->key[i], &value), model->in[i]);
	if (model->in[i])
		assert_int_equal(value, model->value[i]);
}

static void against_model(void **state)
{
	static struct model model;
	struct sh_keymap map;
	uint32_t step, i, range = MODEL_KEYS, odds = 50;

	sh_keymap_init(&map);
	model_init(&model);
	for (step = 0; step < MODEL_STEPS; step++) {
		if (step % 50000 == 0) {
			range = 10 + random_below(&rng, MODEL_KEYS - 10);
			odds = 20 + random_below(&rng, 60);
		}
		i = random_below(&rng, range);
		if (random_below(&rng, 100) < odds)
			model_put(&model, &map, i);
		else
			model_remove(&model, &map, i);
		model_check(&model, &map, i);
		model_check(&model, &map, random_below(&rng, MODEL_KEYS));
	}
	assert_int_equal(count(&map), model.n);
	for (i = 0; i < MODEL_KEYS; i++)
		model_check(&model, &map, i);
	sh_keymap_clear(&map);
	memset(model.in, 0, sizeof(model.in));
	for (i = 0; i < MODEL_KEYS; i++)
		model_check(&model, &map, i);
	assert_int_equal(count(&map), 0);
	sh_keymap_uninit(&map);
}

static void empty(void **state)
{
	struct sh_keymap map;
	uint32_t value;

	sh_keymap_init(&map);
	assert_false(sh_keymap_get(&map, 5, &value));
	assert_false(sh_keymap_get(&map, 0, &value));
	assert_int_equal(sh_keymap_remove(&map, 5), -ENOENT);
	sh_keymap_clear(&map);
	assert_int_equal(count(&map), 0);
	sh_keymap_uninit(&map);
}

/* ---- readers against the writer ------------------------------------------------------------- */

struct race {
	struct sh_keymap map;
	atomic_bool over;
	atomic_ulong wrong, hits;
};

static uint32_t stable_key(uint32_t i)
{
	return (i + 1) << 8;
}

static uint32_t passing_key(uint32_t i)
{
	return (i + 1) << 8 | 1 << 30;
}

/* A value that names its key, with a version in the low bits. */
static uint32_t value_of(uint32_t key, uint32_t version)
{
	return (key ^ 0x5a5a5a00) | (version & 0xff);
}

static bool value_is_of(uint32_t value, uint32_t key)
{
	return (value & ~0xffu) == ((key ^ 0x5a5a5a00) & ~0xffu);
}

static void *reader_main(void *arg)
{
	struct race *race = arg;
	unsigned long wrong = 0, hits = 0;
	uint64_t random = (uintptr_t)&random;
	uint32_t key, value;

	while (!atomic_load(&race->over)) {
		key = stable_key(random_below(&random, STABLE_KEYS));
		if (!sh_keymap_get(&race->map, key, &value) || !value_is_of(value, key))
			wrong++;
		key = passing_key(random_below(&random, PASSING_KEYS));
		if (sh_keymap_get(&race->map, key, &value)) {
			hits++;
			wrong += !value_is_of(value, key);
		}
	}
	atomic_fetch_add(&race->wrong, wrong);
	atomic_fetch_add(&race->hits, hits);
	return NULL;
}

static void churn_put(struct race *race, uint32_t key, uint32_t version)
{
	assert_int_equal(sh_keymap_put(&race->map, key, value_of(key, version)), 0);
}

/* A few keys at a time, never the same: two tables of the smallest size take turns. */
static void churn(struct race *race)
{
	uint32_t present[PRESENT_MAX] = { 0 }, step, i;

	for (step = 0; step < CHURN_STEPS; step++) {
		i = random_below(&rng, PRESENT_MAX);
		if (present[i])
			sh_keymap_remove(&race->map, present[i]);
		present[i] = passing_key(random_below(&rng, PASSING_KEYS));
		churn_put(race, present[i], step);
		churn_put(race, stable_key(random_below(&rng, STABLE_KEYS)), step);
	}
	for (i = 0; i < PRESENT_MAX; i++)
		sh_keymap_remove(&race->map, present[i]);
}

/* Many keys, so that tables grow. */
static void wave(struct race *race)
{
	uint32_t i;

	for (i = 0; i < WAVE_KEYS; i++)
		churn_put(race, passing_key(i), i);
	for (i = 0; i < WAVE_KEYS; i++)
		assert_int_equal(sh_keymap_remove(&race->map, passing_key(i)), 0);
	assert_int_equal(count(&race->map), STABLE_KEYS);
}

static void readers_and_writer(void **state)
{
	static struct race race;
	pthread_t readers[READERS];
	uint32_t i;

	sh_keymap_init(&race.map);
	for (i = 0; i < STABLE_KEYS; i++)
		sh_keymap_put(&race.map, stable_key(i), value_of(stable_key(i), 0));
	for (i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, reader_main, &race), 0);
	churn(&race);
	wave(&race);
	atomic_store(&race.over, true);
	for (i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	print_message("tables: %llu, hits of passing keys: %lu\n",
		      (unsigned long long)atomic_load(&race.map.version), atomic_load(&race.hits));
	assert_int_equal(atomic_load(&race.wrong), 0);
	assert_true(atomic_load(&race.map.version) > 100);
	sh_keymap_uninit(&race.map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty),
		cmocka_unit_test(against_model),
		cmocka_unit_test(readers_and_writer),
	};

	rng = random_seed("keymap_test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
