/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What links say of a NIC that has become slow, or was so from the first look on. No clock runs here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "shiftlib/core/slow.h"

#define SECOND	1000000000ull
#define LOOK_NS (SECOND / 2)
#define GBPS	1000u

enum { PORT = 100 * GBPS, X16 = 252 * GBPS, X8 = 126 * GBPS, X4 = 63 * GBPS };

static const struct sh_gray_config config = {
	.look_ns = LOOK_NS,
	.hold_min_ns = 60 * SECOND,
	.hold_max_ns = 3600 * SECOND,
	.calm_ns = 600 * SECOND,
};

struct nic {
	struct sh_slow slow;
	struct sh_slow_rates rates, like;
	uint64_t now;
};

static struct nic nic_new(void)
{
	return (struct nic){ .rates = { PORT, X16, X16 },
			     .like = { PORT, X16, X16 },
			     .now = SECOND };
}

static bool look(struct nic *nic)
{
	nic->now += LOOK_NS;
	return sh_slow_update(&nic->slow, &config, &nic->rates, &nic->like, nic->now);
}

/* Looks until it is judged otherwise; 0: it is not, in an hour and more. */
static uint32_t changes_after(struct nic *nic)
{
	for (uint32_t i = 1; i <= 10000; i++)
		if (look(nic))
			return i;
	return 0;
}

static bool never(struct nic *nic)
{
	return !changes_after(nic) && nic->slow.state == SH_SLOW_WHOLE;
}

/* What is wrong; NULL: nothing. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return #condition;                                                         \
	} while (0)

static const char *lanes_are_lost(void)
{
	struct nic nic = nic_new();

	for (int i = 0; i < 10; i++)
		CHECK(!look(&nic));
	nic.rates.port = PORT / 4;
	CHECK(changes_after(&nic) == 2);
	CHECK(nic.slow.state == SH_SLOW_SLOW);
	CHECK(nic.slow.now == PORT / 4 && nic.slow.whole == PORT);
	return NULL;
}

static const char *slow_from_the_first_look_on(void)
{
	struct nic nic = nic_new();

	nic.rates.port = PORT / 2;
	CHECK(changes_after(&nic) == 2);
	nic = nic_new();
	nic.like = (struct sh_slow_rates){ 0 };
	nic.rates.port = PORT / 2; /* who knows what it could? */
	CHECK(never(&nic));
	return NULL;
}

static const char *pci_lanes_are_lost(void)
{
	struct nic nic = nic_new();

	CHECK(!look(&nic));
	nic.rates.bus = X4;
	CHECK(changes_after(&nic) == 2);
	CHECK(nic.slow.now == X4 && nic.slow.whole == PORT);
	return NULL;
}

/* More than its port needs: nothing is slower for it. */
static const char *pci_lanes_that_nobody_needs(void)
{
	struct nic nic = nic_new();

	CHECK(!look(&nic));
	nic.rates.bus = X8;
	CHECK(never(&nic));
	return NULL;
}

static const char *slower_slots(void)
{
	struct nic nic = nic_new();

	/* All of its make: set up so. */
	nic.rates = nic.like = (struct sh_slow_rates){ 2 * PORT, X8, X16 };
	CHECK(never(&nic));
	/* Alone in a slot for eight lanes, of which it has all. */
	nic = nic_new();
	nic.like.bus = X16;
	nic.rates = (struct sh_slow_rates){ 2 * PORT, X8, X8 };
	nic.like.port = 2 * PORT;
	CHECK(never(&nic));
	/* The only one of its make, with half of what both ends can. */
	nic = nic_new();
	nic.like = (struct sh_slow_rates){ 0 };
	nic.rates = (struct sh_slow_rates){ 2 * PORT, X8, X16 };
	CHECK(changes_after(&nic) == 2);
	return NULL;
}

static const char *trains_in_steps(void)
{
	struct nic nic = nic_new();

	CHECK(!look(&nic));
	for (int i = 0; i < 1000; i++) {
		nic.rates.port = i % 2 ? PORT : PORT / 4;
		CHECK(!look(&nic));
	}
	CHECK(nic.slow.state == SH_SLOW_WHOLE);
	return NULL;
}

static const char *a_port_that_is_down(void)
{
	struct nic nic = nic_new();

	CHECK(!look(&nic));
	nic.rates.port = 0;
	CHECK(never(&nic));
	nic.rates.port = PORT / 4; /* once, as it comes up */
	CHECK(!look(&nic));
	nic.rates.port = 0;
	CHECK(!look(&nic));
	nic.rates.port = PORT / 4;
	CHECK(!look(&nic));
	nic.rates.port = PORT;
	CHECK(never(&nic));
	return NULL;
}

static const char *nothing_is_known(void)
{
	struct nic nic = { .now = SECOND };

	CHECK(never(&nic));
	nic.rates.port = PORT; /* a device of a virtual machine: no PCI link that tells */
	CHECK(never(&nic));
	nic.rates.port = PORT / 2;
	CHECK(changes_after(&nic) == 2);
	return NULL;
}

