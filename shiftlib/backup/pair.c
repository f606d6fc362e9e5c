/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "shiftlib/backup/pair.h"

/*
 * The costs of a pair: the least sum wins. One step in a field outweighs all that the pairs of a
 * host can have in the fields below it.
 */
#define COST_CARD  (1ull << 32)
#define COST_MODEL (1ull << 24)
#define COST_NEAR  (1ull << 12)
#define COST_NEVER UINT64_MAX

const char *backup_near_text(enum backup_near near)
{
	switch (near) {
	case BACKUP_SAME_CARD: return "another port of the same card";
	case BACKUP_SAME_SWITCH: return "behind the same PCI switch";
	case BACKUP_SAME_ROOT: return "on the same PCI root";
	case BACKUP_SAME_NODE: return "on the same NUMA node";
	case BACKUP_NOT_KNOWN: return "how near is not known";
	case BACKUP_OTHER_NODE: return "on another NUMA node";
	}
	return "?";
}

/* ---- where they are ------------------------------------------------------------------------- */

/* The last PCI function of the path: "0000:11:00.0". What an auxiliary device adds is none. */
static const char *pair_function(const struct backup_nic *nic)
{
	const char *at = nic->pci, *found = "", *slash;

	for (; *at; at = slash ? slash + 1 : "") {
		slash = strchr(at, '/');
		if (isxdigit((unsigned char)at[0]) && strcspn(at, "/") >= 12 && at[4] == ':' &&
		    at[7] == ':' && at[10] == '.')
			found = at;
	}
	return found;
}

static bool pair_same_text(const char *a, const char *b)
{
	return *a && !strcmp(a, b);
}

static bool pair_same_slot(const struct backup_nic *a, const struct backup_nic *b)
{
	const char *fa = pair_function(a), *fb = pair_function(b);

	return *fa && *fb && !strncmp(fa, fb, strlen("0000:11:00"));
}

/* Steps from the root that both take. */
static unsigned pair_common(const char *a, const char *b)
{
	unsigned n = 0;
	size_t len;

	for (;;) {
		len = strcspn(a, "/");
		if (!len || len != strcspn(b, "/") || strncmp(a, b, len))
			return n;
		n++;
		a += len + (a[len] == '/');
		b += len + (b[len] == '/');
	}
}

bool backup_below_one_switch(const char *a, const char *b)
{
	return pair_common(a, b) > 2; /* host bridge, root port, the switch's upstream port */
}

static unsigned pair_depth(const char *path)
{
	unsigned n = *path != '\0';

	for (; *path; path++)
		n += *path == '/';
	return n;
}

enum backup_near backup_near(const struct backup_nic *a, const struct backup_nic *b)
{
	unsigned common = pair_common(a->pci, b->pci);

	if (pair_same_slot(a, b) || pair_same_text(a->card, b->card))
		return BACKUP_SAME_CARD;
	if (common)
		return common > 1 ? BACKUP_SAME_SWITCH : BACKUP_SAME_ROOT;
	if (a->numa < 0 || b->numa < 0)
		return BACKUP_NOT_KNOWN;
	return a->numa == b->numa ? BACKUP_SAME_NODE : BACKUP_OTHER_NODE;
}

static uint64_t pair_cost(const struct backup_nic *a, const struct backup_nic *b)
{
	enum backup_near near = backup_near(a, b);
	unsigned common = pair_common(a->pci, b->pci);
	uint64_t cost = near == BACKUP_SAME_CARD ? COST_CARD : near * COST_NEAR;

	/* another vendor's is a backup only where it is named */
	if (a->link_layer != b->link_layer || a->foreign || b->foreign ||
	    strcmp(a->vendor, b->vendor))
		return COST_NEVER;
	if (*a->model && *b->model && strcmp(a->model, b->model))
		cost += COST_MODEL;
	return cost + pair_depth(a->pci) + pair_depth(b->pci) - 2 * common;
}

/* ---- their order ---------------------------------------------------------------------------- */

/* Compares names as people count: mlx5_2 comes before mlx5_10. */
static int pair_compare_names(const char *a, const char *b)
{
	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			unsigned long na = strtoul(a, (char **)&a, 10);
			unsigned long nb = strtoul(b, (char **)&b, 10);

			if (na != nb)
				return na < nb ? -1 : 1;
		} else if (*a != *b) {
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		} else {
			a++;
			b++;
		}
	}
	return (unsigned char)*a - (unsigned char)*b;
}

