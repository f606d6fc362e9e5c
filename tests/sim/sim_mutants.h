/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rules broken on purpose, by name (docs/mutants.md). */
#ifndef TESTS_SIM_SIM_MUTANTS_H
#define TESTS_SIM_SIM_MUTANTS_H

#include <stdbool.h>

/* Rules of the shell and the engine broken on purpose; those of the core are enum sc_mutant. */
enum sim_mutant {
	SIM_MUTANT_NONE,
	SIM_MUTANT_SAME_QPN,	     /* an old packet matches the new carrier */
	SIM_MUTANT_COUNT_ANEW,	     /* counts per carrier instead of cumulative */
	SIM_MUTANT_ONE_PATH,	     /* control over the default path only */
	SIM_MUTANT_PUBLISH_EARLY,    /* withheld requests run before settling */
	SIM_MUTANT_DROP,	     /* a completion dropped */
	SIM_MUTANT_REORDER,	     /* receives laid in another order */
	SIM_MUTANT_RETRY_ERROR,	     /* an application error taken for a transport error */
	SIM_MUTANT_IDLE_FLUSHED,     /* a carrier with nothing outstanding counts as flushed */
	SIM_MUTANT_KEEP_GUARD,	     /* withheld errors of an ended connection never released */
	SIM_MUTANT_FLUSH_GOOD,	     /* a flush taken for success */
	SIM_MUTANT_NOT_FINAL,	     /* a count that is not final called final */
	SIM_MUTANT_FENCE_EARLY,	     /* FENCED with requests outstanding */
	SIM_MUTANT_FENCE_OPEN,	     /* sends behind the fence go on */
	SIM_MUTANT_NOT_RELAID,	     /* receives not laid again when the next carrier changes */
	SIM_MUTANT_NO_HOLDDOWN,	     /* a path is steady as soon as it is up */
	SIM_MUTANT_BOTH_LEAD,	     /* both ends choose standbys */
	SIM_MUTANT_DROP_LIVE,	     /* the carrier in use destroyed with the old ones */
	SIM_MUTANT_READ_IS_ONE,	     /* a READ counts as one packet */
	SIM_MUTANT_DEFAULT_MTU,	     /* packets are counted by the MTU of the default path */
	SIM_MUTANT_FLUSH_TAKES_ROOM, /* nothing is reserved in the program's completion queue */
	/* of the log: */
	SIM_MUTANT_LOG_UNORDERED,  /* it is laid where its word may come before what it counts */
	SIM_MUTANT_LOG_READ_EARLY, /* its word is read before the carrier is in ERR */
	SIM_MUTANT_LOG_HIDDEN,	   /* it counts its own WQEs */
	SIM_MUTANT_LOG_UNNUMBERED, /* the numbers of its packets are forgotten */
	SIM_MUTANT_LOG_BEFORE,	   /* ... of the one behind what is complete */
	SIM_MUTANT_LOG_NOT_RELAID, /* what a move has laid is not logged */
};
extern enum sim_mutant sim_mutant;

void sim_mutants_list(void);
bool sim_mutants_choose(const char *name);

#endif
