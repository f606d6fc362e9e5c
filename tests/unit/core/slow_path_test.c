/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What pings say of paths that have become slow, or always were; and of machines, peers and queues. No clock runs here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "shiftlib/core/slow_path.h"

#define SECOND	1000000000ull
#define MS	1000000ull
#define US	1000ull
#define LOOK_NS (2 * SECOND)

enum { FOUND = 5, LONG = 2000 }; /* looks: until it is found; in which nothing is */

static const struct sh_gray_config config = {
	.look_ns = SECOND / 2,
	.hold_min_ns = 60 * SECOND,
	.hold_max_ns = 3600 * SECOND,
	.calm_ns = 600 * SECOND,
};

/* A peer with up to four paths; each look has so many pings of each, one of them the quickest. */
struct peer {
	struct sh_slow_path path[4];
	uint32_t nic[4], n;
	uint64_t trip[4];
	uint32_t pings[4];
	uint64_t busy; /* this much longer they all take now */
	uint64_t now;
};

static struct peer peer_new(void)
{
	return (struct peer){ .nic = { 0, 1, 2, 3 },
			      .n = 2,
			      .trip = { 80 * US, 80 * US, 80 * US, 80 * US },
			      .pings = { 2, 2, 2, 2 },
			      .now = SECOND };
}

static void look(struct peer *peer)
{
	struct sh_slow_path_of all[4];

	peer->now += LOOK_NS;
	for (uint32_t i = 0; i < peer->n; i++) {
		all[i] = (struct sh_slow_path_of){ &peer->path[i], peer->nic[i] };
		for (uint32_t k = 0; k < peer->pings[i]; k++)
			sh_slow_path_add(&peer->path[i],
					 peer->trip[i] + peer->busy + (k == 0 ? 0 : k * 20 * MS));
	}
	sh_slow_path_update(all, peer->n, &config, peer->now);
}

static void looks(struct peer *peer, int n)
{
	while (n--)
		look(peer);
}

static bool is_slow(const struct peer *peer, uint32_t i)
{
	return peer->path[i].state == SH_SLOW_PATH_SLOW;
}

/* Looks until the path is slow, or is not; 0: it stays as it is. */
static int changes_after(struct peer *peer, uint32_t i)
{
	bool was = is_slow(peer, i);

	for (int k = 1; k <= LONG; k++) {
		look(peer);
		if (is_slow(peer, i) != was)
			return k;
	}
	return 0;
}

static bool none(struct peer *peer)
{
	for (int k = 0; k < LONG; k++) {
		look(peer);
		for (uint32_t i = 0; i < peer->n; i++)
			if (is_slow(peer, i))
				return false;
	}
	return true;
}

/* What is wrong; NULL: nothing. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return #condition;                                                         \
	} while (0)

static const char *a_path_becomes_slow(void)
{
	struct peer peer = peer_new();

	looks(&peer, 20);
	peer.trip[0] = 5 * MS;
	CHECK(changes_after(&peer, 0) == FOUND);
	CHECK(!is_slow(&peer, 1));
	CHECK(peer.path[0].floor_ns == 5 * MS && peer.path[0].instead_ns == 80 * US);
	CHECK(peer.path[0].witness == 1);
	CHECK(peer.now - peer.path[0].since == (FOUND - 1) * LOOK_NS);
	CHECK(!is_slow(&peer, 1) && !changes_after(&peer, 1));
	CHECK(is_slow(&peer, 0));
	/* The other one is longer, but as it always was. */
	peer = peer_new();
	peer.trip[1] = 600 * US;
	looks(&peer, 20);
	peer.trip[0] = 4500 * US;
	CHECK(changes_after(&peer, 0) == FOUND);
	CHECK(peer.path[0].instead_ns == 80 * US);
	return NULL;
}

static const char *slow_from_its_birth(void)
{
	struct peer peer = peer_new();

	peer.trip[0] = 5 * MS;
	CHECK(changes_after(&peer, 0) >= FOUND);
	CHECK(peer.path[0].instead_ns == 80 * US);
	peer.trip[0] = 80 * US;
	CHECK(changes_after(&peer, 0) > 0);
	CHECK(none(&peer));
	return NULL;
}

/* There was nothing to compare it with when it was learned what is usual. */
static const char *slow_before_the_other_came(void)
{
	struct peer peer = peer_new();

	peer.n = 1;
	peer.trip[0] = 5 * MS;
	CHECK(none(&peer));
	peer.n = 2;
	CHECK(changes_after(&peer, 0) >= FOUND);
	CHECK(!is_slow(&peer, 1));
	return NULL;
}

static const char *a_single_path_tells_nothing(void)
{
	struct peer peer = peer_new();

	peer.n = 1;
	looks(&peer, 20);
	peer.trip[0] = 50 * MS;
	CHECK(none(&peer));
	return NULL;
}

