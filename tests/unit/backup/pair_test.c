/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which NIC stands in for which: machines as they are sold, then machines drawn at random. */
#include "tests/lib/kv_support.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shiftlib/backup/pair.h"

#define ROUNDS 2000
#define IB     IBV_LINK_LAYER_INFINIBAND
#define ETH    IBV_LINK_LAYER_ETHERNET

struct machine {
	const char *what;
	struct backup_nic nics[16];
	const char *expect; /* "a-b": pairs; "c>a": c leans on a; "c": has none */
};

#define NIC(name_, layer, numa_, pci_, card_, model_)                                              \
	{                                                                                          \
		.name = name_, .link_layer = layer, .numa = numa_, .pci = pci_, .card = card_,     \
		.model = model_                                                                    \
	}
/* Single ports, each behind a root port of its own. */
#define SLOT(name, layer, numa, bus)                                                               \
	NIC(name, layer, numa, "pci0000:" #bus "/0000:" #bus ":00.0/0001:" #bus ":00.0", #bus,     \
	    "MT4129")
/* Behind a switch with a GPU or a neighbour: an upstream port, then a downstream port each. */
#define SWITCHED(name, layer, numa, root, down, bus)                                               \
	NIC(name, layer, numa,                                                                     \
	    "pci0000:" #root "/0000:" #root ":01.0/0000:" #root ":00.0/0000:" #root ":" #down      \
	    ".0/0000:" #bus ":00.0",                                                               \
	    #bus, "MT4129")
#define PORT(name, layer, numa, bus, function)                                                     \
	NIC(name, layer, numa, "pci0000:" #bus "/0000:" #bus ":00.0/0001:" #bus ":00." #function,  \
	    "card" #bus, "MT4123")

static const struct machine machines[] = {
	{ "no device", { { .name = NULL } }, "" },
	{ "one", { SLOT("mlx5_0", IB, 0, 10) }, "mlx5_0" },
	{ "two", { SLOT("mlx5_0", IB, 0, 10), SLOT("mlx5_1", IB, 1, 80) }, "mlx5_0-mlx5_1" },
	{ "eight on two nodes, a slot each",
	  { SLOT("mlx5_0", IB, 0, 10), SLOT("mlx5_1", IB, 0, 20), SLOT("mlx5_2", IB, 0, 30),
	    SLOT("mlx5_3", IB, 0, 40), SLOT("mlx5_4", IB, 1, 90), SLOT("mlx5_5", IB, 1, a0),
	    SLOT("mlx5_6", IB, 1, b0), SLOT("mlx5_7", IB, 1, c0) },
	  "mlx5_0-mlx5_1 mlx5_2-mlx5_3 mlx5_4-mlx5_5 mlx5_6-mlx5_7" },
	{ "eight behind four switches, in another order than their names",
	  { SWITCHED("mlx5_0", ETH, 0, 10, 00, 11), SWITCHED("mlx5_1", ETH, 0, 30, 00, 31),
	    SWITCHED("mlx5_2", ETH, 0, 10, 01, 12), SWITCHED("mlx5_3", ETH, 0, 30, 01, 32),
	    SWITCHED("mlx5_4", ETH, 1, 90, 00, 91), SWITCHED("mlx5_5", ETH, 1, b0, 00, b1),
	    SWITCHED("mlx5_6", ETH, 1, 90, 01, 92), SWITCHED("mlx5_7", ETH, 1, b0, 01, b2) },
	  "mlx5_0-mlx5_2 mlx5_1-mlx5_3 mlx5_4-mlx5_6 mlx5_5-mlx5_7" },
	{ "three on each node: the two that are left over go together",
	  { SLOT("mlx5_0", IB, 0, 10), SLOT("mlx5_1", IB, 0, 20), SLOT("mlx5_2", IB, 0, 30),
	    SLOT("mlx5_3", IB, 1, 90), SLOT("mlx5_4", IB, 1, a0), SLOT("mlx5_5", IB, 1, b0) },
	  "mlx5_0-mlx5_1 mlx5_2-mlx5_5 mlx5_3-mlx5_4" },
	{ "an odd one leans on the nearest",
	  { SLOT("mlx5_0", IB, 0, 10), SLOT("mlx5_1", IB, 1, 90), SLOT("mlx5_2", IB, 1, a0) },
	  "mlx5_0>mlx5_1 mlx5_1-mlx5_2" },
	{ "one card of two ports, and nothing else",
	  { PORT("mlx5_0", ETH, 0, 10, 0), PORT("mlx5_1", ETH, 0, 10, 1) },
	  "mlx5_0-mlx5_1" },
	{ "two cards of two ports: rail by rail, though far",
	  { PORT("mlx5_0", ETH, 0, 10, 0), PORT("mlx5_1", ETH, 0, 10, 1),
	    PORT("mlx5_2", ETH, 1, 90, 0), PORT("mlx5_3", ETH, 1, 90, 1) },
	  "mlx5_0-mlx5_2 mlx5_1-mlx5_3" },
	{ "three cards of two ports: none is left to its own card",
	  { PORT("mlx5_0", ETH, 0, 10, 0), PORT("mlx5_1", ETH, 0, 10, 1),
	    PORT("mlx5_2", ETH, 0, 20, 0), PORT("mlx5_3", ETH, 0, 20, 1),
	    PORT("mlx5_4", ETH, 1, 90, 0), PORT("mlx5_5", ETH, 1, 90, 1) },
	  "mlx5_0-mlx5_4 mlx5_1-mlx5_3 mlx5_2-mlx5_5" },
	{ "a card of two ports and a single one",
	  { PORT("mlx5_0", ETH, 0, 10, 0), PORT("mlx5_1", ETH, 0, 10, 1),
	    SLOT("mlx5_2", ETH, 1, 90) },
	  "mlx5_0-mlx5_2 mlx5_1>mlx5_2" },
	{ "one card in two slots, of two nodes: its ports are known by the image GUID",
	  { NIC("mlx5_0", IB, 0, "pci0000:10/0000:10:01.0/0000:11:00.0", "c0ffee", "MT4123"),
	    NIC("mlx5_1", IB, 1, "pci0000:90/0000:90:01.0/0000:91:00.0", "c0ffee", "MT4123"),
	    SLOT("mlx5_2", IB, 1, a0), SLOT("mlx5_3", IB, 1, b0) },
	  "mlx5_0-mlx5_2 mlx5_1-mlx5_3" },
	{ "fast ones among themselves, though a slow one is nearer",
	  { NIC("mlx5_0", ETH, 0, "pci0000:10/0000:10:01.0/0000:11:00.0", "a", "MT4129"),
	    NIC("mlx5_1", ETH, 0, "pci0000:10/0000:10:02.0/0000:12:00.0", "b", "MT4117"),
	    NIC("mlx5_2", ETH, 1, "pci0000:90/0000:90:01.0/0000:91:00.0", "c", "MT4129"),
	    NIC("mlx5_3", ETH, 1, "pci0000:90/0000:90:02.0/0000:92:00.0", "d", "MT4117") },
	  "mlx5_0-mlx5_2 mlx5_1-mlx5_3" },
	{ "InfiniBand for the GPUs, Ethernet for the storage",
	  { SLOT("mlx5_0", IB, 0, 10), SLOT("mlx5_1", ETH, 0, 18), SLOT("mlx5_2", IB, 0, 20),
	    SLOT("mlx5_3", ETH, 1, 90), SLOT("mlx5_4", IB, 1, a0), SLOT("mlx5_5", IB, 1, b0) },
	  "mlx5_0-mlx5_2 mlx5_1-mlx5_3 mlx5_4-mlx5_5" },
	{ "one of each link layer",
	  { SLOT("mlx5_0", IB, 0, 10), SLOT("mlx5_1", ETH, 0, 20) },
	  "mlx5_0 mlx5_1" },
	{ "another vendor's serves nobody, and nobody it",
	  { SLOT("mlx5_0", ETH, 0, 10),
	    { .name = "bnxt_re0", .link_layer = ETH, .foreign = true },
	    SLOT("mlx5_1", ETH, 1, 90) },
	  "mlx5_0-mlx5_1 bnxt_re0" },
	{ "two of another vendor back each other up, and nobody else",
	  { { .name = "bnxt_re0", .link_layer = ETH, .vendor = "0x14e4" },
	    { .name = "rxe0", .link_layer = ETH },
	    { .name = "mlx5_0", .link_layer = ETH, .vendor = "mlx5" },
	    { .name = "bnxt_re1", .link_layer = ETH, .vendor = "0x14e4" } },
	  "bnxt_re0-bnxt_re1 rxe0 mlx5_0" },
	{ "a subfunction is its card's; udev's names",
	  { NIC("rocep17s0", ETH, 0, "pci0000:10/0000:10:01.0/0000:11:00.0", "", "MT4129"),
	    NIC("mlx5_9", ETH, 0, "pci0000:10/0000:10:01.0/0000:11:00.0/mlx5_core.sf.4", "", ""),
	    NIC("rocep33s0", ETH, 1, "pci0000:20/0000:20:01.0/0000:21:00.0", "", "MT4129") },
	  "rocep17s0-rocep33s0 mlx5_9>rocep33s0" },
	{ "a virtual machine that shows neither nodes nor bridges",
	  { NIC("mlx5_0", ETH, -1, "pci0000:00/0000:00:05.0", "a", "MT4126"),
	    NIC("mlx5_1", ETH, -1, "pci0000:00/0000:00:06.0", "b", "MT4126"),
	    NIC("mlx5_2", ETH, -1, "pci0000:00/0000:00:07.0", "c", "MT4126"),
	    NIC("mlx5_3", ETH, -1, "pci0000:00/0000:00:08.0", "a", "MT4126") },
	  "mlx5_0-mlx5_1 mlx5_2-mlx5_3" },
	{ "nothing known but names",
	  { { .name = "mlx5_10", .numa = -1 },
	    { .name = "mlx5_2", .numa = -1 },
	    { .name = "mlx5_1", .numa = -1 },
	    { .name = "mlx5_11", .numa = -1 } },
	  "mlx5_10-mlx5_11 mlx5_2-mlx5_1" },
};
#define N_MACHINES (sizeof(machines) / sizeof(machines[0]))

static uint32_t count(const struct backup_nic *nics)
{
	uint32_t n = 0;

	while (n < 16 && nics[n].name)
		n++;
	return n;
}

static void shuffle(struct backup_nic *nics, uint32_t n, unsigned *seed)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)rand_r(seed) % i;
		struct backup_nic swap = nics[i - 1];

		nics[i - 1] = nics[k];
		nics[k] = swap;
	}
}

