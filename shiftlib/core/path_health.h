/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The health of one control path (one of our NICs, one of the peer's): when to ping, whether the
 * path is up, whether it was up long enough to be trusted, and whether its silence means that it
 * died.
 *
 * Pure, as the core is: no clock, no verb, no lock; a struct per path, which its owner calls.
 *
 * - A path that is not up is probed: often at first, then slowly for ever.
 * - A path that is up is pinged while work is outstanding on a connection that uses it, and slowly
 *   until it is steady; then now and then, to find out that a path protects nobody any more before
 *   it is needed. A ping of these without an answer is a doubt: the owner of the paths to that peer
 *   pings all of them for a while, as if there were work.
 * - Work that completes is as good as answers: while all work of a peer does, its paths are pinged
 *   at a fraction of the rate. The peer's NIC has answered then, so this says nothing of other
 *   paths.
 * - A peer that does not answer may be slow, stopped or gone: a silent path is lost only if the
 *   peer has answered over another path all the while.
 * - A path that loses packets, as by the overflow of a switch's queue, is silent for a while by
 *   chance. So a silent path is pinged faster until it counts as lost; and if some of the pings
 *   before the silence had no answer either, more pings are needed.
 * - Each fall of a path that was up doubles the time until it is steady again; calm halves it.
 */
#ifndef SHIFTLIB_PATH_H
#define SHIFTLIB_PATH_H

#include <stdbool.h>
#include <stdint.h>

#define SH_PATH_PINGS	   32	      /* pings remembered: answers to older ones are ignored */
#define SH_PATH_PER_S	   30	      /* pings in any second; 20 of a path that answers */
#define SH_PATH_FEW_PINGS  3	      /* pings in a row without an answer: a silence */
#define SH_PATH_BEATS	   4	      /* heartbeats that a pause of the own port may take */
#define SH_PATH_LOOKS	   2	      /* looks at the work in a heartbeat */
#define SH_PATH_LOST_PINGS 8	      /* pings by which a silent path can be lost */
#define SH_PATH_MORE_PINGS 2	      /* additional pings for each lost one before */
#define SH_PATH_BEFORE	   16	      /* pings before the silence looked at */
#define SH_PATH_RETRY_NS   1000000ull /* pause after a ping that found no room */

enum sh_path_state {
	SH_PATH_OFF,	 /* own NIC unusable, or no way to the peer's: nothing can be sent */
	SH_PATH_PROBING, /* no answer yet, or none any more */
	SH_PATH_UP,
};

enum sh_path_need {
	SH_PATH_UNUSED, /* the peer has no connection: nothing is sent */
	SH_PATH_IDLE,	/* the peer has connections, none with work outstanding here */
	SH_PATH_BUSY,	/* work is outstanding on a connection that uses it, or stands by on it */
};

/* The work of connections that use the path, at the last look. */
enum sh_path_work {
	SH_PATH_NO_WORK,
	SH_PATH_WORKS,
	SH_PATH_COMPLETES, /* work begun since the look before completed */
};

struct sh_path_config {
	bool heartbeat; /* false: pings find that a path is up, never that it is lost */
	uint64_t beat_ns, loss_ns;
	uint64_t idle_ns; /* time between two pings without work, once steady */
	uint64_t probe_min_ns, probe_max_ns;
	uint64_t hold_min_ns, hold_max_ns; /* hold-down after the first fall; longest hold-down */
	uint64_t calm_ns;		   /* time up after which a fall is forgotten */
};

struct sh_path_health {
	const struct sh_path_config *config;
	enum sh_path_state state;
	enum sh_path_need need;
	enum sh_path_work work;
	uint32_t seq;	    /* number of the last ping */
	uint32_t valid_seq; /* answers to pings up to this one are ignored: the path fell since */
	uint32_t missed;    /* pings since the last answer */
	uint64_t sent_at[SH_PATH_PINGS];
	uint64_t probe_interval, probe_at;
	uint64_t held_at;      /* the own port sent nothing then */
	bool hurried;	       /* another path to the same peer is in doubt */
	uint64_t joined_at;    /* a ping without work goes with others then, before its time */
	uint64_t retry_at;     /* earliest time of the next ping, after one did not leave */
	uint64_t unanswered;   /* bit k: no answer to the k-th ping before the last, since the
				* rise */
	uint64_t silent_since; /* missed > 0: start, or the last answer if that is later */
	uint64_t spared_at;    /* the last look at which a ping was not needed */
	uint64_t completed_at; /* the last look at which work completed */
	uint64_t fell_at;      /* time of the last fall; 0: never */
	uint64_t fell_since;   /* silent_since at the last fall; 0: all pings had answers */
	/*
	 * Times of the latest answer, and of the first one in its row without a gap. 0: none since
	 * the path fell.
	 */
	uint64_t answered, answering_since;
	uint64_t up_at;	  /* UP: start, for the hold-down */
	uint64_t rose_at; /* UP: start, for calm */
	uint32_t falls;	  /* falls that are not forgotten */
};

/* seq: a random number, so that answers to an earlier life of the process mean nothing. */
void sh_path_init(struct sh_path_health *path, const struct sh_path_config *config, uint32_t seq);

/* Tells whether anything can be sent. Idempotent. Off: a path that was up has fallen. */
void sh_path_enable(struct sh_path_health *path, bool on, uint64_t now);
/* Idempotent. */
void sh_path_set_need(struct sh_path_health *path, enum sh_path_need need, uint64_t now);
/*
 * Do a look at all paths of a peer, SH_PATH_LOOKS in a heartbeat: first the work of each
 * path, then which of them need no ping.
 */
void sh_path_set_work(struct sh_path_health *path, enum sh_path_work work, uint64_t now);
void sh_paths_spare(struct sh_path_health *const *paths, uint32_t n, uint64_t now);
/* Takes the path as dead, though its NIC is well: it is probed from now on. */
void sh_path_fall(struct sh_path_health *path, uint64_t now);

/*
 * Takes the path as not steady for a hold-down: work died on it, though pings may be answered
 * (acknowledgements or large packets are lost). Deaths within the hold-down are the same fault.
 */
void sh_path_blame(struct sh_path_health *path, uint64_t now);

/* True if a ping is due. The ping counts as sent now, with *seq. */
bool sh_path_ping(struct sh_path_health *path, uint64_t now, uint32_t *seq);
/*
 * Takes note that the own port sends nothing, pings neither (it is paused, or the NIC hangs): that
 * is not the path's silence, for a while.
 */
void sh_path_held(struct sh_path_health *path, uint64_t now);
/* Lets a peer's paths keep pace with one of them that is in doubt. Call it when one may be. */
void sh_paths_hurry(struct sh_path_health *const *paths, uint32_t n);
/*
 * Pings without work go together where they can, so that few of them wake anybody: with the peer's
 * that was just heard, or if one of a peer's paths has one due. One goes so half the time between
 * two early, at most.
 */
void sh_path_join(struct sh_path_health *path, uint64_t now);
void sh_paths_join(struct sh_path_health *const *paths, uint32_t n, uint64_t now);
/* Takes back the ping of just now, which found no room: it is due again soon. */
void sh_path_unsent(struct sh_path_health *path, uint64_t now);
/* Returns the age of the ping, if an answer to it counts; else 0. */
uint64_t sh_path_trip_ns(const struct sh_path_health *path, uint32_t seq, uint64_t now);
/* Takes an answer. True: the path came up with it. An answer to no known ping changes nothing. */
bool sh_path_pong(struct sh_path_health *path, uint32_t seq, uint64_t now);
/* Takes a ping of the peer: if the path is not up here, it may be by now. */
void sh_path_heard(struct sh_path_health *path, uint64_t now);

/*
 * Returns the time of the next thing to do: ping, judge, or tell that the path is steady. 0: never.
 * Later than now, except for a ping that is due.
 */
uint64_t sh_path_next(const struct sh_path_health *path, uint64_t now);

bool sh_path_up(const struct sh_path_health *path);
/* Returns the start of the pings without an answer, across a recent fall too; 0: none. */
uint64_t sh_path_unanswered_since(const struct sh_path_health *path, uint64_t now);
/*
 * Returns the start of the time in which nothing says that the peer lives: pings in a row had no
 * answer, or the path is not up (1: it never was). 0: the peer answers.
 */
uint64_t sh_path_dark_since(const struct sh_path_health *path);
/* True if up without a break for its hold-down. */
bool sh_path_steady(const struct sh_path_health *path, uint64_t now);
uint64_t sh_path_hold_ns(const struct sh_path_health *path);
/* Rest of the hold-down of a path that is up, in ns. 0: it is steady, or not up. */
uint64_t sh_path_held_ns(const struct sh_path_health *path, uint64_t now);
/* True if up, but a ping found no answer in the time of one: look at the progress of the work. */
bool sh_path_suspect(const struct sh_path_health *path);
/* True if up, but silent for so long that it is lost if the peer answers elsewhere. */
bool sh_path_silent(const struct sh_path_health *path, uint64_t now);
/* True if up without work, and a ping found no answer in the time of two. */
bool sh_path_doubted(const struct sh_path_health *path, uint64_t now);
/* True if the peer answered over the other path, and not over this one. */
bool sh_path_lost(const struct sh_path_health *path, const struct sh_path_health *other,
		  uint64_t now);

#endif
