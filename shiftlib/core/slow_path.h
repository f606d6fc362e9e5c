/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Is a path slow though nothing says so? A port of a switch that throttles, a NIC whose firmware does, a detour: no counter
 * tells, and the link has the rate that it always had. By the quickest round trip of a path's pings. Pure, as the core is: a
 * struct per path, whoever owns it calls.
 *
 * - Congestion has moments without a queue, a slow path has none: a look takes the quickest of its pings, and only looks on
 *   end, each with an answer, count.
 * - Slow is far longer than usual; or than another path of the same peer, so that one which was never well is found.
 * - A busy machine, and a peer that is stopped or far away, lengthen all round trips: another path of the same peer, over
 *   another NIC of ours, must be as usual at the same time. With one path nothing can be told.
 * - A path that is hardly pinged, as one without work, says nothing.
 * - A queue that is never empty looks the same. So this is told of, and nobody is to act on it.
 * - It is slow until it was as usual for a hold-down. Each relapse doubles that; calm halves it.
 */
#ifndef SHIFTLIB_SLOW_PATH_H
#define SHIFTLIB_SLOW_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/core/gray.h"

#ifdef SC_MUTANTS
/* Rules broken on purpose; tests/unit/core/slow_path_test.c must catch each. */
enum sh_slow_path_mutant {
	SH_SLOW_PATH_MUTANT_NONE,
	SH_SLOW_PATH_MUTANT_ONE_LOOK,	/* is enough */
	SH_SLOW_PATH_MUTANT_FEW_PINGS,	/* are enough */
	SH_SLOW_PATH_MUTANT_LAST_PING,	/* counts, and not the quickest */
	SH_SLOW_PATH_MUTANT_NO_HOLD,	/* it counts as well at once */
	SH_SLOW_PATH_MUTANT_SILENCE,	/* a look without an answer is as good as one with */
	SH_SLOW_PATH_MUTANT_ALL_ALIKE,	/* the others need not be as usual */
	SH_SLOW_PATH_MUTANT_SAME_NIC,	/* another path of the same NIC will do */
	SH_SLOW_PATH_MUTANT_SLOW_ONE,	/* as will one that is slow, too */
	SH_SLOW_PATH_MUTANT_OWN_ALONE,	/* what was never well is not found */
	SH_SLOW_PATH_MUTANT_TWICE,	/* as long is slow */
	SH_SLOW_PATH_MUTANT_ANY_TIME,	/* longer by microseconds is slow */
	SH_SLOW_PATH_MUTANT_LEARNS_ALL, /* what is usual follows what is slow */
	SH_SLOW_PATH_MUTANT_AT_ONCE,	/* it is told, and again when its NIC is to blame */
	SH_SLOW_PATH_MUTANT_ONE_PEER,	/* is enough to blame the NIC */
	SH_SLOW_PATH_MUTANTS,
};
extern enum sh_slow_path_mutant sh_slow_path_mutant;
#define SH_SLOW_PATH_MUTANT(name) (sh_slow_path_mutant == SH_SLOW_PATH_MUTANT_##name)
#else
#define SH_SLOW_PATH_MUTANT(name) false
#endif

enum sh_slow_path_state { SH_SLOW_PATH_USUAL, SH_SLOW_PATH_SLOW };

/* All zeros at first. */
struct sh_slow_path {
	enum sh_slow_path_state state;
	uint32_t n;	   /* pings that were answered since the last look, */
	uint64_t least_ns; /* and the quickest of them */
	uint64_t usual_ns; /* of a look's quickest; */
	uint32_t learned;  /* by so many */
	/* Looks on end that found it too long, or did so when it became slow: */
	uint32_t looks, pings;
	uint64_t since;	     /* the first of them */
	uint64_t floor_ns;   /* the quickest of all; SLOW: of the look at seen_at */
	uint64_t instead_ns; /* of this; */
	uint32_t witness;    /* as these of our NICs show */
	uint32_t well_looks; /* SLOW: with an answer, since seen_at */
	uint64_t seen_at;    /* SLOW: the last look that found it so */
	uint64_t well_at;    /* it was slow, and is so no more since; 0: never */
	uint32_t relapses;   /* that are not forgotten */
};

/* One of a peer's paths, and by which of our NICs it leads. */
struct sh_slow_path_of {
	struct sh_slow_path *path;
	uint32_t nic;
};

/* A ping was answered after so long; not 0. */
void sh_slow_path_add(struct sh_slow_path *slow, uint64_t ns);
/* A look, at all paths of a peer. Its hold-down is that of @config. */
void sh_slow_path_look(const struct sh_slow_path_of *paths, uint32_t n,
		       const struct sh_gray_config *config, uint64_t now);

/* ---- what is told of a NIC ------------------------------------------------------------------ */

enum sh_slow_paths {
	SH_SLOW_PATHS_NONE,
	SH_SLOW_PATHS_SOME,
	SH_SLOW_PATHS_ALL, /* to several peers: it is not theirs that is slow */
};

/* Of all of its paths, after a look. */
struct sh_slow_paths_seen {
	uint32_t slow, paths; /* paths: that are slow, or are known to be well at times */
	uint32_t peers;	      /* to which slow ones lead */
};

struct sh_slow_paths_told {
	enum sh_slow_paths told;
	bool waits; /* for the next look: those that became slow together do not at the same one */
};

/* After each look: what is to be told now, each thing once until none is slow any more. False: nothing. */
bool sh_slow_paths_tell(struct sh_slow_paths_told *nic, const struct sh_slow_paths_seen *seen);

#endif
