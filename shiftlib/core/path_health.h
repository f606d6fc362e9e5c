/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The health of one control path (one of our NICs, one of the peer's): when to ping, whether it is
 * up, whether it has been up long enough to be trusted, and whether its silence means that it died.
 *
 * Pure, as the core is: no clock, no verb, no lock; a struct per path, whoever owns it calls.
 *
 * - A path that is not up is probed: often at first, then slowly for ever.
 * - A path that is up is pinged while work is outstanding on a connection that uses it, and slowly
 *   until it is steady; then now and then, as what protects nobody any more has to be found out before
 *   it is needed. A ping of those without an answer is a doubt: whoever owns the paths to that peer
 *   asks on all of them for a while, as if there were work.
 * - Work that completes is as good as answers: while all work of a peer does, its paths are pinged at a
 *   fraction of the rate. It is the peer's NIC that has answered then, so it says nothing of other paths.
 * - Whoever does not answer may be slow, stopped or gone: a silent path is lost only if the peer
 *   has answered over another path all the while.
 * - A path that loses packets, as a switch's queue that overflows does, is silent for a while by chance. So
 *   whoever is silent is pinged faster until it counts as lost; and where some of the pings before the silence
 *   had no answer either, it takes more of them.
 * - Each fall of a path that was up doubles the time until it is steady again; calm halves it.
 */
#ifndef SHIFTLIB_PATH_H
#define SHIFTLIB_PATH_H

#include <stdbool.h>
#include <stdint.h>

#define SH_PATH_PINGS	   32 /* whose times are remembered: an answer to an older one is none */
#define SH_PATH_PER_S	   30 /* pings in any second; 20 of a path that answers */
#define SH_PATH_FEW_PINGS  3  /* so many in a row without an answer are a silence; */
#define SH_PATH_LOST_PINGS 8  /* by so many it can be lost, */
#define SH_PATH_MORE_PINGS 2  /* and so many more for each that was lost of those before, */
#define SH_PATH_BEFORE	   16 /* which are so many */
#define SH_PATH_RETRY_NS   1000000ull /* after this there may be room */

enum sh_path_state {
	SH_PATH_OFF,	 /* own NIC unusable, or no way to the peer's: nothing can be sent */
	SH_PATH_PROBING, /* no answer yet, or none any more */
	SH_PATH_UP,
};

enum sh_path_need {
	SH_PATH_UNUSED, /* the peer has no connection: nothing is sent */
	SH_PATH_IDLE,	/* it has some, none with work outstanding here */
	SH_PATH_BUSY,	/* work is outstanding on a connection that uses it, or stands by on it */
};

/* Of connections that use it, at the last look. */
enum sh_path_work {
	SH_PATH_NO_WORK,
	SH_PATH_WORKS,
	SH_PATH_COMPLETES, /* some that was begun since the look before: a ping that was answered */
};

struct sh_path_config {
	bool heartbeat; /* false: pings find out that a path is up, never that it is lost */
	uint64_t beat_ns, loss_ns;
	uint64_t idle_ns; /* between two pings without work, once it is steady */
	uint64_t probe_min_ns, probe_max_ns;
	uint64_t hold_min_ns, hold_max_ns; /* until it is steady: after the first fall, at most */
	uint64_t calm_ns;		   /* up for so long: one fall is forgotten */
};

struct sh_path_health {
	const struct sh_path_config *config;
	enum sh_path_state state;
	enum sh_path_need need;
	enum sh_path_work work;
	uint32_t seq;	    /* of the last ping; the first is 1 */
	uint32_t valid_seq; /* answers to pings up to this one mean nothing: the path fell since */
	uint32_t missed;    /* pings since the last answer */
	uint64_t sent_at[SH_PATH_PINGS];
	uint64_t probe_interval, probe_at;
	uint64_t retry_at;   /* one did not leave: none before this */
	uint64_t unanswered; /* bit k: the k-th ping before the last one, since the path came up */
	uint64_t silent_since; /* missed > 0: the first of them, or the last answer if later */
	uint64_t spared_at;    /* the last look at which a ping was not needed */
	uint64_t completed_at; /* the last look at which work did */
	uint64_t fell_at;      /* the last time; 0: never */
	uint64_t fell_since;   /* then: silent_since; 0: it had answered all pings */
	/* The latest answer, and the first of the row of answers without a gap that it ends. 0: none
	 * since the path fell. */
	uint64_t answered, answering_since;
	uint64_t up_at;	  /* UP: since when, for the hold-down */
	uint64_t rose_at; /* UP: since when, for calm */
	uint32_t falls;	  /* that are not forgotten */
};

/* seq: a random number, so that answers to an earlier life of the process mean nothing. */
void sh_path_init(struct sh_path_health *path, const struct sh_path_config *config, uint32_t seq);

/* Can anything be sent over it? Idempotent. Off: a path that was up has fallen. */
void sh_path_enable(struct sh_path_health *path, bool on, uint64_t now);
/* Idempotent. */
void sh_path_set_need(struct sh_path_health *path, enum sh_path_need need, uint64_t now);
/* A look at all paths of a peer, a heartbeat after the one before at the least: first their work, then
 * which of them need no ping. */
void sh_path_set_work(struct sh_path_health *path, enum sh_path_work work, uint64_t now);
void sh_paths_spare(struct sh_path_health *const *paths, uint32_t n, uint64_t now);
/* It was found to be dead, though its NIC is well: probed from now on. */
void sh_path_fall(struct sh_path_health *path, uint64_t now);

/* Work died on it, though pings may be answered (acknowledgements or large packets are lost): not
 * steady for a hold-down. What dies within it is the same fault. */
void sh_path_blame(struct sh_path_health *path, uint64_t now);

/* Is a ping due? Then it counts as sent now, with *seq. */
bool sh_path_ping(struct sh_path_health *path, uint64_t now, uint32_t *seq);
/* That of just now found no room and did not leave: it was none, and is due again soon. */
void sh_path_unsent(struct sh_path_health *path, uint64_t now);
/* How long ago that ping was sent, if an answer to it means something; 0: none does. */
uint64_t sh_path_trip_ns(const struct sh_path_health *path, uint32_t seq, uint64_t now);
/* An answer came. True: the path came up with it. One that answers nothing changes nothing. */
bool sh_path_pong(struct sh_path_health *path, uint32_t seq, uint64_t now);
/* The peer's ping came: if the path is not up here, it may be by now. */
void sh_path_heard(struct sh_path_health *path, uint64_t now);

/* When something is to be done next: ping, judge, or tell that it is steady. 0: never. It is always
 * later than now, but for a ping that is due. */
uint64_t sh_path_next(const struct sh_path_health *path, uint64_t now);

bool sh_path_up(const struct sh_path_health *path);
/* Since when pings have had no answer, though it fell meanwhile; 0: they had. */
uint64_t sh_path_unanswered_since(const struct sh_path_health *path, uint64_t now);
/* Since when nothing says that the peer lives: pings in a row had no answer, or it is not up (1: it never
 * was). 0: it answers. */
uint64_t sh_path_dark_since(const struct sh_path_health *path);
/* Up without a break for its hold-down. */
bool sh_path_steady(const struct sh_path_health *path, uint64_t now);
uint64_t sh_path_hold_ns(const struct sh_path_health *path);
/* Up, but a ping has found no answer in the time of one: look whether the work makes progress. */
bool sh_path_suspect(const struct sh_path_health *path);
/* Up, but silent for so long that it is lost if the peer answers elsewhere. */
bool sh_path_silent(const struct sh_path_health *path, uint64_t now);
/* Up without work, and a ping has found no answer in the time of two. */
bool sh_path_doubted(const struct sh_path_health *path, uint64_t now);
/* Did the peer answer over the other path, while it did not over this one? */
bool sh_path_lost(const struct sh_path_health *path, const struct sh_path_health *other,
		  uint64_t now);

#endif