/* Nor do several of one NIC of ours: it may be the way to the CPU. */
static const char *paths_of_one_nic(void)
{
	struct peer peer = peer_new();

	peer.nic[1] = peer.nic[0];
	looks(&peer, 20);
	peer.trip[0] = 50 * MS;
	CHECK(none(&peer));
	return NULL;
}

static const char *a_busy_machine(void)
{
	struct peer peer = peer_new();

	peer.n = 4;
	looks(&peer, 20);
	for (peer.busy = MS; peer.busy < 100 * MS; peer.busy *= 2)
		for (int i = 0; i < 50; i++) {
			peer.trip[i % 4] = (uint64_t)(50 + i) * US;
			look(&peer);
			CHECK(!is_slow(&peer, 0) && !is_slow(&peer, 1));
		}
	/* All of them, and one by less; it would be the witness. */
	peer = peer_new();
	looks(&peer, 20);
	peer.trip[0] = 20 * MS;
	peer.trip[1] = 6 * MS;
	CHECK(none(&peer));
	return NULL;
}

/* Others fill the queue, for long, but now and then it is empty. */
static const char *congestion(void)
{
	struct peer peer = peer_new();

	looks(&peer, 20);
	for (int i = 0; i < LONG; i++) {
		peer.trip[0] = i % 4 ? 30 * MS : 100 * US;
		look(&peer);
		CHECK(!is_slow(&peer, 0));
	}
	return NULL;
}

/* Most pings find it full: one of each look does not. */
static const char *pings_behind_data(void)
{
	struct peer peer = peer_new();

	peer.pings[0] = peer.pings[1] = 8;
	CHECK(none(&peer));
	return NULL;
}

static const char *rails_of_different_length(void)
{
	struct peer peer = peer_new();

	peer.trip[0] = 90 * US;
	peer.trip[1] = 600 * US;
	CHECK(none(&peer));
	/* Far away, and one takes twice as long. */
	peer = peer_new();
	peer.trip[0] = 30 * MS;
	peer.trip[1] = 60 * MS;
	CHECK(none(&peer));
	/* A detour there, by as much as no local path may: it is three times the way. */
	peer.trip[0] = 100 * MS;
	CHECK(none(&peer));
	return NULL;
}

/* Eight times nothing is nothing. */
static const char *microseconds(void)
{
	struct peer peer = peer_new();

	peer.trip[0] = peer.trip[1] = 5 * US;
	looks(&peer, 20);
	peer.trip[0] = 900 * US;
	CHECK(none(&peer));
	return NULL;
}

static const char *hardly_pinged(void)
{
	struct peer peer = peer_new();

	looks(&peer, 20);
	peer.trip[0] = 5 * MS;
	for (int i = 0; i < LONG; i++) {
		peer.pings[0] = i % 5 == 0 ? 8 : 0; /* without work: each 10 s */
		look(&peer);
		CHECK(!is_slow(&peer, 0));
	}
	/* Or it stopped in the middle of it: what comes later is another matter. */
	peer.pings[0] = 2;
	looks(&peer, FOUND - 1);
	peer.pings[0] = 0;
	look(&peer);
	peer.pings[0] = 2;
	CHECK(changes_after(&peer, 0) == FOUND);
	return NULL;
}

static const char *few_pings(void)
{
	struct peer peer = peer_new();

	looks(&peer, 20);
	peer.trip[0] = 5 * MS;
	peer.pings[0] = 1;
	CHECK(changes_after(&peer, 0) == 8);
	return NULL;
}

/* The other path's own trouble: it is no witness any more. */
static const char *both_are_slow(void)
{
	struct peer peer = peer_new();

	looks(&peer, 20);
	peer.trip[1] = 5 * MS;
	CHECK(changes_after(&peer, 1) == FOUND);
	peer.trip[0] = 500 * MS;
	CHECK(!changes_after(&peer, 0));
	CHECK(is_slow(&peer, 1));
	peer.trip[1] = 80 * US;
	CHECK(changes_after(&peer, 0) > 0); /* when that one is well */
	CHECK(is_slow(&peer, 0) && !is_slow(&peer, 1));
	return NULL;
}

