/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <assert.h>
#include "shiftlib/core/slow_path.h"

#define FACTOR	     8
#define LONGER_NS    1000000ull /* least delay over the expected time */
#define LOOKS_LEAST  5
#define PINGS_LEAST  8
#define WELL_LEAST   3	/* least looks with an answer until well */
#define LEARNS_LEAST 3	/* least looks until the usual time is known */
#define LEARNS	     64 /* weight of the usual time against a new one, */
#define LEARNS_DOWN  8	/* and against a shorter one, which shows what is possible */
#define WITNESS	     4	/* share of the delay by which a witness may have grown */
#define PEERS_LEAST  2

#ifdef SC_MUTANTS
enum sh_slow_path_mutant sh_slow_path_mutant;
#endif

/* ---- what is usual -------------------------------------------------------------------------- */

void sh_slow_path_add(struct sh_slow_path *slow, uint64_t ns)
{
	if (!slow->n++ || ns < slow->least_ns || SH_SLOW_PATH_MUTANT(LAST_PING))
		slow->least_ns = ns;
}

static bool slow_path_is_known(const struct sh_slow_path *slow)
{
	return slow->learned >= LEARNS_LEAST;
}

static void slow_path_learn(struct sh_slow_path *slow)
{
	uint32_t down;

	if (slow->learned < LEARNS)
		slow->learned++;
	down = slow->learned < LEARNS_DOWN ? slow->learned : LEARNS_DOWN;
	if (slow->least_ns < slow->usual_ns)
		slow->usual_ns -= (slow->usual_ns - slow->least_ns) / down;
	else
		slow->usual_ns += (slow->least_ns - slow->usual_ns) / slow->learned;
}

static bool slow_path_is_longer(uint64_t ns, uint64_t than)
{
	uint64_t factor = SH_SLOW_PATH_MUTANT(TWICE) ? 2 : FACTOR;

	return ns > factor * than && (ns - than > LONGER_NS || SH_SLOW_PATH_MUTANT(ANY_TIME));
}

/* ---- one against the others ----------------------------------------------------------------- */

/*
 * True if the other path shows that neither the machine nor the peer causes the delay of this one.
 */
static bool slow_path_vouches(const struct sh_slow_path *other, uint64_t longer_ns)
{
	if (other->state == SH_SLOW_PATH_SLOW && !SH_SLOW_PATH_MUTANT(SLOW_ONE))
		return false;
	return other->n && slow_path_is_known(other) &&
	       (other->least_ns <= other->usual_ns + longer_ns / WITNESS ||
		SH_SLOW_PATH_MUTANT(ALL_ALIKE));
}

static bool slow_path_is_instead(const struct sh_slow_path *slow, const struct sh_slow_path *other,
				 uint64_t instead_ns)
{
	return slow_path_is_longer(slow->least_ns, instead_ns) &&
	       slow_path_vouches(other, slow->least_ns - instead_ns);
}

/*
 * Returns the time of a well path, as the other one shows. 0: the path is well, or that cannot be
 * told.
 */
static uint64_t slow_path_instead(const struct sh_slow_path *slow, const struct sh_slow_path *other)
{
	if (slow_path_is_known(slow) && slow_path_is_instead(slow, other, slow->usual_ns))
		return slow->usual_ns;
	if (other->n && slow_path_is_instead(slow, other, other->least_ns) &&
	    !SH_SLOW_PATH_MUTANT(OWN_ALONE))
		return other->least_ns;
	return 0;
}

/* Compares a path with the others. True: this look found it too long. */
static bool slow_path_compare(const struct sh_slow_path_of *paths, uint32_t n,
			      const struct sh_slow_path_of *of)
{
	struct sh_slow_path *slow = of->path;
	uint64_t instead_ns = 0;
	uint32_t i;

	if (!slow->n || (slow->least_ns <= LONGER_NS && !SH_SLOW_PATH_MUTANT(ANY_TIME)))
		return false;
	for (i = 0; i < n && !instead_ns; i++) {
		if (paths[i].nic == of->nic && !SH_SLOW_PATH_MUTANT(SAME_NIC))
			continue;
		instead_ns = slow_path_instead(slow, paths[i].path);
		slow->witness = instead_ns ? paths[i].nic : slow->witness;
	}
	slow->instead_ns = instead_ns ? instead_ns : slow->instead_ns;
	return instead_ns != 0;
}

/* ---- states --------------------------------------------------------------------------------- */

