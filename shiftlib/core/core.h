/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The core: the protocol of one protected connection, as a pure state machine.
 *
 *	sc_step(conn, event, now, actions)
 *
 * No clock, thread, socket, verb, allocation or lock. The shell feeds events and carries actions
 * out in the order given; the result of an action comes back as a later event. The same code runs
 * in production, in unit tables and in the deterministic simulation (tests/sim).
 *
 * Times are nanoseconds of any monotonic clock. Counts are cumulative from the connection's start,
 * modulo 2^32.
 *
 * What the core expects of the shell:
 * - Events of one connection are given one at a time; after each, timer_at says when the next
 *   SC_EV_TIMER is due (an early one does no harm).
 * - An error completion that was withheld is always followed by FAULT{TRANSPORT, epoch of its
 *   carrier}, also in the middle of a move and when the guard went off meanwhile. Of the carrier in
 *   use or to come, the core answers with a move or with SC_ACT_FAIL, never with silence.
 * - SC_ACT_FAIL comes at most once. It withholds nothing any more: the outstanding work completes or
 *   fails in order, every carrier of the connection (the one being laid too) goes to ERR, answers of
 *   actions still under way are not needed any more.
 * - An application error found while a carrier is drained is APP_ERROR, before its QUIESCED.
 */
#ifndef SHIFTLIB_CORE_H
#define SHIFTLIB_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/request.h"

/* ---- names of states ------------------------------------------------------------------------ */

enum sc_send_state {
	SC_SEND_DEFAULT,
	SC_SEND_FALLBACK,
	SC_SEND_WAIT_SIGNALED,
	SC_SEND_WAIT_DRAINED
};
enum sc_recv_state { SC_RECV_DEFAULT, SC_RECV_FALLBACK };

/* How far the way to the next epoch is prepared. */
enum sc_standby_phase {
	SC_STANDBY_NONE,       /* nothing asked for */
	SC_STANDBY_MAKING,     /* STANDBY_MAKE given, no answer yet */
	SC_STANDBY_MADE,       /* QP exists; the peer gets its address */
	SC_STANDBY_CONNECTING, /* peer's address known, STANDBY_CONNECT given */
	SC_STANDBY_READY,      /* RTS here. Protected when the peer says READY too */
	SC_STANDBY_FAILED,     /* the backup cannot do what the default does */
};

/* Where in a move the connection is. */
enum sc_move_phase {
	SC_MOVE_NONE,
	SC_MOVE_QUIESCING, /* left: old carriers being put to ERR and drained */
	SC_MOVE_COUNTING, /* sick NIC: count not final yet; waits for the peer's quiesce + lifetime */
	SC_MOVE_LAYING,	  /* receives being laid into the new carrier */
	SC_MOVE_SETTLING, /* own STATE sent with final count; waits for the peer's */
	SC_MOVE_RESUMING, /* SETTLE given, no answer yet */
	SC_MOVE_STRANDED, /* the carrier is lost and no standby is ready: waits for one, withheld */
	SC_MOVE_ENDED,	  /* FATAL, CLOSED or failed: nothing moves any more */
};

/* An ordered switch, as told to the peer. What fences is the send state. */
enum sc_switch_phase {
	SC_SWITCH_NONE,
	SC_SWITCH_PREP,	  /* asks for it; own fence is not complete */
	SC_SWITCH_FENCED, /* nothing is outstanding here */
	SC_SWITCH_CANCEL, /* not this time: the number is burnt */
};

/* Path k of a connection leads from the k-th NIC of this side to the k-th NIC of the peer; 0 is the
 * default. Sets of paths are masks of bits. */
#define SC_MAX_PATHS 5

enum sc_reason {
	SC_REASON_NONE,
	SC_REASON_TRANSPORT,   /* error completion: retry exceeded, flush without cause */
	SC_REASON_PORT,	       /* port or carrier down on this host */
	SC_REASON_DEVICE,      /* device fatal */
	SC_REASON_PEER,	       /* the peer has a higher epoch */
	SC_REASON_ORDER,       /* operator: drained */
	SC_REASON_SILENCE,     /* heartbeat lost and no progress */
	SC_REASON_RETURN,      /* the default NIC (or a better one) is well again */
	SC_REASON_NO_STANDBY,  /* the carrier is lost and nothing is ready to take over */
	SC_REASON_DEADLINE,    /* the peer did not answer in time */
	SC_REASON_PEER_FATAL,  /* the peer cannot go on */
	SC_REASON_PEER_CLOSED, /* the peer closed its QP or is gone */
	SC_REASON_MISCOUNT,    /* the peer's count contradicts ours */
	SC_REASON_ATOMIC,      /* an atomic of unknown fate (P4) */
	SC_REASON_FENCED_READ, /* a READ before a fenced request of unknown fate */
	SC_REASON_KEY,	       /* a memory key is not known on the backup */
	SC_REASON_APPLICATION, /* the application's own error, modify or destroy */
	SC_REASON_RESOURCE,    /* the backup NIC lacks something */
	SC_REASONS,
};