static int pair_compare(const struct backup_nic *a, const struct backup_nic *b)
{
	int by_address = strcmp(pair_function(a), pair_function(b));

	return by_address ? by_address : pair_compare_names(a->name, b->name);
}

/* ---- the pairs ------------------------------------------------------------------------------ */

/* The NICs by rank, so that the order of the caller's list is gone. */
struct pairing {
	uint32_t n;
	const struct backup_nic *nic[BACKUP_MAP_MAX_NICS];
	uint8_t place[BACKUP_MAP_MAX_NICS]; /* place in the caller's list */
	uint8_t mate[BACKUP_MAP_MAX_NICS];
	uint32_t users[BACKUP_MAP_MAX_NICS];
	uint64_t cost[BACKUP_MAP_MAX_NICS][BACKUP_MAP_MAX_NICS];
};

static void pairing_insert(struct pairing *p, const struct backup_nic *nic, uint8_t place)
{
	uint32_t at = p->n++;

	for (; at && pair_compare(nic, p->nic[at - 1]) < 0; at--) {
		p->nic[at] = p->nic[at - 1];
		p->place[at] = p->place[at - 1];
	}
	p->nic[at] = nic;
	p->place[at] = place;
}

static void pairing_begin(struct pairing *p, const struct backup_nic *nics, uint32_t n)
{
	uint32_t i, k;

	memset(p, 0, sizeof(*p));
	memset(p->mate, BACKUP_NONE, sizeof(p->mate));
	for (i = 0; i < n && i < BACKUP_MAP_MAX_NICS; i++)
		pairing_insert(p, &nics[i], (uint8_t)i);
	for (i = 0; i < p->n; i++)
		for (k = 0; k < p->n; k++)
			p->cost[i][k] = i == k ? COST_NEVER : pair_cost(p->nic[i], p->nic[k]);
}

static void pairing_marry(struct pairing *p, uint32_t a, uint32_t b)
{
	p->mate[a] = (uint8_t)b;
	p->mate[b] = (uint8_t)a;
}

/* The cheapest pair of those that have no mate; the first in order of several. */
static bool pairing_next(struct pairing *p)
{
	uint32_t i, k, a = 0, b = 0;
	uint64_t least = COST_NEVER;

	for (i = 0; i < p->n; i++)
		for (k = i + 1; k < p->n; k++)
			if (p->mate[i] == BACKUP_NONE && p->mate[k] == BACKUP_NONE &&
			    p->cost[i][k] < least) {
				least = p->cost[i][k];
				a = i;
				b = k;
			}
	if (least != COST_NEVER)
		pairing_marry(p, a, b);
	return least != COST_NEVER;
}

static uint64_t pairing_sum(const struct pairing *p, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	uint64_t one = p->cost[a][b], two = p->cost[c][d];

	return one == COST_NEVER || two == COST_NEVER ? COST_NEVER : one + two;
}

/*
 * Two pairs may be cheaper the other way round: the last ones left were married without a choice.
 */
static bool pairing_swap(struct pairing *p, uint32_t a, uint32_t c)
{
	uint32_t b = p->mate[a], d = p->mate[c];
	uint64_t now, straight, crossed;

	if (b == BACKUP_NONE || d == BACKUP_NONE || b == c)
		return false;
	now = pairing_sum(p, a, b, c, d);
	straight = pairing_sum(p, a, c, b, d);
	crossed = pairing_sum(p, a, d, b, c);
	if (straight >= now && crossed >= now)
		return false;
	pairing_marry(p, a, straight <= crossed ? c : d);
	pairing_marry(p, b, straight <= crossed ? d : c);
	return true;
}

/*
 * Gives the NIC that is left over to one that it suits better than its mate: then the mate is
 * left over.
 */
static bool pairing_replace(struct pairing *p, uint32_t single, uint32_t a)
{
	uint32_t b = p->mate[a];

	if (p->mate[single] != BACKUP_NONE || b == BACKUP_NONE ||
	    p->cost[a][single] >= p->cost[a][b])
		return false;
	p->mate[b] = BACKUP_NONE;
	pairing_marry(p, a, single);
	return true;
}