/* What the choice says in the notation of struct machine, in the order of `order`. */
static void describe(const struct backup_nic *nics, uint32_t n, const uint8_t *backup,
		     const struct backup_nic *order, char *text)
{
	bool told[BACKUP_MAP_MAX_NICS] = { false };
	uint32_t at[BACKUP_MAP_MAX_NICS];

	for (uint32_t o = 0; o < n; o++)
		for (uint32_t i = 0; i < n; i++)
			if (nics[i].name == order[o].name)
				at[o] = i;
	*text = '\0';
	for (uint32_t o = 0; o < n; o++) {
		uint32_t i = at[o], b = backup[i];
		bool mutual = b != BACKUP_NONE && backup[b] == i;

		if (told[i])
			continue;
		text += sprintf(text, "%s%s%s%s", *text || o ? " " : "", nics[i].name,
				b == BACKUP_NONE ? ""
				: mutual	 ? "-"
						 : ">",
				b == BACKUP_NONE ? "" : nics[b].name);
		if (mutual)
			told[b] = true;
	}
}

static void sold(void **state)
{
	unsigned seed = kv_test_seed();
	uint8_t backup[BACKUP_MAP_MAX_NICS];
	struct backup_nic nics[16];
	char text[512];

	for (size_t m = 0; m < N_MACHINES; m++) {
		uint32_t n = count(machines[m].nics);

		memcpy(nics, machines[m].nics, sizeof(nics));
		for (int round = 0; round < 200; round++) {
			backup_pair(nics, n, backup);
			describe(nics, n, backup, machines[m].nics, text);
			if (strcmp(text, machines[m].expect))
				fail_msg("%s: %s, not %s", machines[m].what, text,
					 machines[m].expect);
			shuffle(nics, n, &seed);
		}
	}
}

