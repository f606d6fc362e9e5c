/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Detector of slow paths that no counter and no link rate shows, as of a throttling switch port, a
 * NIC whose firmware throttles, or a detour. By the quickest round trip of a path's pings. Pure, as
 * the core is: a struct per path, which its owner calls.
 *
 * - Congestion has moments without a queue, a slow path has none: a look takes the quickest of its
 *   pings, and only looks in a row, each with an answer, count.
 * - Slow means far longer than usual; or than another path of the same peer, so that a path that
 *   was never well is found.
 * - A busy machine, and a peer that is stopped or far away, lengthen all round trips: another path
 *   of the same peer, over another NIC of ours, must be as usual at the same time. With one path
 *   nothing can be told.
 * - A path that is hardly pinged, as one without work, says nothing.
 * - A queue that is never empty looks the same. So a slow path is reported, and nobody is to act on
 *   it.
 * - A path is slow until it was as usual for a hold-down. Each relapse doubles that; calm halves
 *   it.
 */
#ifndef SHIFTLIB_SLOW_PATH_H
#define SHIFTLIB_SLOW_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/core/gray.h"

#ifdef SC_MUTANTS
/* Rules of slow paths broken on purpose; tests/unit/core/slow_path_test.c must catch each. */
enum sh_slow_path_mutant {
	SH_SLOW_PATH_MUTANT_NONE,
	SH_SLOW_PATH_MUTANT_ONE_LOOK,	/* a single look is enough */
	SH_SLOW_PATH_MUTANT_FEW_PINGS,	/* few pings are enough */
	SH_SLOW_PATH_MUTANT_LAST_PING,	/* the last ping counts, not the quickest */
	SH_SLOW_PATH_MUTANT_NO_HOLD,	/* a slow path counts as well at once */
	SH_SLOW_PATH_MUTANT_SILENCE,	/* a look without an answer counts like others */
	SH_SLOW_PATH_MUTANT_ALL_ALIKE,	/* the others need not be as usual */
	SH_SLOW_PATH_MUTANT_SAME_NIC,	/* another path of the same NIC will do */
	SH_SLOW_PATH_MUTANT_SLOW_ONE,	/* a path that is slow too will do */
	SH_SLOW_PATH_MUTANT_OWN_ALONE,	/* a path that was never well is not found */
	SH_SLOW_PATH_MUTANT_TWICE,	/* twice as long is slow */
	SH_SLOW_PATH_MUTANT_ANY_TIME,	/* longer by microseconds is slow */
	SH_SLOW_PATH_MUTANT_LEARNS_ALL, /* the usual time follows the slow one */
	SH_SLOW_PATH_MUTANT_AT_ONCE,	/* told at once, and again when the NIC is to blame */
	SH_SLOW_PATH_MUTANT_ONE_PEER,	/* one peer is enough to blame the NIC */
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
	uint64_t usual_ns; /* usual time of a look's quickest ping; */
	uint32_t learned;  /* looks that usual_ns is made of */
	/* Looks in a row that found the path too long, or did so when it became slow: */
	uint32_t looks, pings;
	uint64_t since;	     /* time of the first of these */
	uint64_t floor_ns;   /* quickest ping of all; SLOW: of the look at seen_at */
	uint64_t instead_ns; /* expected time instead, */
	uint32_t witness;    /* and our NIC that shows it */
	uint32_t well_looks; /* SLOW: looks with an answer since seen_at */
	uint64_t seen_at;    /* SLOW: the last look that found it so */
	uint64_t well_at;    /* end of the last slow time; 0: never slow */
	uint32_t relapses;   /* relapses that are not forgotten */
};

/* A path of a peer, and the number of our NIC that it leads over. */
struct sh_slow_path_of {
	struct sh_slow_path *path;
	uint32_t nic;
};

/* Takes the round trip of a ping; not 0. */
void sh_slow_path_add(struct sh_slow_path *slow, uint64_t ns);
/* Takes a look at all paths of a peer. The hold-down is that of @config. */
void sh_slow_path_update(const struct sh_slow_path_of *paths, uint32_t n,
			 const struct sh_gray_config *config, uint64_t now);

/* ---- what is told of a NIC ------------------------------------------------------------------ */

enum sh_slow_paths {
	SH_SLOW_PATHS_NONE,
	SH_SLOW_PATHS_SOME,
	SH_SLOW_PATHS_ALL, /* all, to several peers: the peers' NICs are not to blame */
};

/* Counts over all paths of a NIC, after a look. */
struct sh_slow_paths_seen {
	uint32_t slow, paths; /* paths: slow ones, and those known to be well at times */
	uint32_t peers;	      /* peers that slow paths lead to */
};

struct sh_slow_paths_told {
	enum sh_slow_paths told;
	bool waits; /* waits one look, as paths do not all become slow at the same one */
};

/*
 * Decides after each look what is to be told now, each thing once until no path is slow any more.
 * False: nothing.
 */
bool sh_slow_paths_tell(struct sh_slow_paths_told *nic, const struct sh_slow_paths_seen *seen);

#endif