/* ---- messages (decoded; wire form is the shell's) ------------------------------------------- */

enum sc_flags { SC_FLAG_FATAL = 1, SC_FLAG_CLOSED = 2 };

struct sc_address { /* of a standby QP, opaque to the core */
	uint8_t gid[16];
	uint16_t lid;
	uint8_t nic, mtu;
	uint32_t qpn, psn;
};

struct sc_msg_standby {
	uint32_t epoch; /* that this standby is for */
	uint8_t phase;	/* enum sc_standby_phase of the sender: MADE, CONNECTING, READY, FAILED */
	uint8_t seen;	/* phase of the receiver's standby, as last heard by the sender */
	uint8_t ask;	/* 1: answer at once, whatever you know; answers never ask */
	uint8_t lazy;	/* 1: the sender needs no standby now, if the receiver does not */
	uint8_t path;	/* that it is on: the leader's choice */
	uint8_t up, steady, drained;  /* the sender's masks of paths */
	uint8_t masks_no, masks_seen; /* number of those; of the receiver's, as last heard */
	struct sc_address address;
};

struct sc_msg_state {
	uint32_t epoch;	     /* "I am at": RTS, older carriers quiesced, receives laid (if final) */
	uint32_t seen_epoch; /* receiver's epoch as last heard with final count by the sender */
	uint32_t recv_count;
	uint8_t leaving;  /* 1: on the way to epoch, quiesced as far as possible; count not final */
	uint8_t final;	  /* recv_count is final: epoch reached */
	uint8_t quiesced; /* no carrier older than epoch can send any more (QPs in ERR or dead) */
	uint8_t flags;	  /* enum sc_flags */
	uint8_t reason;	  /* enum sc_reason, for the log */
	uint8_t ask;	  /* 1: answer at once, whatever you know; answers never ask */
	uint8_t phase;	  /* enum sc_switch_phase */
	uint8_t stranded; /* 1: the carrier of `epoch` is lost too, and sends are withheld */
	uint32_t switch_no; /* that the phase is about; a number never serves twice */
	uint32_t target;    /* PREP, FENCED: epoch of the standby that the switch leads to */
	uint32_t lost;	    /* highest epoch whose carrier is lost at the sender; 0: none */
};

/* ---- events --------------------------------------------------------------------------------- */

enum sc_event_type {
	SC_EV_INTRODUCED,   /* the peer and its control addresses are known; leader: see below */
	SC_EV_PATHS,	    /* up, steady, drained: the masks of this side; suspicious */
	SC_EV_STANDBY_MADE, /* address */
	SC_EV_STANDBY_CONNECTED, /* RTS */
	SC_EV_STANDBY_FAILED,	 /* make or connect failed: reason */
	SC_EV_MSG_STANDBY,	 /* standby */
	SC_EV_MSG_STATE,	 /* state */
	SC_EV_MSG_UNKNOWN,	 /* the peer's instance does not know this connection */
	SC_EV_FAULT,		 /* reason: TRANSPORT, PORT, DEVICE, ORDER */
	SC_EV_STANDBY_LOST,	 /* the standby of that epoch died: reason */
	SC_EV_APP_ERROR,	 /* an error completion was passed on to the application: its own
				  * error, or a transport error while unguarded */
	SC_EV_APP_CLOSED,	 /* modify to ERR or RESET, or destroy, by the application */
	SC_EV_QUIESCED,		 /* final, recv_count */
	SC_EV_RECEIVES_LAID,	 /* ok: 1, recv_count; else reason (KEY: try again later) */
	SC_EV_SETTLED,		 /* ok: 1; else reason (KEY: try again later) */
	SC_EV_FENCE_LAID, /* later sends are withheld; atomics: what is outstanding before it may
			   * not be repeated */
	SC_EV_FENCED,	  /* nothing is outstanding in the active send ring any more */
	SC_EV_PATH_UP,	  /* a control path to the peer came (back) up, or died: send again */
	SC_EV_TIMER,
	SC_EVENT_TYPES,
};

