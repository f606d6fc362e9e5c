/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Does a NIC lose or damage packets though nothing has failed? By what its port counts, and by the round trips of
 * datagrams. Pure, as the core is: a struct per NIC, whoever owns it calls.
 *
 * - What counters say is a witness of one of three kinds: gaps in the sequence of packets, timeouts, damage at the port.
 *   No kind is believed alone: adaptive routing makes gaps, a pause makes timeouts, and so does a peer that died.
 * - Gaps and timeouts together are what congestion makes too, where switches drop: they are believed while there are no
 *   marks of congestion, and round trips are as long as they used to be, and even then prove nothing: nobody is to act on
 *   them. Damage proves it, with any other witness, as no queue makes it; long round trips beside it are one, too.
 * - A receiver that is not ready (RNR) is no witness, nor are the gaps behind what it refused.
 * - Witnesses count if there are enough of them among the packets of the last looks, and in several of these: what
 *   happens once (a switch that went down and up) is not gray.
 * - A NIC that was judged sick is so until nothing was seen for a hold-down. Each relapse doubles that; calm halves it.
 */
#ifndef SHIFTLIB_GRAY_H
#define SHIFTLIB_GRAY_H

#include <stdbool.h>
#include <stdint.h>

#define SH_GRAY_LOOKS 8 /* that are summed up */

enum sh_gray_state {
	SH_GRAY_HEALTHY,
	SH_GRAY_SUSPECT, /* there is a witness, and no second one */
	SH_GRAY_SICK,
};

/* Kinds of witnesses, as bits. */
enum sh_gray_witness {
	SH_GRAY_GAPS = 1,
	SH_GRAY_TIMEOUTS = 2,
	SH_GRAY_DAMAGE = 4,
	SH_GRAY_SLOW = 8, /* counts beside damage only */
};

/* All that a port has counted since it exists. What it does not count, or cannot tell now, is 0. */
struct sh_gray_counts {
	uint64_t packets;    /* both ways; 0 for ever: it does not tell */
	uint64_t naks;	     /* as requester: gaps that the other end or this one saw */
	uint64_t gaps;	     /* as responder: packets behind a gap */
	uint64_t timeouts;   /* as requester: acknowledgements that did not come */
	uint64_t duplicates; /* as responder: packets that were here before */
	uint64_t damaged;    /* packets that the port took for no packets */
	uint64_t marks;	     /* of congestion */
	uint64_t unready;    /* RNR, both ways */
	uint32_t
		files; /* of which these are the sums: with those of others they cannot be compared */
};

/* Round trips since the last look. */
struct sh_gray_trips {
	uint32_t n, slow;
};

struct sh_gray_config {
	uint64_t look_ns;     /* between two looks, about */
	uint32_t least;	      /* errors in the looks that are summed up */
	uint32_t per_million; /* errors among so many packets */
	uint64_t hold_min_ns, hold_max_ns;
	uint64_t calm_ns; /* healthy for so long: one relapse is forgotten */
};

/* Of what fell ill, and may do so again; core/slow.c counts by these, too. */
uint64_t sh_gray_hold_after(const struct sh_gray_config *config, uint32_t relapses);
/* It does: how many that makes, without those that calm since well_at has taken back. */
uint32_t sh_gray_relapse(const struct sh_gray_config *config, uint32_t relapses, uint64_t well_at,
			 uint64_t now);

struct sh_gray {
	enum sh_gray_state state;
	uint8_t seen;	/* witnesses of the last looks: enum sh_gray_witness */
	bool congested; /* for all that is known */
	bool proven;	/* SICK: damage was among what was seen */
	bool known;	/* last is set */
	struct sh_gray_counts last, look[SH_GRAY_LOOKS];
	struct sh_gray_trips trips[SH_GRAY_LOOKS];
	uint32_t next;	   /* place of the next look */
	uint64_t seen_at;  /* SICK: two witnesses, the last time */
	uint64_t since;	   /* of the state */
	uint64_t well_at;  /* it was sick, and is so no more since; 0: never */
	uint32_t relapses; /* that are not forgotten */
};

/* A look. True: it has become sick, or is so no more. */
bool sh_gray_look(struct sh_gray *gray, const struct sh_gray_config *config,
		  const struct sh_gray_counts *counts, const struct sh_gray_trips *trips,
		  uint64_t now);
/* What was counted has another reason (it failed, or its traffic was somebody else's): looks begin anew. */
void sh_gray_forget(struct sh_gray *gray);
/* Somebody says that it is well. */
void sh_gray_absolve(struct sh_gray *gray, uint64_t now);
uint64_t sh_gray_hold_ns(const struct sh_gray *gray, const struct sh_gray_config *config);
/* Of the last looks: errors, and the packets they are among. */
void sh_gray_share(const struct sh_gray *gray, uint64_t *errors, uint64_t *packets);

/* ---- round trips ---------------------------------------------------------------------------- */

#define SH_GRAY_TRIPS 8 /* that are kept until the next look */

/* Of one path. */
struct sh_gray_trip {
	uint64_t usual_ns; /* 0: not known */
	uint32_t learned;  /* by so many, up to TRIP_LEARNS */
	uint32_t n;	   /* of ns: since the last look */
	uint64_t ns[SH_GRAY_TRIPS];
};

void sh_gray_trip_add(struct sh_gray_trip *trip, uint64_t ns);
/* Adds those since the last look to the sum. calm: nothing is wrong, so what they say is what is usual. */
void sh_gray_trip_look(struct sh_gray_trip *trip, bool calm, struct sh_gray_trips *sum);

/* ---- which may be given up ------------------------------------------------------------------ */

/*
 * May a NIC that was judged sick be drained? n: those that could carry its traffic, it included; sick: how many of them
 * are; well: how many are not, nor are drained. Where more than half of them are sick, it is the fabric, and no NIC.
 */
bool sh_gray_may_drain(uint32_t n, uint32_t sick, uint32_t well);

#endif