/* Each relapse waits twice as long. */
static const char *it_comes_back_in_its_time(void)
{
	struct nic nic = nic_new();
	uint64_t hold = config.hold_min_ns / LOOK_NS;

	CHECK(!look(&nic));
	for (int i = 0; i < 4; i++, hold *= 2) {
		nic.rates.port = PORT / 4;
		CHECK(changes_after(&nic) == 2);
		for (int k = 0; k < 100; k++)
			CHECK(!look(&nic));
		nic.rates.port = PORT;
		CHECK(changes_after(&nic) == hold);
		CHECK(nic.slow.state == SH_SLOW_WHOLE);
	}
	nic.now += 10 * config.calm_ns;
	nic.rates.port = PORT / 4;
	CHECK(changes_after(&nic) == 2);
	CHECK(sh_slow_hold_ns(&nic.slow, &config) == config.hold_min_ns);
	return NULL;
}

static const char *the_operator_has_his_way(void)
{
	struct nic nic = nic_new();

	CHECK(!look(&nic));
	nic.rates.port = PORT / 2;
	CHECK(changes_after(&nic) == 2);
	sh_slow_accept(&nic.slow, nic.now);
	CHECK(nic.slow.state == SH_SLOW_WHOLE);
	CHECK(never(&nic));
	nic.rates.port = PORT / 4; /* not that, though */
	CHECK(changes_after(&nic) == 2);
	sh_slow_accept(&nic.slow, nic.now);
	nic.rates.port = PORT;
	CHECK(!look(&nic));
	nic.rates.port = PORT / 2; /* it was whole since */
	CHECK(changes_after(&nic) == 2);
	return NULL;
}

static const char *another_device(void)
{
	struct nic nic = nic_new();

	CHECK(!look(&nic));
	sh_slow_forget(&nic.slow);
	nic.rates = (struct sh_slow_rates){ PORT / 4, X16, X16 };
	nic.like = (struct sh_slow_rates){ 0 };
	CHECK(never(&nic));
	return NULL;
}

/* n others of which spare are nobody's own. */
static bool pays(uint32_t left, uint32_t n, uint32_t spare)
{
	const struct sh_slow slow = { .now = left, .whole = PORT };
	const struct sh_slow_others others = { .can = (uint64_t)n * PORT,
					       .own = (uint64_t)(n - spare) * PORT };

	return sh_slow_pays(&slow, &others);
}

/* Who leaves shares a NIC; of two NICs, both then have a half. */
static const char *leaving_has_to_pay(void)
{
	CHECK(!pays(PORT / 2, 1, 0));
	CHECK(pays(PORT / 4, 1, 0));
	CHECK(pays(PORT * 9 / 10, 1, 1));
	CHECK(pays(PORT / 2, 7, 0));
	CHECK(!pays(PORT * 9 / 10, 7, 0));
	CHECK(!pays(PORT / 4, 0, 0));
	return NULL;
}

static const struct {
	const char *name;
	const char *(*run)(void);
} cases[] = {
	{ "lanes_are_lost", lanes_are_lost },
	{ "slow_from_the_first_look_on", slow_from_the_first_look_on },
	{ "pci_lanes_are_lost", pci_lanes_are_lost },
	{ "pci_lanes_that_nobody_needs", pci_lanes_that_nobody_needs },
	{ "slower_slots", slower_slots },
	{ "trains_in_steps", trains_in_steps },
	{ "a_port_that_is_down", a_port_that_is_down },
	{ "nothing_is_known", nothing_is_known },
	{ "it_comes_back_in_its_time", it_comes_back_in_its_time },
	{ "the_operator_has_his_way", the_operator_has_his_way },
	{ "another_device", another_device },
	{ "leaving_has_to_pay", leaving_has_to_pay },
};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static void all_that_links_may_say(void **state)
{
	for (size_t i = 0; i < N_CASES; i++) {
		const char *wrong = cases[i].run();

		if (wrong)
			fail_msg("%s: not %s", cases[i].name, wrong);
	}
}

static void each_broken_rule_is_noticed(void **state)
{
	for (int m = SH_SLOW_MUTANT_NONE + 1; m < SH_SLOW_MUTANTS; m++) {
		const char *wrong = NULL;
		size_t i;

		sh_slow_mutant = (enum sh_slow_mutant)m;
		for (i = 0; i < N_CASES && !wrong; i++)
			wrong = cases[i].run();
		sh_slow_mutant = SH_SLOW_MUTANT_NONE;
		if (!wrong)
			fail_msg("nothing notices mutant %d", m);
		printf("mutant %d: %s, not %s\n", m, cases[i - 1].name, wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_links_may_say),
		cmocka_unit_test(each_broken_rule_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
