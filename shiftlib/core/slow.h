/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Detector of NICs that carry less than they can, by the rates of their links. No queue changes
 * these: the rate of a port's or a PCI link's training does not depend on traffic. Pure, as the
 * core is: a struct per NIC, which its owner calls.
 *
 * - A NIC carries as much as the slower of its port and its PCI link. It is slow if that is less
 *   than the most that these two have shown since it was opened, or that those of another NIC of
 *   the same make have shown on this host.
 * - A PCI link is not expected to do more than both of its ends can (a card of the fifth generation
 *   in a slot of the fourth is whole), but that much if no other NIC of its make shows otherwise
 *   here.
 * - Two looks in a row decide, as a link trains in steps. A port that is down says nothing of its
 *   rate.
 * - A slow NIC is so until it was whole for a hold-down, as a link that fell back once does so
 *   again. Each relapse doubles the hold-down; calm halves it.
 */
#ifndef SHIFTLIB_SLOW_H
#define SHIFTLIB_SLOW_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/core/gray.h"

#ifdef SC_MUTANTS
/* Rules of slow NICs broken on purpose; tests/unit/core/slow_test.c must catch each. */
enum sh_slow_mutant {
	SH_SLOW_MUTANT_NONE,
	SH_SLOW_MUTANT_ONE_LOOK,	/* one look is enough */
	SH_SLOW_MUTANT_NO_HOLD,		/* a NIC counts as whole at once */
	SH_SLOW_MUTANT_PORT_ONLY,	/* PCI links are not looked at */
	SH_SLOW_MUTANT_SUM_OF_PARTS,	/* a slow PCI link counts though the port is slower */
	SH_SLOW_MUTANT_ALONE,		/* other NICs are ignored */
	SH_SLOW_MUTANT_BEYOND_THE_SLOT, /* a PCI link is expected to do what the card can */
	SH_SLOW_MUTANT_DOWN_IS_SLOW,	/* a rate that is not known counts as none */
	SH_SLOW_MUTANT_ALWAYS_LEAVE,	/* a slow NIC is left though the others would carry less */
	SH_SLOW_MUTANTS,
};
extern enum sh_slow_mutant sh_slow_mutant;
#define SH_SLOW_MUTANT(name) (sh_slow_mutant == SH_SLOW_MUTANT_##name)
#else
#define SH_SLOW_MUTANT(name) false
#endif

/* Mb/s; 0: not known. */
struct sh_slow_rates {
	uint32_t port;	   /* active lanes times their speed, while the port is up */
	uint32_t bus;	   /* rate of the PCI link */
	uint32_t bus_most; /* most that both ends of the PCI link can */
};

enum sh_slow_state { SH_SLOW_WHOLE, SH_SLOW_SLOW };

struct sh_slow {
	enum sh_slow_state state;
	uint32_t now, whole;	   /* Mb/s that the NIC carries, and could; 0: not known yet */
	struct sh_slow_rates most; /* most that the NIC has shown */
	uint32_t accepted;	   /* Mb/s that somebody accepts; 0: nobody does */
	uint32_t looks;		   /* number of looks in a row that found it slow */
	uint64_t seen_at;	   /* SLOW: time of the last of these */
	uint64_t well_at;	   /* end of the last slow time; 0: never slow */
	uint32_t relapses;	   /* relapses that are not forgotten */
};

/*
 * Takes a look. like: the most of other NICs of its make; zeros: there is none. The hold-down is
 * that of @config. True: the NIC has become slow, or is so no more.
 */
bool sh_slow_update(struct sh_slow *slow, const struct sh_gray_config *config,
		    const struct sh_slow_rates *rates, const struct sh_slow_rates *like,
		    uint64_t now);
/* Forgets what the NIC has shown, as it is another device or was opened anew. */
void sh_slow_forget(struct sh_slow *slow);
/* Accepts the NIC as it is, by somebody's word. */
void sh_slow_accept(struct sh_slow *slow, uint64_t now);
uint64_t sh_slow_hold_ns(const struct sh_slow *slow, const struct sh_gray_config *config);

/*
 * The other NICs that could take a slow one's traffic, in Mb/s: what they can, and how much their
 * own traffic may need of that.
 */
struct sh_slow_others {
	uint64_t can, own;
};

/*
 * True if its connections would get more there than the NIC still carries. This process does not
 * see what others send: a NIC that may be somebody's default counts as full.
 */
bool sh_slow_pays(const struct sh_slow *slow, const struct sh_slow_others *others);

#endif