static void near_and_far(void **state)
{
	static const struct {
		enum backup_near near;
		struct backup_nic a, b;
	} cases[] = {
		{ BACKUP_SAME_CARD, PORT("a", ETH, 0, 10, 0), PORT("b", ETH, 0, 10, 1) },
		{ BACKUP_SAME_CARD, NIC("a", ETH, 0, "", "x", ""), NIC("b", ETH, 1, "", "x", "") },
		{ BACKUP_SAME_SWITCH, SWITCHED("a", ETH, 0, 10, 00, 11),
		  SWITCHED("b", ETH, 0, 10, 01, 12) },
		{ BACKUP_SAME_ROOT,
		  NIC("a", ETH, 0, "pci0000:10/0000:10:01.0/0000:11:00.0", "", ""),
		  NIC("b", ETH, 0, "pci0000:10/0000:10:02.0/0000:12:00.0", "", "") },
		{ BACKUP_SAME_NODE, SLOT("a", ETH, 1, 10), SLOT("b", ETH, 1, 20) },
		{ BACKUP_OTHER_NODE, SLOT("a", ETH, 0, 10), SLOT("b", ETH, 1, 20) },
		{ BACKUP_NOT_KNOWN, SLOT("a", ETH, -1, 10), SLOT("b", ETH, 1, 20) },
		{ BACKUP_NOT_KNOWN, { .name = "a", .numa = -1 }, { .name = "b", .numa = -1 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(backup_near(&cases[i].a, &cases[i].b), cases[i].near);
		assert_int_equal(backup_near(&cases[i].b, &cases[i].a), cases[i].near);
		assert_true(strlen(backup_near_text(cases[i].near)) > 1);
	}
}

static void below_one_switch(void **state)
{
	static const char nic[] = "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0";
	static const char gpu[] = "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:08.0/0000:19:00.0";

	assert_true(backup_below_one_switch(nic, gpu));
	assert_true(backup_below_one_switch(
		nic, "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:09.0/0000:1a:00.0/"
		     "0000:1b:00.0/0000:1c:00.0")); /* a switch below the switch */
	/* another root port; two functions of one root port's card; another host bridge; nothing */
	assert_false(backup_below_one_switch(nic, "pci0000:10/0000:10:02.0/0000:14:00.0"));
	assert_false(backup_below_one_switch("pci0000:10/0000:10:01.0/0000:11:00.0",
					     "pci0000:10/0000:10:01.0/0000:11:00.1"));
	assert_false(backup_below_one_switch(nic, "pci0000:20/0000:10:01.0/0000:11:00.0"));
	assert_false(backup_below_one_switch(nic, ""));
	assert_false(backup_below_one_switch("", ""));
}

/* ---- at random ------------------------------------------------------------------------------ */

static char names[BACKUP_MAP_MAX_NICS][16];

static uint32_t draw(struct backup_nic *nics, unsigned *seed)
{
	uint32_t n = (uint32_t)rand_r(seed) % (BACKUP_MAP_MAX_NICS + 1);

	for (uint32_t i = 0; i < n; i++) {
		unsigned card = (unsigned)rand_r(seed) % 8, root = card / 2;

		snprintf(names[i], sizeof(names[i]), "mlx5_%u", i);
		nics[i] = (struct backup_nic){
			.name = names[i],
			.link_layer = rand_r(seed) % 4 ? ETH : IB,
			.foreign = rand_r(seed) % 8 == 0,
			.numa = (int)(root / 2),
		};
		snprintf(nics[i].pci, sizeof(nics[i].pci),
			 "pci0000:%x0/0000:%x0:0%u.0/0000:%x1:00.%u", root + 1, root + 1, card % 2,
			 card + 1, (unsigned)rand_r(seed) % 8);
		snprintf(nics[i].model, sizeof(nics[i].model), "MT41%d", 17 + rand_r(seed) % 2);
	}
	return n;
}

static bool fits(const struct backup_nic *a, const struct backup_nic *b)
{
	return a != b && a->link_layer == b->link_layer && !a->foreign && !b->foreign &&
	       !strcmp(a->vendor, b->vendor);
}

static bool has_other_card(const struct backup_nic *nics, uint32_t n, uint32_t i)
{
	for (uint32_t k = 0; k < n; k++)
		if (fits(&nics[i], &nics[k]) && backup_near(&nics[i], &nics[k]) != BACKUP_SAME_CARD)
			return true;
	return false;
}

static bool has_any(const struct backup_nic *nics, uint32_t n, uint32_t i)
{
	for (uint32_t k = 0; k < n; k++)
		if (fits(&nics[i], &nics[k]))
			return true;
	return false;
}

static void check_one(const struct backup_nic *nics, uint32_t n, const uint8_t *backup, uint32_t i)
{
	uint32_t b = backup[i];

	if (b == BACKUP_NONE) {
		assert_false(has_any(nics, n, i));
		return;
	}
	assert_true(b < n && fits(&nics[i], &nics[b]));
	if (backup_near(&nics[i], &nics[b]) == BACKUP_SAME_CARD)
		assert_false(has_other_card(nics, n, i));
}

/* Not more than one of each link layer leans, unless a card has more ports than all others. */
static void check_pairs(const struct backup_nic *nics, uint32_t n, const uint8_t *backup)
{
	unsigned single[3] = { 0 };

	for (uint32_t i = 0; i < n; i++)
		if (backup[i] != BACKUP_NONE && backup[backup[i]] != i &&
		    backup_near(&nics[i], &nics[backup[i]]) != BACKUP_SAME_CARD) {
			uint32_t same = 0, fit = 1;

			for (uint32_t k = 0; k < n; k++) {
				fit += fits(&nics[i], &nics[k]);
				same += fits(&nics[i], &nics[k]) &&
					backup_near(&nics[i], &nics[k]) == BACKUP_SAME_CARD;
			}
			if (2 * (same + 1) <= fit + 1)
				single[nics[i].link_layer]++;
		}
	assert_true(single[IB] <= 1 && single[ETH] <= 1);
}

static void at_random(void **state)
{
	unsigned seed = kv_test_seed();
	struct backup_nic nics[BACKUP_MAP_MAX_NICS], again[BACKUP_MAP_MAX_NICS];
	uint8_t backup[BACKUP_MAP_MAX_NICS], other[BACKUP_MAP_MAX_NICS];

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t n = draw(nics, &seed);

		backup_pair(nics, n, backup);
		for (uint32_t i = 0; i < n; i++)
			check_one(nics, n, backup, i);
		check_pairs(nics, n, backup);
		memcpy(again, nics, sizeof(again));
		shuffle(again, n, &seed);
		backup_pair(again, n, other);
		for (uint32_t k = 0; k < n; k++) {
			uint32_t i = (uint32_t)strtoul(again[k].name + 5, NULL, 10);
			const char *was = backup[i] == BACKUP_NONE ? "" : nics[backup[i]].name;
			const char *now = other[k] == BACKUP_NONE ? "" : again[other[k]].name;

			assert_string_equal(was, now);
		}
	}
}

/* ---- all that stand in for one -------------------------------------------------------------- */

static const struct {
	const char *machine, *expect; /* of its first NIC; "|": behind it, the last resort */
} all_cases[] = {
	{ "one", "" },
	{ "eight on two nodes, a slot each", "mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7" },
	{ "eight behind four switches, in another order than their names",
	  "mlx5_2 mlx5_1 mlx5_3 mlx5_4 mlx5_6 mlx5_5 mlx5_7" },
	{ "one card of two ports, and nothing else", "mlx5_1" },
	{ "two cards of two ports: rail by rail, though far", "mlx5_2 mlx5_3 | mlx5_1" },
	{ "three cards of two ports: none is left to its own card",
	  "mlx5_4 mlx5_2 mlx5_3 mlx5_5 | mlx5_1" },
	{ "fast ones among themselves, though a slow one is nearer", "mlx5_2" },
	{ "InfiniBand for the GPUs, Ethernet for the storage", "mlx5_2 mlx5_4 mlx5_5" },
	{ "another vendor's serves nobody, and nobody it", "mlx5_1" },
	{ "one of each link layer", "" },
};

static const struct machine *machine_named(const char *what)
{
	for (size_t m = 0; m < N_MACHINES; m++)
		if (!strcmp(machines[m].what, what))
			return &machines[m];
	fail_msg("no machine is called \"%s\"", what);
	return NULL;
}

static void describe_all(const struct backup_nic *nics, const struct backup_all *all, char *text)
{
	*text = '\0';
	for (uint32_t k = 0; k < all->n; k++)
		text += sprintf(text, "%s%s%s", k ? " " : "", k == all->n_even ? "| " : "",
				nics[all->nic[k]].name);
}

static void all_of_them(void **state)
{
	unsigned seed = kv_test_seed();
	struct backup_all all[BACKUP_MAP_MAX_NICS];
	struct backup_nic nics[16];
	char text[512];

	for (size_t c = 0; c < sizeof(all_cases) / sizeof(all_cases[0]); c++) {
		const struct machine *machine = machine_named(all_cases[c].machine);
		uint32_t n = count(machine->nics), at = 0;

		memcpy(nics, machine->nics, sizeof(nics));
		for (int round = 0; round < 100; round++, shuffle(nics, n, &seed)) {
			backup_pair_all(nics, n, all);
			while (nics[at % n].name != machine->nics[0].name)
				at++;
			describe_all(nics, &all[at % n], text);
			if (strcmp(text, all_cases[c].expect))
				fail_msg("%s: %s", machine->what, text);
		}
	}
}

/* At random: none twice, none that does not fit, and the pair's other half first where it is of the best class. */
static void all_at_random(void **state)
{
	unsigned seed = kv_test_seed();
	struct backup_nic nics[BACKUP_MAP_MAX_NICS];
	struct backup_all all[BACKUP_MAP_MAX_NICS];
	uint8_t backup[BACKUP_MAP_MAX_NICS];

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t n = draw(nics, &seed);

		backup_pair(nics, n, backup);
		backup_pair_all(nics, n, all);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t seen = 0;

			assert_int_equal(all[i].n > 0, backup[i] != BACKUP_NONE);
			assert_int_equal(all[i].n_even > 0, all[i].n > 0);
			for (uint32_t k = 0; k < all[i].n; k++) {
				assert_true(fits(&nics[i], &nics[all[i].nic[k]]));
				assert_false(seen >> all[i].nic[k] & 1);
				seen |= 1u << all[i].nic[k];
			}
		}
	}
}

