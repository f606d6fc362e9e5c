/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The record of what has happened in this process, as an operator tells it: one event for all
 * connections of a pair of NICs that moved together. The last SH_EVENTS_KEPT are kept, in static
 * memory; `shiftctl events` shows them, and they feed the counters and the command of
 * SHIFT_ON_EVENT.
 *
 * The data path records none. Everything here is called with sh_lock() held but for the names and
 * sh_event_json(), which need none.
 *
 * What counts time:
 *
 *	first sign   |<- detect_ns ->|  decision  |<- switch_ns ->|  traffic flows
 *
 * The first sign of a fault is the earliest of what this end has, looking back from the decision:
 * the first heartbeat of the path that was never answered, the error completion, the device's
 * event, the send or command of a NIC that hangs; for a silence the last completion, if that was
 * later. A fault is older than its first sign by at most a heartbeat's interval. The decision is
 * when the first of the connections was taken off its path. Their traffic flows when the last of
 * them has rung the doorbell of its new carrier, with all that had to be sent again. In an
 * ordered move, by the operator or back to a better NIC, nothing was detected: it begins when the
 * first fence was laid, and detect_ns is 0.
 */
#ifndef SHIFTLIB_EVENT_H
#define SHIFTLIB_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/json.h"
#include "shiftlib/loop/loop.h"

#define SH_EVENTS_KEPT 256
#define SH_EVENT_NIC   64 /* bytes of a NIC's name */

struct sh_nic;
struct sh_qp;
struct sp_settled;
struct sh_carrier;

enum sh_event_kind {
	SH_EVENT_SWITCH,      /* connections moved to another NIC */
	SH_EVENT_RETURN,      /* connections came back, in order, to a better NIC */
	SH_EVENT_FAILED,      /* connections could not be moved: the application got its errors */
	SH_EVENT_UNPROTECTED, /* connections have been unprotected for SH_EVENT_SETTLES_NS */
	SH_EVENT_PROTECTED,   /* connections are protected, for the first time or again */
	SH_EVENT_NIC_DOWN,    /* a NIC of this host is not used for now: the cause says why */
	SH_EVENT_NIC_UP,      /* the NIC is used again; the cause is what it was */
	SH_EVENT_DRAIN,	      /* the operator's orders */
	SH_EVENT_UNDRAIN,
	SH_EVENT_KV_LOST, /* the key-value store does not answer */
	SH_EVENT_KV_BACK,
	/*
	 * A NIC loses packets, or a NIC or a path of it is slow, though nothing has failed; why:
	 * what is done about it.
	 */
	SH_EVENT_GRAY,
	SH_EVENT_GRAY_OVER,
	/* Connections run on NICs that are not their own. Told again when `left` changes. */
	SH_EVENT_DEGRADED,
	SH_EVENT_WHOLE, /* no connection does any more */
	/* Connections ended by an error that is a program's, or that SHIFT had no part in. */
	SH_EVENT_ENDED,
	/* Work or a move of connections has not gone on for a second; why: what they wait for. */
	SH_EVENT_STALLED,
	SH_EVENT_FLOWING, /* they go on */
	SH_EVENT_KINDS,
};

enum sh_event_cause {
	SH_CAUSE_NONE,	    /* no cause: protection came up, ... */
	SH_CAUSE_PORT_DOWN, /* the port of this host */
	SH_CAUSE_LINK_LOST,
	SH_CAUSE_RETRY_EXCEEDED,
	SH_CAUSE_TRANSPORT, /* another error completion: a flush without cause, RNR, ... */
	SH_CAUSE_SILENCE,   /* neither heartbeat nor completion */
	SH_CAUSE_HANG,	    /* the NIC does not do what it is told */
	SH_CAUSE_FATAL,	    /* asynchronous event */
	SH_CAUSE_REMOVED,   /* the device was taken away */
	SH_CAUSE_CQ,	    /* a completion queue died */
	SH_CAUSE_PEER,	    /* the other end moved; its own events say why */
	SH_CAUSE_DRAIN,
	SH_CAUSE_BETTER_NIC, /* is well again */
	SH_CAUSE_STANDBY,    /* none is ready, or there is none */
	SH_CAUSE_DEADLINE,
	SH_CAUSE_PEER_FATAL,
	SH_CAUSE_PEER_CLOSED,
	SH_CAUSE_MISCOUNT,
	SH_CAUSE_ATOMIC,
	SH_CAUSE_FENCED_READ,
	SH_CAUSE_KEY,
	SH_CAUSE_RESOURCE,
	SH_CAUSE_LOSS,	      /* errors among packets, by the port's counters */
	SH_CAUSE_SLOW,	      /* the NIC's port carries less than it can */
	SH_CAUSE_SLOW_PATH,   /* round trips take longer than they should, and nothing says why */
	SH_CAUSE_APPLICATION, /* the application did something that cannot be protected */
	SH_CAUSE_HOME,	      /* atomics waited for a NIC of the peer that runs all of them */
	SH_CAUSE_PEER_APPLICATION, /* a program's own error, met at the other end */
	SH_CAUSE_PAUSED,	   /* the port sends nothing */
	SH_CAUSE_NO_PROGRESS,	   /* all answers, and the work does not */
	SH_CAUSE_PEER_GONE,	   /* silent on all paths, while other peers answer */
	SH_CAUSE_NOT_READY,	   /* the peer's program posts no receive (RNR) */
	SH_CAUSE_SLOW_PCI,	   /* the NIC's PCI link carries less than it can */
	SH_CAUSES,
};