/* Each change makes the sum less, so it ends. */
static bool pairing_improve(struct pairing *p)
{
	bool better = false;
	uint32_t i, k;

	for (i = 0; i < p->n; i++)
		for (k = 0; k < p->n; k++)
			better |= i != k && (pairing_swap(p, i, k) || pairing_replace(p, i, k));
	return better;
}

/* Nearest, then least used, then first. */
static uint8_t pairing_nearest(const struct pairing *p, uint32_t i)
{
	uint8_t best = BACKUP_NONE;
	uint32_t k;

	for (k = 0; k < p->n; k++) {
		if (p->cost[i][k] == COST_NEVER)
			continue;
		if (best == BACKUP_NONE || p->cost[i][k] < p->cost[i][best] ||
		    (p->cost[i][k] == p->cost[i][best] && p->users[k] < p->users[best]))
			best = (uint8_t)k;
	}
	return best;
}

/*
 * Leans a NIC on the nearest if it has no mate, or one on its own card although there are others.
 */
static void pairing_lean(struct pairing *p)
{
	uint8_t nearest, mate;
	uint32_t i;

	for (i = 0; i < p->n; i++)
		if (p->mate[i] != BACKUP_NONE)
			p->users[p->mate[i]]++;
	for (i = 0; i < p->n; i++) {
		mate = p->mate[i];
		nearest = pairing_nearest(p, i);
		if (nearest == BACKUP_NONE || nearest == mate)
			continue;
		if (mate != BACKUP_NONE &&
		    (p->cost[i][mate] < COST_CARD || p->cost[i][nearest] >= COST_CARD))
			continue;
		if (mate != BACKUP_NONE)
			p->users[mate]--;
		p->mate[i] = nearest;
		p->users[nearest]++;
	}
}

static void pairing_make(struct pairing *p, const struct backup_nic *nics, uint32_t n)
{
	pairing_begin(p, nics, n);
	while (pairing_next(p))
		;
	while (pairing_improve(p))
		;
	pairing_lean(p);
}

void backup_pair(const struct backup_nic *nics, uint32_t n, uint8_t *backup)
{
	struct pairing p;
	uint32_t i;

	pairing_make(&p, nics, n);
	for (i = 0; i < p.n; i++)
		backup[p.place[i]] = p.mate[i] == BACKUP_NONE ? BACKUP_NONE : p.place[p.mate[i]];
}

/* ---- all of them ---------------------------------------------------------------------------- */

enum pair_class { PAIR_LIKE, PAIR_OTHER_MODEL, PAIR_SAME_CARD, PAIR_NEVER };

static enum pair_class pair_class(const struct pairing *p, uint32_t i, uint32_t k)
{
	uint64_t cost = p->cost[i][k];

	if (i == k || cost == COST_NEVER)
		return PAIR_NEVER;
	if (cost >= COST_CARD)
		return PAIR_SAME_CARD;
	return cost >= COST_MODEL ? PAIR_OTHER_MODEL : PAIR_LIKE;
}

static void all_add(const struct pairing *p, struct backup_all *all, uint32_t k)
{
	if (all->n < BACKUP_MAP_MAX_BACKUPS)
		all->nic[all->n++] = p->place[k];
}

/*
 * Adds the other half of its pair first, if it is of that class, so that both ways of choosing
 * agree in it.
 */
static void all_add_class(const struct pairing *p, struct backup_all *all, uint32_t i,
			  enum pair_class class)
{
	uint32_t mate = p->mate[i], step, k;

	if (mate != BACKUP_NONE && pair_class(p, i, mate) == class)
		all_add(p, all, mate);
	for (step = 1; step < p->n; step++) {
		k = (i + step) % p->n;
		if (k != mate && pair_class(p, i, k) == class)
			all_add(p, all, k);
	}
}

void backup_pair_all(const struct backup_nic *nics, uint32_t n, struct backup_all *all)
{
	struct backup_all *of;
	struct pairing p;
	uint32_t i;

	pairing_make(&p, nics, n);
	for (i = 0; i < p.n; i++) {
		of = &all[p.place[i]];
		memset(of, 0, sizeof(*of));
		all_add_class(&p, of, i, PAIR_LIKE);
		if (!of->n)
			all_add_class(&p, of, i, PAIR_OTHER_MODEL);
		of->n_even = of->n;
		all_add_class(&p, of, i, PAIR_SAME_CARD);
		if (!of->n_even) /* there is nothing else */
			of->n_even = of->n;
	}
}
