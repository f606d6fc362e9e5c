/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Detector of NICs that lose or damage packets though nothing has failed, by the counters of their
 * ports and the round trips of datagrams. Pure, as the core is: a struct per NIC, which its owner
 * calls.
 *
 * - Counters are witnesses of one of three kinds: gaps in the sequence of packets, timeouts, damage
 *   at the port. No kind is believed alone: adaptive routing makes gaps; a pause or the death of a
 *   peer makes timeouts.
 * - Gaps and timeouts together also come from congestion, where switches drop. They are believed
 *   only without marks of congestion and with round trips as long as usual. Even then they prove
 *   nothing, and nobody is to act on them. Damage with any other witness proves a fault, as no
 *   queue makes damage; long round trips are such a witness, too.
 * - A receiver that is not ready (RNR) is no witness, nor are gaps behind the refused request.
 * - Witnesses count if they are frequent among the packets of the last looks, and seen in several
 *   of these: a single event (a switch that went down and up) is not gray.
 * - A NIC that was judged sick is so until nothing was seen for a hold-down. Each relapse doubles
 *   the hold-down; calm halves it.
 */
#ifndef SHIFTLIB_GRAY_H
#define SHIFTLIB_GRAY_H

#include <stdbool.h>
#include <stdint.h>

#define SH_GRAY_LOOKS 8 /* looks that are summed up */

enum sh_gray_state {
	SH_GRAY_HEALTHY,
	SH_GRAY_SUSPECT, /* seen by a single witness */
	SH_GRAY_SICK,
};

/* Kinds of witnesses, as bits. */
enum sh_gray_witness {
	SH_GRAY_GAPS = 1,
	SH_GRAY_TIMEOUTS = 2,
	SH_GRAY_DAMAGE = 4,
	SH_GRAY_SLOW = 8, /* counts beside damage only */
};

/* All counts of a port since it exists; 0 for one that it does not have, or cannot tell now. */
struct sh_gray_counts {
	uint64_t packets;    /* sent and received; 0 for ever: not told */
	uint64_t naks;	     /* requester: gaps that the other end or this one saw */
	uint64_t gaps;	     /* responder: packets behind a gap */
	uint64_t timeouts;   /* requester: acknowledgements that did not come */
	uint64_t duplicates; /* responder: packets that had come before */
	uint64_t damaged;    /* packets that the port could not make out */
	uint64_t marks;	     /* marks of congestion */
	uint64_t unready;    /* RNR, sent and received */
	uint32_t files; /* set of files summed up here; sums of other sets cannot be compared */
};

/* Numbers of round trips since the last look. */
struct sh_gray_trips {
	uint32_t n, slow;
};

struct sh_gray_config {
	uint64_t look_ns;     /* about the time between two looks */
	uint32_t least;	      /* least errors in the looks that are summed up */
	uint32_t per_million; /* least errors among a million packets */
	uint64_t hold_min_ns, hold_max_ns;
	uint64_t calm_ns; /* time of health after which a relapse is forgotten */
};

/* Returns the hold-down after so many relapses; core/slow.c uses it too. */
uint64_t sh_gray_hold_after(const struct sh_gray_config *config, uint32_t relapses);
/* Returns the relapses with a new one, less those that the calm since well_at has taken back. */
uint32_t sh_gray_relapse(const struct sh_gray_config *config, uint32_t relapses, uint64_t well_at,
			 uint64_t now);

struct sh_gray {
	enum sh_gray_state state;
	uint8_t seen;	/* witnesses of the last looks, as bits of enum sh_gray_witness */
	bool congested; /* congested, or nothing shows that it is not */
	bool proven;	/* SICK: damage was among the witnesses */
	bool known;	/* last is set */
	struct sh_gray_counts last, look[SH_GRAY_LOOKS];
	struct sh_gray_trips trips[SH_GRAY_LOOKS];
	uint32_t next;	   /* number of the next look */
	uint64_t seen_at;  /* SICK: the last time of two witnesses */
	uint64_t since;	   /* start of the state */
	uint64_t well_at;  /* end of the last sickness; 0: never sick */
	uint32_t relapses; /* relapses that are not forgotten */
};

/* Takes a look. True: the NIC has become sick, or is so no more. */
bool sh_gray_update(struct sh_gray *gray, const struct sh_gray_config *config,
		    const struct sh_gray_counts *counts, const struct sh_gray_trips *trips,
		    uint64_t now);
/*
 * Begins the looks anew, as the counts have another reason (the NIC failed, or had another's
 * traffic).
 */
void sh_gray_forget(struct sh_gray *gray);
/* Takes the NIC as well, by somebody's word. */
void sh_gray_absolve(struct sh_gray *gray, uint64_t now);
uint64_t sh_gray_hold_ns(const struct sh_gray *gray, const struct sh_gray_config *config);
/* Tells the errors of the last looks, and the packets they are among. */
void sh_gray_share(const struct sh_gray *gray, uint64_t *errors, uint64_t *packets);

/* ---- round trips ---------------------------------------------------------------------------- */

#define SH_GRAY_TRIPS 8 /* trips kept until the next look */

/* The round trips of one path. */
struct sh_gray_trip {
	uint64_t usual_ns; /* usual time; 0: not known */
	uint32_t learned;  /* trips that usual_ns is made of, up to TRIP_LEARNS */
	uint32_t n;	   /* entries of ns since the last look */
	uint64_t ns[SH_GRAY_TRIPS];
};

void sh_gray_trip_add(struct sh_gray_trip *trip, uint64_t ns);
/*
 * Adds the trips since the last look to the sum. calm: nothing is wrong, so their times are usual.
 */
void sh_gray_trip_update(struct sh_gray_trip *trip, bool calm, struct sh_gray_trips *sum);

/* ---- which may be given up ------------------------------------------------------------------ */

/*
 * True if a sick NIC may be drained. n: NICs that could carry its traffic, itself included; sick:
 * how many of these are sick; well: how many are neither sick nor drained. If more than half are
 * sick, the fabric is at fault, and no NIC.
 */
bool sh_gray_may_drain(uint32_t n, uint32_t sick, uint32_t well);

#endif
