/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How much of everything the model has, and how long things take in it. */
#ifndef TESTS_SIM_SIM_LIMITS_H
#define TESTS_SIM_SIM_LIMITS_H

enum {
	SIM_HOSTS = 2,
	SIM_PATHS = 4,
	SIM_CONNS = 3,
	SIM_ENDS = SIM_HOSTS * SIM_CONNS,
	SIM_WORK = 20,	   /* requests of one end, */
	SIM_REQUESTS = 32, /* or of a client of the library uid/, at most */
	SIM_CELLS = 2,	   /* of each end's memory, written and read by the peer */
	SIM_SQ = 108,	   /* with hidden requests, over the life of a QP */
	SIM_CQ = SIM_SQ + SIM_REQUESTS,
	SIM_BACKLOG = 4 * SIM_REQUESTS,
	SIM_QPS = 1024,
	SIM_PAYLOADS = 2048,
	SIM_EVENTS = 4096,
	SIM_QUEUED = 16, /* events in line for one core */
	SIM_UNREAD = 64, /* messages that find a receive at a process that is halted */
	SIM_PARKED = 64, /* commands that wait for a NIC that hangs */
	SIM_POSTED = 8,	 /* writes of a NIC that may not be in memory yet */
	SIM_FAULTS = 8,
	SIM_INTERVALS = 8,
	SIM_MORE_TIMES = 5,
	SIM_STEPS_MIN = 200, /* else a schedule is trivial */
	SIM_STEPS = 300000,  /* a schedule that needs more does not come to rest */
	SIM_RETRIES = 3,
	SIM_NOBODY = 255, /* an event of the world, of no end */
};

#define SIM_US		 1000ULL
#define SIM_MS		 (1000 * SIM_US)
#define SIM_SETTLE_NS	 (200 * SIM_US)
#define SIM_POSTED_NS	 SIM_SETTLE_NS /* what is older has reached memory */
#define SIM_LIFETIME_NS	 (2 * SIM_MS)  /* no packet of a sick NIC is older */
#define SIM_HELD_NS	 (40 * SIM_MS) /* others may be */
#define SIM_RETRY_NS	 (4 * SIM_MS)
#define SIM_STAY_NS	 (300 * SIM_MS)
#define SIM_EXACT_NS	 (20 * SIM_MS)
#define SIM_FLUSH_NS	 (3 * SIM_MS) /* the shell waits so long for a flush */
#define SIM_HOLDDOWN_NS	 (4 * SIM_MS)
#define SIM_HOLDDOWN_MAX (32 * SIM_HOLDDOWN_NS)
#define SIM_GRACE_NS	 (150 * SIM_MS)	 /* a path that is up for so long is a way */
#define SIM_HORIZON_NS	 (9000 * SIM_MS) /* after the last fault */
#define SIM_REST_NS	 (2000 * SIM_MS) /* nothing happens any more */

#endif