/* Members that an event's kind has no use for are 0 or "". */
struct sh_event {
	uint64_t number;  /* counted from 1, without gaps; the ring forgets the oldest */
	uint64_t wall_ns; /* when it was recorded, since 1970, UTC */
	uint64_t at_ns;	  /* the same by CLOCK_MONOTONIC */
	enum sh_event_kind kind;
	enum sh_event_cause cause;
	const char *why; /* a clause for people, constant; NULL: the cause says it */
	char from[SH_EVENT_NIC], to[SH_EVENT_NIC]; /* NICs of this host; of one NIC: from */
	uint64_t peer;				   /* instance of the peer; 0: none */
	bool peer_known;			   /* the next are set */
	uint8_t peer_from, peer_to;		   /* NICs of the peer, by their place there */
	uint8_t peer_gid[16];			   /* of peer_from */
	uint32_t qps;				   /* connections that it is about */
	uint32_t qpn, peer_qpn;			   /* the first of them, at both ends; 0: none */
	uint64_t detect_ns, switch_ns;		   /* see above; of FAILED: until the errors */
	uint64_t decided_ns;			   /* CLOCK_MONOTONIC */
	uint64_t resent, resent_bytes;		   /* requests sent again, and their data */
	uint64_t since_ns;			   /* DEGRADED, WHOLE: when it began, as wall_ns */
	uint32_t left;	  /* then: of the bandwidth, in thousandths; see backup/left.h */
	uint64_t settled; /* requests found to be executed, completed in software */
	/* FAILED: published requests of which nobody knows whether they were executed. */
	uint64_t unknown;
};

/* ---- event_names.c -------------------------------------------------------------------------- */

const char *sh_event_kind_name(enum sh_event_kind kind);
const char *sh_event_cause_name(enum sh_event_cause cause);
/* Names of kinds with commas between them, or "all", as bits. 0 or -EINVAL. */
int sh_event_kinds(const char *text, uint32_t *kinds);

/* ---- event.c: the ring, JSON ---------------------------------------------------------------- */

/*
 * Numbers, dates and keeps an event, and hands it to all that want to know: event_sinks[] in
 * event.c.
 */
void sh_event_record(struct sh_event *event) SH_LOCKED;
/* Record an event of one NIC of this host, or of the KV. qps: connections that it concerns. */
void sh_event_nic(const char *name, enum sh_event_kind kind, enum sh_event_cause cause,
		  uint32_t qps) SH_LOCKED;
void sh_event_kv(bool lost) SH_LOCKED;
/*
 * Returns the oldest kept event with a number above that; NULL: none. It stays until the next is
 * recorded.
 */
const struct sh_event *sh_event_after(uint64_t number) SH_LOCKED;
uint64_t sh_event_last(void) SH_LOCKED; /* number of the last event; 0: none yet */
void sh_events_forget(void);		/* called in the child of a fork */

/* An object. Any thread. */
bool sh_event_has_share(const struct sh_event *event); /* left and since_ns */
void sh_event_json(struct sh_json *json, const struct sh_event *event);
/* Writes one sentence without a newline, cut to size. Any thread. */
void sh_event_text(const struct sh_event *event, char *out, size_t size);

extern const struct sh_module sh_events_module;

#endif