struct sc_event {
	enum sc_event_type type;
	enum sc_reason reason;
	/*
	 * FAULT, STANDBY_*: of the carrier that it is about. QUIESCED, RECEIVES_LAID, SETTLED,
	 * FENCE_LAID, FENCED: as the action said. Late ones are told apart by it.
	 */
	uint32_t epoch;
	bool ok;
	bool leader;  /* INTRODUCED: this end chooses standbys; the other end must not be it too */
	bool atomics; /* FENCE_LAID: atomics, or READs before a fenced request */
	bool fruitless; /* FAULT: no answer to its retries, and nothing that it sent has ever come */
	uint8_t up, steady, drained; /* PATHS */
	bool suspicious;	     /* PATHS: a standby may be impossible: better make it now */
	bool final;		     /* QUIESCED: nothing of the old carriers can count any more */
	bool disassociated;  /* QUIESCED: the device is gone for good, so the count is final */
	uint32_t recv_count; /* QUIESCED; RECEIVES_LAID: as sealed, that is what was not laid */
	struct sc_address address;
	struct sc_msg_standby standby;
	struct sc_msg_state state;
};

/* ---- actions -------------------------------------------------------------------------------- */

enum sc_action_type {
	SC_ACT_STANDBY_MAKE,	/* epoch, path -> STANDBY_MADE | STANDBY_FAILED */
	SC_ACT_STANDBY_CONNECT, /* address of the peer's -> STANDBY_CONNECTED | STANDBY_FAILED */
	SC_ACT_STANDBY_DROP,	/* destroy the standby of this epoch */
	SC_ACT_SEND_STANDBY,	/* standby: over its own path; on: over every live path */
	SC_ACT_SEND_STATE,	/* state: over every live path */
	SC_ACT_GUARD,		/* on/off: withhold transport errors */
	SC_ACT_WITHHOLD,	/* sends written, doorbell withheld */
	SC_ACT_QUIESCE,		/* all carriers to ERR, drain -> QUIESCED */
	SC_ACT_RECOUNT,		/* drain again -> QUIESCED */
	SC_ACT_SEAL,	     /* the count is final: later completions of old carriers are dropped */
	SC_ACT_LAY_RECEIVES, /* into carrier `epoch` -> RECEIVES_LAID */
	SC_ACT_SETTLE,	     /* recv_count = the peer's; into carrier `epoch` -> SETTLED */
	SC_ACT_FENCE,	/* lay a fence into the active send ring (try again until it fits), withhold
			 * what comes behind it -> FENCE_LAID, FENCED; epoch: switch_no, comes back */
	SC_ACT_UNFENCE, /* the fence is off: what is withheld runs on the active carrier */
	SC_ACT_FAIL,	/* the application's completions and errors, in order: reason */
	SC_ACT_DROP_OLD, /* destroy carriers older than epoch (carrier 0 stays as a husk) */
	SC_ACT_REPORT,	 /* protection level or move changed: for status, log and figures;
			  * path: that a standby would be made on, if it rests */
};

struct sc_action {
	enum sc_action_type type;
	bool on;
	uint8_t path;
	enum sc_reason reason;
	uint32_t epoch;
	uint32_t recv_count;
	struct sc_address address;
	struct sc_msg_standby standby;
	struct sc_msg_state state;
};

#define SC_MAX_ACTIONS 32
struct sc_actions {
	uint32_t n;
	struct sc_action a[SC_MAX_ACTIONS];
};

/* ---- the connection ------------------------------------------------------------------------- */

struct sc_config {
	uint64_t resend_min_ns, resend_max_ns; /* retransmission of messages, doubling */
	uint64_t retry_time_ns; /* of the QP: 4.096 us * 2^timeout * (retry_cnt + 1); 0: none */
	uint64_t silence_ns;	/* no sign of the peer for so long in a move: give up */
	uint64_t deadline_ns;	/* a move takes no longer, whatever the peer says */
	uint64_t packet_lifetime_ns; /* longest packet lifetime on the fabric */
	uint64_t fence_ns;	     /* an ordered switch waits so long for its fences */
	uint64_t standby_ns; /* making a standby takes no longer, or another one is chosen */
	uint64_t choose_min_ns, choose_max_ns; /* pause after one failed, doubling */
	bool lazy; /* a standby is made when it is needed, if the peer is lazy too */
};
void sc_config_default(struct sc_config *config);

struct sc_masks {
	uint8_t up;	 /* its NIC is well and the peer answers on it */
	uint8_t steady;	 /* up for the hold-down time */
	uint8_t drained; /* not to be used, says the operator */
	uint8_t no;	 /* rises with every change */
};

struct sc_conn {
	struct sc_config config;
	enum sc_send_state send;
	enum sc_recv_state recv;
	enum sc_move_phase move;
	enum sc_reason reason;	  /* of the move under way, of the end, or of no protection */
	uint32_t epoch;		  /* of the carrier in use; during a move: the one to come */
	uint8_t path;		  /* that it runs on */
	bool suspect;		  /* its path is down: leave as soon as a standby is ready */
	bool suspicious;	  /* lazy: a standby may be impossible here */
	bool fault_later;	  /* RESUMING: it died while the answer of SETTLE was under way */
	uint32_t lost;		  /* highest epoch whose carrier is lost here; 0: none */
	uint32_t fruitless;	  /* carriers in a row that passed nothing */
	uint64_t fruitless_since; /* the first of them was given up */
	bool leader;		  /* chooses standbys and begins ordered switches */
	struct sc_masks paths;

