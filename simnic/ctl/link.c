/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* simnicctl link: what the cable of a NIC is like */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/ctl/simnicctl.h"

struct unit {
	const char *name;
	double factor;
};

static const struct unit rates[] = { { "", 1 }, { "K", 1e3 }, { "M", 1e6 }, { "G", 1e9 }, { 0 } };
static const struct unit sizes[] = { { "", 1 }, { "K", 1024 }, { "M", 1048576 }, { 0 } };
static const struct unit times[] = {
	{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { 0 }
};

static bool scaled(const char *text, const struct unit *units, uint64_t *value)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || !(v >= 0) || v > 1e12)
		return false;
	for (const struct unit *u = units; u->name; u++) {
		if (strcmp(end, u->name) || v * u->factor > 1e15)
			continue;
		*value = (uint64_t)(v * u->factor);
		return true;
	}
	return false;
}

static bool chance(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return *text && !*end && *value >= 0 && *value <= 0.9;
}

/* P:T */
static bool reorder(const char *text, struct sn_line_config *c)
{
	const char *colon = strchr(text, ':');
	char p[32];

	if (!colon || (size_t)(colon - text) >= sizeof(p))
		return false;
	snprintf(p, sizeof(p), "%.*s", (int)(colon - text), text);
	return chance(p, &c->loss.reorder) && scaled(colon + 1, times, &c->reorder_ns);
}

static bool set(struct sn_line_config *c, const char *option, const char *text)
{
	uint64_t burst = 0;

	if (!strcmp(option, "--rate"))
		return scaled(text, rates, &c->rate_bps) && c->rate_bps >= 1000;
	if (!strcmp(option, "--delay"))
		return scaled(text, times, &c->delay_ns) && c->delay_ns <= 10000000000ULL;
	if (!strcmp(option, "--loss"))
		return chance(text, &c->loss.loss);
	if (!strcmp(option, "--reorder"))
		return reorder(text, c);
	if (!strcmp(option, "--duplicate"))
		return chance(text, &c->loss.duplicate);
	if (!strcmp(option, "--queue"))
		return scaled(text, sizes, &c->queue) && c->queue;
	if (strcmp(option, "--burst") || !scaled(text, sizes, &burst) || burst < 1 || burst > 1000)
		return false;
	c->loss.burst = (uint32_t)burst;
	return true;
}

/* The direction named by the word behind the NIC; without such a word, both. */
static enum sn_line_way way_of(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[2], "out"))
		return SN_LINE_OUT;
	return argc > 2 && !strcmp(argv[2], "in") ? SN_LINE_IN : SN_LINE_BOTH;
}

static bool parse(int argc, char **argv, int first, struct sn_line_config *c)
{
	for (int i = first; i < argc; i += 2) {
		if (i + 1 < argc && set(c, argv[i], argv[i + 1]))
			continue;
		ctl_usage("link: '%s %s' makes no sense", argv[i], i + 1 < argc ? argv[i + 1] : "");
		return false;
	}
	return true;
}

static void show(const struct sn_fabric *fabric, const char *way, const _Atomic uint32_t *number)
{
	uint32_t i = atomic_load(number);
	const struct sn_line *l = i ? &fabric->line[i - 1] : NULL;

	if (!l || !atomic_load(&l->on)) {
		printf("%s: none\n", way);
		return;
	}
	printf("%s: rate %" PRIu64 " delay_ns %" PRIu64 " loss %g burst %u; sent %" PRIu64
	       " lost %" PRIu64 " overflown %" PRIu64 " reordered %" PRIu64 " duplicated %" PRIu64
	       " oversized %" PRIu64 "\n",
	       way, l->config.rate_bps, l->config.delay_ns, l->config.loss.loss,
	       l->config.loss.burst, atomic_load(&l->sent), atomic_load(&l->lost),
	       atomic_load(&l->overflown), atomic_load(&l->reordered), atomic_load(&l->duplicated),
	       atomic_load(&l->oversized));
}

int ctl_link(int argc, char **argv)
{
	struct sn_line_config config = { 0 };
	enum sn_line_way way = way_of(argc, argv);
	int first = way == SN_LINE_BOTH ? 2 : 3;
	bool off = argc == first + 1 && !strcmp(argv[first], "off");
	struct ctl_nic nic;

	if (argc < 2)
		return ctl_usage("link wants a NIC");
	if (way != SN_LINE_BOTH && argc == first)
		return ctl_usage("link: what is its direction %s to be like?", argv[2]);
	if (!off && !parse(argc, argv, first, &config))
		return CTL_USAGE;
	if (!ctl_nic(argv[1], &nic))
		return CTL_FAILED;
	if (argc == 2) {
		show(nic.fabric, "out", &nic.nic->cable.out);
		show(nic.fabric, "in", &nic.nic->cable.in);
		return CTL_OK;
	}
	if (sn_line_set_way(nic.fabric, nic.nic->host, nic.nic->index, way, off ? NULL : &config))
		return ctl_fail("this fabric has no more than %d links", SN_LINES / 2);
	return CTL_OK;
}