static void transition_usual_to_slow(struct sh_slow_path *slow, const struct sh_gray_config *config,
				     uint64_t now)
{
	assert(slow->state == SH_SLOW_PATH_USUAL);
	slow->relapses = sh_gray_relapse(config, slow->relapses, slow->well_at, now);
	slow->seen_at = now;
	slow->well_looks = 0;
	slow->state = SH_SLOW_PATH_SLOW;
}

static void transition_slow_to_usual(struct sh_slow_path *slow, uint64_t now)
{
	assert(slow->state == SH_SLOW_PATH_SLOW);
	slow->looks = slow->pings = 0;
	slow->well_at = now;
	slow->state = SH_SLOW_PATH_USUAL;
}

static void slow_path_count(struct sh_slow_path *slow, uint64_t now)
{
	if (!slow->looks || slow->least_ns < slow->floor_ns)
		slow->floor_ns = slow->least_ns;
	if (!slow->looks++)
		slow->since = now;
	slow->pings += slow->n;
}

static bool slow_path_has_enough(const struct sh_slow_path *slow)
{
	uint32_t looks = SH_SLOW_PATH_MUTANT(ONE_LOOK) ? 1 : LOOKS_LEAST;

	return slow->looks >= looks &&
	       (slow->pings >= PINGS_LEAST || SH_SLOW_PATH_MUTANT(FEW_PINGS));
}

static void slow_path_update_usual(const struct sh_slow_path_of *paths, uint32_t n,
				   const struct sh_slow_path_of *of,
				   const struct sh_gray_config *config, uint64_t now)
{
	struct sh_slow_path *slow = of->path;

	if (slow_path_compare(paths, n, of)) {
		slow_path_count(slow, now);
		if (SH_SLOW_PATH_MUTANT(LEARNS_ALL))
			slow_path_learn(slow);
		if (slow_path_has_enough(slow))
			transition_usual_to_slow(slow, config, now);
		return;
	}
	if (slow->n || !SH_SLOW_PATH_MUTANT(SILENCE))
		slow->looks = slow->pings = 0;
	if (slow->n &&
	    !(slow_path_is_known(slow) && slow_path_is_longer(slow->least_ns, slow->usual_ns)))
		slow_path_learn(slow);
}

/* Looks at a slow path, whatever the others are like now. */
static void slow_path_update_slow(struct sh_slow_path *slow, const struct sh_gray_config *config,
				  uint64_t now)
{
	uint64_t hold = sh_gray_hold_after(config, slow->relapses);

	if (!slow->n)
		return;
	if (slow_path_is_longer(slow->least_ns, slow->instead_ns)) {
		slow->floor_ns = slow->least_ns;
		slow->seen_at = now;
		slow->well_looks = 0;
		return;
	}
	slow->well_looks++;
	if ((slow->well_looks >= WELL_LEAST && now - slow->seen_at >= hold) ||
	    SH_SLOW_PATH_MUTANT(NO_HOLD))
		transition_slow_to_usual(slow, now);
}

void sh_slow_path_update(const struct sh_slow_path_of *paths, uint32_t n,
			 const struct sh_gray_config *config, uint64_t now)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (paths[i].path->state == SH_SLOW_PATH_SLOW)
			slow_path_update_slow(paths[i].path, config, now);
		else
			slow_path_update_usual(paths, n, &paths[i], config, now);
	for (i = 0; i < n; i++)
		paths[i].path->n = 0;
}

/* ---- what is told of a NIC ------------------------------------------------------------------ */

static enum sh_slow_paths slow_path_sum(const struct sh_slow_paths_seen *seen)
{
	uint32_t peers = SH_SLOW_PATH_MUTANT(ONE_PEER) ? 1 : PEERS_LEAST;

	if (!seen->slow)
		return SH_SLOW_PATHS_NONE;
	return seen->slow == seen->paths && seen->peers >= peers ? SH_SLOW_PATHS_ALL
								 : SH_SLOW_PATHS_SOME;
}

bool sh_slow_paths_tell(struct sh_slow_paths_told *nic, const struct sh_slow_paths_seen *seen)
{
	enum sh_slow_paths now = slow_path_sum(seen);
	bool waited = nic->waits || SH_SLOW_PATH_MUTANT(AT_ONCE);

	nic->waits = now > nic->told && !waited;
	if (nic->waits || now == nic->told || (now && now < nic->told))
		return false;
	nic->told = now;
	return true;
}