	struct {
		enum sc_standby_phase phase; /* own */
		enum sc_standby_phase peer;  /* as last heard */
		uint32_t epoch;		     /* of this one or, when there is none, of the last */
		uint8_t path;
		uint8_t seen; /* own phase, as the peer last showed to have seen it */
		uint8_t masks_seen;
		bool both;     /* it has been ready at both ends */
		uint8_t avoid; /* paths that failed since one worked */
		struct sc_address local, remote;
		uint64_t resend_at, resend_interval;
		uint64_t deadline_at;		     /* of making it */
		uint64_t choose_at, choose_interval; /* after a failure: when the next is chosen */
		bool rests;			     /* lazy: there need be none */
		uint64_t rest_until; /* lazy: the path in use may come up so long at first */
	} standby;
	struct {
		enum sc_switch_phase phase;
		uint32_t no; /* of this attempt, or the last one heard of: burnt unless under way */
		uint32_t target; /* epoch */
		bool peer_fenced;
		bool atomics; /* some are outstanding before the fence */
		enum sc_reason reason;
		uint64_t deadline_at;
		uint64_t next_at, interval; /* after a CANCEL */
	} sw;
	struct {
		bool introduced;
		bool known; /* any message of it was heard */
		bool ended; /* it said FATAL or CLOSED */
		bool masks_known;
		bool lazy; /* told with the masks */
		struct sc_masks paths;
		uint32_t epoch;	     /* last heard, any */
		uint32_t seen_epoch; /* of ours, as last heard */
		uint32_t recv_count; /* with final */
		uint32_t lost;	     /* as our own */
		bool quiesced;	     /* heard for the epoch under way */
		bool final;	     /* has a final count for the epoch under way */
		uint64_t heard_at;
	} peer;
	bool guarded;	     /* transport errors are withheld: from the first standby, or the
			      * first rest without one, to the end */
	bool failed;	     /* SC_ACT_FAIL was given */
	bool count_final;    /* own carriers older than epoch are quiesced, recv_count is fixed */
	bool counted;	     /* sick NIC: recv_count is that of the last recount */
	bool recounting;     /* sick NIC: RECOUNT given, no answer yet */
	uint8_t flags;	     /* enum sc_flags, once ended: told to the peer */
	uint8_t last_words;  /* how often that is still sent unasked */
	uint32_t recv_count; /* fixed when count_final */
	uint64_t left_at, deadline_at, lifetime_until;
	uint64_t retry_at, retry_interval;   /* LAY_RECEIVES or SETTLE again: a key was missing */
	uint64_t resend_at, resend_interval; /* STATE */
	uint64_t timer_at;		     /* out: when to send SC_EV_TIMER; 0: not at all */
};

void sc_init(struct sc_conn *conn, const struct sc_config *config);

/* One step. actions->n is reset first. Never fails: an event that has no meaning here is ignored. */
void sc_step(struct sc_conn *conn, const struct sc_event *event, uint64_t now_ns,
	     struct sc_actions *actions);

/* Protected: a transport error here and now would be masked. */
bool sc_protected(const struct sc_conn *conn);
/* Protected without a standby: both ends make one when it is needed. */
bool sc_rests(const struct sc_conn *conn);

/* ---- settle: which outstanding requests did the peer execute? ------------------------------- */

/*
 * requests[0..n): all published outstanding requests, in posting order. two_sided_done/posted:
 * cumulative, ours, published ones; peer_count: the peer's final receive count. Writes fates[0..n).
 * SC_REASON_NONE on success; MISCOUNT, ATOMIC or FENCED_READ when nothing may be resubmitted;
 * *delivered is then the number of leading requests known to be executed and complete.
 */
enum sc_reason sc_settle(const struct sp_request *requests, uint32_t n, uint32_t two_sided_done,
			 uint32_t two_sided_posted, uint32_t peer_count, enum sp_fate *fates,
			 uint32_t *delivered);

/* ---- names, for logs and tests -------------------------------------------------------------- */

const char *sc_send_state_name(enum sc_send_state state);
const char *sc_recv_state_name(enum sc_recv_state state);
const char *sc_standby_phase_name(enum sc_standby_phase phase);
const char *sc_move_phase_name(enum sc_move_phase phase);
const char *sc_switch_phase_name(enum sc_switch_phase phase);
const char *sc_reason_name(enum sc_reason reason); /* "transport-error", for programs */
const char *sc_reason_text(enum sc_reason reason); /* a clause for people */
const char *sc_event_name(enum sc_event_type type);
const char *sc_action_name(enum sc_action_type type);

#endif