/* ---- what sysfs says ------------------------------------------------------------------------ */

static char root[] = "/tmp/shift-backup-XXXXXX";

static void shell(const char *format, const char *argument)
{
	char command[1024];

	snprintf(command, sizeof(command), format, root, argument, root, root);
	assert_int_equal(system(command), 0);
}

static void from_sysfs(void **state)
{
	static const char pci[] = "pci0000:10/0000:10:00.0/0000:11:00.1";
	struct backup_nic nic;

	assert_non_null(mkdtemp(root));
	backup_nic_read(root, "mlx5_0", &nic);
	assert_string_equal(nic.name, "mlx5_0");
	assert_true(!nic.pci[0] && !nic.card[0] && !nic.model[0] && nic.numa == -1 &&
		    !nic.link_layer && !nic.foreign);
	shell("cd %s && d=devices/%s/infiniband/mlx5_0 && mkdir -p $d/ports/1 class/infiniband && "
	      "ln -s ../../$d class/infiniband/mlx5_0 && ln -s ../.. $d/device && cd $d && "
	      "echo InfiniBand >ports/1/link_layer && echo 1 >device/numa_node && "
	      "echo 0c42:a103:0000:0100 >sys_image_guid && echo MT4129 >hca_type",
	      pci);
	backup_nic_read(root, "mlx5_0", &nic);
	assert_false(nic.tried);
	backup_nic_is_mlx5(&nic);
	assert_true(nic.tried);
	assert_string_equal(nic.vendor, "mlx5");
	assert_string_equal(nic.pci, pci);
	assert_string_equal(nic.card, "0c42:a103:0000:0100");
	assert_string_equal(nic.model, "MT4129");
	assert_int_equal(nic.numa, 1);
	assert_int_equal(nic.link_layer, IB);
	shell("cd %s/devices/%s/infiniband/mlx5_0 && echo Ethernet >ports/1/link_layer && "
	      "echo -1 >device/numa_node && echo 0000:0000:0000:0000 >sys_image_guid",
	      pci);
	backup_nic_read(root, "mlx5_0", &nic);
	assert_int_equal(nic.numa, -1);
	assert_int_equal(nic.link_layer, ETH);
	assert_string_equal(nic.card, "");
	shell("cd %s && d=devices/virtual/infiniband/%s && mkdir -p $d && "
	      "ln -s ../../$d class/infiniband/rxe0 && echo eth0 >$d/parent",
	      "rxe0");
	backup_nic_read(root, "rxe0", &nic);
	assert_true(nic.tried);
	assert_string_equal(nic.vendor, "");
	shell("rm -r %s/devices/%s && rm -r %s", pci);
}