static const char *it_is_well_in_its_time(void)
{
	struct peer peer = peer_new();
	int hold = (int)(config.hold_min_ns / LOOK_NS);

	looks(&peer, 20);
	for (int i = 0; i < 4; i++, hold *= 2) {
		peer.trip[0] = 5 * MS;
		CHECK(changes_after(&peer, 0) == FOUND);
		looks(&peer, 100);
		CHECK(is_slow(&peer, 0));
		peer.trip[0] = 80 * US;
		CHECK(changes_after(&peer, 0) == hold);
	}
	/* Again before its time; and without an answer nobody knows. */
	peer = peer_new();
	looks(&peer, 20);
	peer.trip[0] = 5 * MS;
	looks(&peer, FOUND);
	peer.trip[0] = 80 * US;
	looks(&peer, 20);
	peer.trip[0] = 5 * MS;
	look(&peer);
	peer.pings[0] = 0;
	CHECK(!changes_after(&peer, 0) && is_slow(&peer, 0));
	peer.pings[0] = 1;
	peer.trip[0] = 80 * US;
	CHECK(changes_after(&peer, 0) == 3);
	return NULL;
}

/* ---- what is told of a NIC ------------------------------------------------------------------ */

static bool tells(struct sh_slow_paths_told *nic, uint32_t slow, uint32_t paths, uint32_t peers)
{
	const struct sh_slow_paths_seen seen = { .slow = slow, .paths = paths, .peers = peers };

	return sh_slow_paths_tell(nic, &seen);
}

static const char *told_once(void)
{
	struct sh_slow_paths_told nic = { 0 };

	CHECK(!tells(&nic, 0, 8, 0));
	CHECK(!tells(&nic, 1, 8, 1)); /* more may follow */
	CHECK(tells(&nic, 3, 8, 2) && nic.told == SH_SLOW_PATHS_SOME);
	for (uint32_t slow = 1; slow < 8; slow++)
		CHECK(!tells(&nic, slow, 8, 2));
	CHECK(tells(&nic, 0, 8, 0) && nic.told == SH_SLOW_PATHS_NONE);
	CHECK(!tells(&nic, 0, 8, 0));
	CHECK(!tells(&nic, 1, 8, 1));
	CHECK(!tells(&nic, 0, 8, 0)); /* it was none */
	CHECK(!tells(&nic, 1, 8, 1));
	return NULL;
}

static const char *the_nic_is_to_blame(void)
{
	struct sh_slow_paths_told nic = { 0 };

	/* At two looks; it is told of once. */
	CHECK(!tells(&nic, 1, 4, 1));
	CHECK(tells(&nic, 4, 4, 4) && nic.told == SH_SLOW_PATHS_ALL);
	CHECK(!tells(&nic, 3, 4, 3));
	CHECK(!tells(&nic, 4, 4, 4));
	CHECK(tells(&nic, 0, 4, 0) && nic.told == SH_SLOW_PATHS_NONE);
	/* Of one peer, which may be slow itself; then to others, too. */
	CHECK(!tells(&nic, 2, 2, 1));
	CHECK(tells(&nic, 2, 2, 1) && nic.told == SH_SLOW_PATHS_SOME);
	CHECK(!tells(&nic, 4, 4, 2));
	CHECK(tells(&nic, 4, 4, 2) && nic.told == SH_SLOW_PATHS_ALL);
	return NULL;
}

static const struct {
	const char *name;
	const char *(*run)(void);
} cases[] = {
	{ "a_path_becomes_slow", a_path_becomes_slow },
	{ "slow_from_its_birth", slow_from_its_birth },
	{ "slow_before_the_other_came", slow_before_the_other_came },
	{ "a_single_path_tells_nothing", a_single_path_tells_nothing },
	{ "paths_of_one_nic", paths_of_one_nic },
	{ "a_busy_machine", a_busy_machine },
	{ "congestion", congestion },
	{ "pings_behind_data", pings_behind_data },
	{ "rails_of_different_length", rails_of_different_length },
	{ "microseconds", microseconds },
	{ "hardly_pinged", hardly_pinged },
	{ "few_pings", few_pings },
	{ "both_are_slow", both_are_slow },
	{ "it_is_well_in_its_time", it_is_well_in_its_time },
	{ "told_once", told_once },
	{ "the_nic_is_to_blame", the_nic_is_to_blame },
};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static void all_that_pings_may_say(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_CASES; i++) {
		const char *wrong = cases[i].run();

		if (wrong)
			fail_msg("%s: not %s", cases[i].name, wrong);
	}
}

static void each_broken_rule_is_noticed(void **state)
{
	(void)state;
	for (int m = SH_SLOW_PATH_MUTANT_NONE + 1; m < SH_SLOW_PATH_MUTANTS; m++) {
		const char *wrong = NULL;
		size_t i;

		sh_slow_path_mutant = (enum sh_slow_path_mutant)m;
		for (i = 0; i < N_CASES && !wrong; i++)
			wrong = cases[i].run();
		sh_slow_path_mutant = SH_SLOW_PATH_MUTANT_NONE;
		if (!wrong)
			fail_msg("nothing notices mutant %d", m);
		printf("mutant %d: %s, not %s\n", m, cases[i - 1].name, wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_pings_may_say),
		cmocka_unit_test(each_broken_rule_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
