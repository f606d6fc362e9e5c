/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Does a NIC carry less than it can, as its links say? No queue makes them say so: what a port has trained to, and what its
 * PCI link has, does not hang on traffic. Pure, as the core is: a struct per NIC, whoever owns it calls.
 *
 * - A NIC carries as much as the slower of its port and its PCI link. Less than the most that these two have shown since it
 *   was opened, or that those of another NIC of the same make have shown on this host: then it is slow.
 * - A PCI link is not expected to do more than both of its ends can (a card of the fifth generation in a slot of the fourth is
 *   whole), but that much where no other NIC of its make says what it does here.
 * - Two looks in a row, as a link trains in steps. A port that is down says nothing of its rate.
 * - It is slow until it was whole for a hold-down, as a link that fell back once does so again. Each relapse doubles that; calm
 *   halves it.
 */
#ifndef SHIFTLIB_SLOW_H
#define SHIFTLIB_SLOW_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/core/gray.h"

#ifdef SC_MUTANTS
/* Rules broken on purpose; tests/unit/core/slow_test.c must catch each. */
enum sh_slow_mutant {
	SH_SLOW_MUTANT_NONE,
	SH_SLOW_MUTANT_ONE_LOOK,  /* is enough */
	SH_SLOW_MUTANT_NO_HOLD,	  /* it counts as whole at once */
	SH_SLOW_MUTANT_PORT_ONLY, /* PCI links are not looked at */
	SH_SLOW_MUTANT_SUM_OF_PARTS, /* a PCI link that fell back counts though the port is slower still */
	SH_SLOW_MUTANT_ALONE,	     /* no other NIC is looked at */
	SH_SLOW_MUTANT_BEYOND_THE_SLOT, /* a PCI link is to do what the card can */
	SH_SLOW_MUTANT_DOWN_IS_SLOW,	/* a rate that is not known counts as none */
	SH_SLOW_MUTANT_ALWAYS_LEAVE, /* though the others, with its traffic too, would carry less */
	SH_SLOW_MUTANTS,
};
extern enum sh_slow_mutant sh_slow_mutant;
#define SH_SLOW_MUTANT(name) (sh_slow_mutant == SH_SLOW_MUTANT_##name)
#else
#define SH_SLOW_MUTANT(name) false
#endif

/* Mb/s; 0: not known. */
struct sh_slow_rates {
	uint32_t port;	   /* active lanes times their speed, while it is up */
	uint32_t bus;	   /* of the PCI link */
	uint32_t bus_most; /* that both of its ends can */
};

enum sh_slow_state { SH_SLOW_WHOLE, SH_SLOW_SLOW };

struct sh_slow {
	enum sh_slow_state state;
	uint32_t now, whole;	   /* what it carries, and could, Mb/s; 0: not known yet */
	struct sh_slow_rates most; /* that was seen of it */
	uint32_t accepted;	   /* Mb/s that somebody says are well; 0: nobody does */
	uint32_t looks;		   /* in a row that found it slow */
	uint64_t seen_at;	   /* SLOW: the last of these */
	uint64_t well_at;	   /* it was slow, and is so no more since; 0: never */
	uint32_t relapses;	   /* that are not forgotten */
};

/*
 * A look. like: the most of other NICs of its make; zeros: there is none. Its hold-down is that of @config. True: it has
 * become slow, or is so no more.
 */
bool sh_slow_look(struct sh_slow *slow, const struct sh_gray_config *config,
		  const struct sh_slow_rates *rates, const struct sh_slow_rates *like,
		  uint64_t now);
/* It is another device, or was opened anew: what it has shown is forgotten. */
void sh_slow_forget(struct sh_slow *slow);
/* Somebody says that it is well as it is. */
void sh_slow_accept(struct sh_slow *slow, uint64_t now);
uint64_t sh_slow_hold_ns(const struct sh_slow *slow, const struct sh_gray_config *config);

/* Of other NICs that could take what a slow one carries, Mb/s: what they can, and what of that their own traffic may need. */
struct sh_slow_others {
	uint64_t can, own;
};

/*
 * Is what its connections would get there more than what it still carries? As far as this process knows, who does not see
 * what others send: a NIC that anybody may have for his own counts as full.
 */
bool sh_slow_pays(const struct sh_slow *slow, const struct sh_slow_others *others);

#endif