static int find(const char *pci, const char *guid)
{
	static const struct backup_place known[] = {
		{ "pci0000:10/0000:11:00.0", "0c42:a103:0000:0000" },
		{ "pci0000:10/0000:11:00.1", "0c42:a103:0000:0100" },
		{ "pci0000:20/0000:21:00.0", "" }, /* a virtual function without a GUID */
	};
	struct backup_place place = { "", "" };

	snprintf(place.pci, sizeof(place.pci), "%s", pci);
	snprintf(place.guid, sizeof(place.guid), "%s", guid);
	return backup_place_find(known, 3, &place);
}

static void by_place(void **state)
{
	assert_int_equal(find("pci0000:10/0000:11:00.0", "0c42:a103:0000:0000"), 0);
	assert_int_equal(find("pci0000:10/0000:11:00.1", "0c42:a103:0000:0100"), 1);
	/* another card, or a virtual function made anew; another slot */
	assert_int_equal(find("pci0000:10/0000:11:00.1", "0c42:a103:0000:0900"), 1);
	assert_int_equal(find("pci0000:30/0000:31:00.0", "0c42:a103:0000:0100"), 1);
	/* cards that changed slots: neither is what it was */
	assert_int_equal(find("pci0000:10/0000:11:00.0", "0c42:a103:0000:0100"), -1);
	assert_int_equal(find("pci0000:20/0000:21:00.0", ""), 2);
	assert_int_equal(find("pci0000:20/0000:21:00.0", "0c42:a103:0000:0000"), -1);
	assert_int_equal(find("pci0000:30/0000:31:00.0", ""), -1);
	assert_int_equal(find("", ""), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sold),		 cmocka_unit_test(near_and_far),
		cmocka_unit_test(at_random),	 cmocka_unit_test(all_of_them),
		cmocka_unit_test(all_at_random), cmocka_unit_test(from_sysfs),
		cmocka_unit_test(by_place),	 cmocka_unit_test(below_one_switch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
