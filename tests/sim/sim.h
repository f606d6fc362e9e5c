/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Deterministic simulation of the whole protocol: the production core at both ends; NICs, rings,
 * packets, completion queues, memory, control messages, detection and applications as a model in
 * virtual time. One seed is one schedule: it draws every delay, loss, fault and request, and replays
 * exactly.
 *
 * Two hosts with two or three NICs each; NIC k of one and NIC k of the other are path k. Two or three
 * connections between them: end 2 c + h is that of connection c on host h, its peer is end ^ 1. Every
 * carrier is a QP of its own with a number of its own.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "shiftlib/core/internal.h"

enum {
	SIM_HOSTS = 2,
	SIM_PATHS = 3,
	SIM_CONNS = 3,
	SIM_ENDS = SIM_HOSTS * SIM_CONNS,
	SIM_REQUESTS = 20, /* of one end, at most */
	SIM_CELLS = 2,	   /* of each end's memory, written and read by the peer */
	SIM_SQ = 64,	   /* with hidden requests, over the life of a QP */
	SIM_CQ = SIM_SQ + SIM_REQUESTS,
	SIM_BACKLOG = 4 * SIM_REQUESTS,
	SIM_QPS = 1024,
	SIM_PAYLOADS = 2048,
	SIM_EVENTS = 4096,
	SIM_QUEUED = 16, /* events in line for one core */
	SIM_PARKED = 64, /* commands that wait for a NIC that hangs */
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
#define SIM_LIFETIME_NS	 (2 * SIM_MS)  /* no packet of a sick NIC is older */
#define SIM_HELD_NS	 (40 * SIM_MS) /* others may be */
#define SIM_RETRY_NS	 (4 * SIM_MS)
#define SIM_FLUSH_NS	 (3 * SIM_MS) /* the shell waits so long for a flush */
#define SIM_HOLDDOWN_NS	 (4 * SIM_MS)
#define SIM_HOLDDOWN_MAX (32 * SIM_HOLDDOWN_NS)
#define SIM_GRACE_NS	 (150 * SIM_MS)	 /* a path that is up for so long is a way */
#define SIM_HORIZON_NS	 (6000 * SIM_MS) /* after the last fault */
#define SIM_REST_NS	 (2000 * SIM_MS) /* nothing happens any more */

/* ---- events --------------------------------------------------------------------------------- */

enum sim_event_type {
	SIM_EV_POST, /* the application posts its next request */
	SIM_EV_POST_RECV,
	SIM_EV_POLL,
	SIM_EV_TRANSMIT, /* a QP sends its next packet; arg: QP */
	SIM_EV_RETRY,	 /* its retry timer; arg: QP */
	SIM_EV_PACKET,
	SIM_EV_MESSAGE, /* control */
	SIM_EV_CORE,	/* an event reaches the core */
	SIM_EV_TIMER,	/* of the core */
	SIM_EV_COMMAND, /* the worker of a NIC carries it out */
	SIM_EV_FLUSH,	/* the shell waits for a flush no longer */
	SIM_EV_WATCH,	/* the shell looks for completions that nobody polls */
	SIM_EV_VIEW,	/* a host notices the state of a path; arg: path */
	SIM_EV_STEADY,	/* the hold-down of a path is over; arg: path */
	SIM_EV_FAULT,	/* arg: index into faults */
	SIM_EV_HEAL,	/* arg: index into faults */
	SIM_EV_HEAL_ALL,
};

struct sim_event {
	uint64_t at;
	uint32_t order;	   /* ties are broken by age */
	uint8_t type, who; /* end, or host */
	uint16_t arg, payload;
	uint32_t generation;
};

enum sim_packet_type { SIM_PK_REQUEST, SIM_PK_ACK, SIM_PK_RESPONSE, SIM_PK_RNR, SIM_PK_NAK };

struct sim_packet {
	uint8_t type, from, path, entry, part;
	bool held;	   /* for longer than the lifetime of a packet */
	uint16_t src, dst; /* QPs */
	uint32_t psn;
	uint32_t low, high; /* of a READ or atomic */
};

struct sim_message {
	uint8_t from, path;
	bool unknown, standby;
	struct sc_msg_standby standby_msg;
	struct sc_msg_state state_msg;
};

struct sim_command {
	uint8_t end, action; /* enum sc_action_type */
	uint8_t path;
	bool late; /* it hung, and comes back */
	uint16_t qpn;
	uint32_t epoch;
	struct sc_address address;
};

union sim_payload {
	struct sim_packet packet;
	struct sim_message message;
	struct sim_command command;
	struct sc_event core;
};

/* ---- model of the hardware ------------------------------------------------------------------ */

struct sim_request {
	uint8_t kind; /* enum sp_request_kind */
	uint8_t cell, packets;
	bool with_write; /* two-sided: WRITE_WITH_IMM */
	bool signaled, send_fence, bad;
	bool published, retired, seen; /* seen: the application knows that it is complete */
	bool refused;		       /* a NIC has reported an application error for it */
	bool answered;		       /* READ, atomic: data is in the local buffer */
	uint32_t low, high;
	uint32_t message;  /* two-sided: ordinal, from 0 */
	uint32_t executed; /* atomics */
	uint32_t old_value;
};

struct sim_entry { /* of a send ring */
	uint8_t request, packets;
	bool nop, fence, answered;
	uint32_t psn;
};

struct sim_cqe {
	bool recv, error, application, hidden;
	uint8_t index; /* request or receive */
	uint32_t message;
};

enum sim_qp_state { SIM_QP_MADE, SIM_QP_RTS, SIM_QP_ERR, SIM_QP_GONE };

struct sim_qp {
	enum sim_qp_state state;
	uint8_t end, path;
	uint16_t qpn, dst;
	uint32_t epoch;
	uint32_t n_sq, una, tx, tx_part, next_psn;
	bool tx_scheduled, retry_scheduled;
	uint32_t retry_generation, retries;
	uint32_t epsn;
	uint32_t n_rq, rq_head;
	uint32_t n_cq, cq_head;
	uint32_t in_flight; /* packets from it that are no older than they may be */
	bool suspect;	    /* its NIC was sick while it lived */
	bool destroyed;	    /* the shell has asked for it */
	/* the engine's view */
	bool error_seen, send_error_seen, errors_withheld, sealed, fault_told;
	/* not cleared */
	struct sim_entry sq[SIM_SQ];
	uint8_t rq[SIM_REQUESTS];
	struct sim_cqe cq[SIM_CQ];
};

enum sim_health { SIM_WELL, SIM_FROZEN, SIM_ZOMBIE, SIM_DISASSOCIATED };

struct sim_nic {
	enum sim_health health;
	bool port_up, lose_tx, lose_acks, drained;
	bool cqes_lost; /* since it is sick */
	bool hangs;	/* a zombie's commands hang, and it obeys in the end */
	uint64_t busy_until;
	uint32_t n_parked;
	struct sim_command parked[SIM_PARKED];
};

struct sim_view { /* of a path, by one host */
	bool up, steady, blind;
	uint64_t since, holddown;
	uint32_t generation;
};

struct sim_completion {
	bool recv, error;
	uint8_t index;
	uint32_t message;
};

struct sim_app {
	uint32_t n_requests, n_due, n_posted;
	uint32_t n_receives, receives_due, n_receives_posted;
	uint32_t depth;	    /* of the send queue */
	uint32_t send_next; /* next request whose completion may come */
	uint32_t recv_next;
	bool receives_follow; /* a receive is posted when an own request completes */
	bool failed, send_failed, closed, poll_scheduled;
};

struct sim_host {
	bool dead, answers; /* answers: the host says that it knows nobody */
	struct sim_nic nic[SIM_PATHS];
	struct sim_view view[SIM_PATHS];
};

struct sim_end {
	struct sc_conn conn;
	uint32_t timer_generation;
	uint64_t stepped_at;
	uint32_t seen_states; /* bits of enum sim_trigger that held after the last step */
	struct sim_app app;
	struct sim_request requests[SIM_REQUESTS];
	uint32_t receive_message[SIM_REQUESTS];
	bool receive_given[SIM_REQUESTS]; /* back to the application */
	struct {
		uint32_t half[2]; /* request + 1 of the write that was here last */
		uint32_t floor;	  /* writes up to here are over: the memory may be in other use */
	} cell[SIM_CELLS];
	uint32_t counter; /* target of atomics */
	/* engine */
	bool guarded, withheld, passing, app_error_told;
	uint16_t active, recv_to;
	uint32_t retired; /* requests, in posting order */
	uint32_t recv_count;
	uint32_t receives_given; /* good or with an error, to the application */
	uint32_t room;		 /* of the send ring: its depth, or more */
	bool fence_early;	 /* sends are withheld before the fence has found room */
	struct {
		bool wanted, laid, told;
		uint32_t number;
	} fence;
	struct sim_completion backlog[SIM_BACKLOG];
	uint32_t n_backlog, backlog_head;
	uint16_t carriers[SIM_QPS]; /* that are not gone */
	uint32_t n_carriers;
	/* shell */
	struct sc_event queue[SIM_QUEUED];
	uint32_t n_queue;
	bool stepping;
	uint32_t quiesce_epoch, quiesce_pending, quiesce_generation;
	bool quiescing;
	bool keys_late, suspicious;
	uint32_t key_misses, resource_misses;
	uint32_t loss_run;
	uint32_t make_epoch; /* of the last standby that was asked for */
	uint8_t make_path;
	bool failed;
	bool cqes_were_lost, was_sick;
	enum sc_reason fail_reason;
};

/* ---- faults --------------------------------------------------------------------------------- */

enum sim_fault_kind {
	SIM_FAULT_RAIL,	   /* silent */
	SIM_FAULT_PORT,	   /* with an event at one end or both */
	SIM_FAULT_ONE_WAY, /* what this host sends is lost */
	SIM_FAULT_ACKS,	   /* acknowledgements and responses of this host are lost */
	SIM_FAULT_ZOMBIE,  /* the NIC says that it obeys, and goes on */
	SIM_FAULT_FROZEN,  /* it hangs, with all commands */
	SIM_FAULT_DISASSOCIATED,
	SIM_FAULT_DRAIN,   /* the operator sends the traffic away */
	SIM_FAULT_BLINK,   /* heartbeats are lost, nothing else */
	SIM_FAULT_ALARM,   /* a false one, of the carrier in use */
	SIM_FAULT_STANDBY, /* the standby is lost */
	SIM_FAULT_KILL,
	SIM_FAULT_CLOSE,
	SIM_FAULT_RESET, /* the application puts its QP to ERR */
	SIM_FAULT_KINDS,
};

/* What a fault waits for: a moment of the protocol at any end, or a time. */
enum sim_trigger {
	SIM_AT_TIME,
	SIM_AT_WAIT_SIGNALED,
	SIM_AT_WAIT_DRAINED,
	SIM_AT_FENCED,
	SIM_AT_QUIESCING,
	SIM_AT_COUNTING,
	SIM_AT_SETTLING,
	SIM_AT_RESUMING,
	SIM_AT_STRANDED,
	SIM_AT_FALLBACK,
	SIM_AT_STANDBY_MADE,
	SIM_AT_STANDBY_READY,
	SIM_AT_ANY_MOVE,
	SIM_TRIGGERS,
};

enum sim_aim { SIM_AIM_ACTIVE, SIM_AIM_STANDBY, SIM_AIM_BOTH, SIM_AIM_DEFAULT, SIM_AIM_ANY };

struct sim_fault {
	uint8_t kind, trigger, aim;
	uint8_t end;   /* that it was aimed at; its host is where it strikes */
	uint8_t paths; /* mask */
	uint8_t again; /* it flaps so often */
	bool fired;
};

/* Why a connection may end with errors. */
enum sim_excuse {
	SIM_EXCUSE_UNPROTECTED = 1,
	SIM_EXCUSE_KILLED = 2,
	SIM_EXCUSE_CLOSED = 4,
	SIM_EXCUSE_BAD = 8, /* the application's own error */
	SIM_EXCUSE_ATOMIC = 16,
	SIM_EXCUSE_FENCED_READ = 32,
	SIM_EXCUSE_MISCOUNT = 64,
	SIM_EXCUSE_NO_WAY = 128,
	SIM_EXCUSE_BOTH_SICK = 256,
};
enum { SIM_EXCUSES = 9 };

/* Rules of the shell and the engine broken on purpose; those of the core are enum sc_mutant. */
enum sim_mutant {
	SIM_MUTANT_NONE,
	SIM_MUTANT_SAME_QPN,	  /* an old packet matches the new carrier */
	SIM_MUTANT_COUNT_ANEW,	  /* counts per carrier instead of cumulative */
	SIM_MUTANT_ONE_PATH,	  /* control over the default path only */
	SIM_MUTANT_PUBLISH_EARLY, /* withheld requests run before settling */
	SIM_MUTANT_DROP,	  /* a completion dropped */
	SIM_MUTANT_REORDER,	  /* receives laid in another order */
	SIM_MUTANT_RETRY_ERROR,	  /* an application error taken for a transport error */
	SIM_MUTANT_IDLE_FLUSHED,  /* a carrier with nothing outstanding counts as flushed */
	SIM_MUTANT_KEEP_GUARD,	  /* withheld errors of an ended connection never released */
	SIM_MUTANT_FLUSH_GOOD,	  /* a flush taken for success */
	SIM_MUTANT_NOT_FINAL,	  /* a count that is not final called final */
	SIM_MUTANT_FENCE_EARLY,	  /* FENCED with requests outstanding */
	SIM_MUTANT_FENCE_OPEN,	  /* sends behind the fence go on */
	SIM_MUTANT_NOT_RELAID,	  /* receives not laid again when the next carrier changes */
	SIM_MUTANT_NO_HOLDDOWN,	  /* a path is steady as soon as it is up */
	SIM_MUTANT_BOTH_LEAD,	  /* both ends choose standbys */
	SIM_MUTANT_DROP_LIVE,	  /* the carrier in use destroyed with the old ones */
};
extern enum sim_mutant sim_mutant;

/* ---- figures -------------------------------------------------------------------------------- */

enum { SIM_ROWS = 4 * (SC_MOVE_ENDED + 1), SIM_PROMISES = 9 };

struct sim_totals {
	uint64_t schedules, steps, connections, faults, faults_in_move, with_fault_in_move,
		long_enough;
	uint64_t moves, ordered, cancels, stranded, ended, resent, settled, carriers;
	uint64_t reached[SIM_PROMISES];		  /* schedules in which promise i was at stake */
	uint64_t excused[SIM_EXCUSES];		  /* connections that ended so */
	uint64_t pairs[SIM_ROWS][SC_EVENT_TYPES]; /* schedules that met it */
	uint64_t triggers[SIM_TRIGGERS];
};

struct sim_world {
	uint64_t seed, random, now;
	bool trace;
	uint32_t n_paths, n_conns, n_ends;
	struct sim_host host[SIM_HOSTS];
	struct sim_end end[SIM_ENDS];
	uint32_t n_qps;
	struct sim_qp qp[SIM_QPS];
	struct sim_event heap[SIM_EVENTS];
	uint32_t n_heap, order, steps;
	union sim_payload payload[SIM_PAYLOADS];
	uint16_t free_payload[SIM_PAYLOADS];
	uint32_t n_free;
	struct sim_fault faults[SIM_FAULTS];
	uint32_t n_faults;
	uint64_t faults_until;
	uint32_t more_times;	/* faults were added: none had struck during a move */
	bool healed, disturbed; /* disturbed: something has happened to the paths */
	bool rail_up[SIM_PATHS];
	struct {
		uint64_t since; /* it is a way; 0: it is none */
		uint64_t from[SIM_INTERVALS], to[SIM_INTERVALS];
		uint32_t n;
	} way[SIM_PATHS];
	struct sc_config config;
	bool crowded; /* many connections move: messages are sent again later */
	uint32_t base_count;
	uint32_t loss_percent, slow_percent, held_percent;
	uint32_t excuse[SIM_CONNS];
	uint32_t moves[SIM_CONNS];
	uint32_t peaceful[SIM_CONNS]; /* epoch that a switch went to, with nothing wrong */
	/* the list of decisions, for --shrink */
	uint64_t *decisions;
	uint32_t n_decisions, max_decisions, next_decision;
	bool replay;
	/* figures */
	struct sim_totals *totals;
	uint32_t faults_fired, faults_in_move, resent, settled;
	uint32_t reached; /* bit per promise */
	bool pair[SIM_ROWS][SC_EVENT_TYPES];
	char violation[256];
	bool out_of_room; /* and violation says of what */
};

/* sim_world.c */
uint64_t sim_random(struct sim_world *w);
uint32_t sim_pick(struct sim_world *w, uint32_t n); /* 0 .. n - 1 */
bool sim_chance(struct sim_world *w, uint32_t percent);
uint64_t sim_delay(struct sim_world *w);
void sim_at(struct sim_world *w, uint64_t delay_ns, enum sim_event_type type, uint32_t who,
	    uint32_t arg);
void sim_at_generation(struct sim_world *w, uint64_t at, enum sim_event_type type, uint32_t who,
		       uint32_t arg, uint32_t generation);
union sim_payload *sim_at_payload(struct sim_world *w, uint64_t delay_ns, enum sim_event_type type,
				  uint32_t who);
void sim_violation(struct sim_world *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * The model's tables are full: the schedule ends here. Two paths that answer pings and pass no data,
 * for longer than the model has carriers, bring that about; it is counted, and must stay rare.
 */
void sim_out_of_room(struct sim_world *w, const char *what);
void sim_trace(struct sim_world *w, uint32_t who, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void sim_reach(struct sim_world *w, uint32_t promise);
void sim_init(struct sim_world *w, uint64_t seed, bool trace);
void sim_run(struct sim_world *w);

/* sim_nic.c */
struct sim_qp *sim_nic_make(struct sim_world *w, uint32_t end, uint32_t path, uint32_t epoch);
void sim_nic_lay(struct sim_world *w, struct sim_qp *qp, uint32_t request, bool nop);
bool sim_nic_lay_fence(struct sim_world *w, struct sim_qp *qp, uint32_t request);
void sim_nic_lay_receive(struct sim_world *w, struct sim_qp *qp, uint32_t receive);
void sim_nic_transmit(struct sim_world *w, struct sim_qp *qp);
void sim_nic_retry(struct sim_world *w, struct sim_qp *qp, uint32_t generation);
void sim_nic_packet(struct sim_world *w, const struct sim_packet *packet);
void sim_nic_modify_err(struct sim_world *w, struct sim_qp *qp);
void sim_nic_thaw(struct sim_world *w, uint32_t host, uint32_t path);
void sim_nic_reprobe(struct sim_world *w, uint32_t host, uint32_t path);
bool sim_nic_works(const struct sim_world *w, const struct sim_qp *qp);
bool sim_nic_may_send(const struct sim_world *w, const struct sim_qp *qp);
static inline struct sim_nic *sim_nic_of(struct sim_world *w, const struct sim_qp *qp)
{
	return &w->host[qp->end & 1].nic[qp->path];
}

/* sim_engine.c */
void sim_engine_collect(struct sim_world *w, uint32_t end);
bool sim_engine_flushed(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_engine_seal(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_engine_post(struct sim_world *w, uint32_t end, uint32_t request);
void sim_engine_post_receive(struct sim_world *w, uint32_t end, uint32_t receive);
bool sim_engine_lay_receives(struct sim_world *w, uint32_t end, uint32_t epoch);
enum sc_reason sim_engine_settle(struct sim_world *w, uint32_t end, uint32_t epoch,
				 uint32_t peer_count);
void sim_engine_fence(struct sim_world *w, uint32_t end, uint32_t number);
void sim_engine_unfence(struct sim_world *w, uint32_t end);
void sim_engine_withhold(struct sim_world *w, uint32_t end);
void sim_engine_fail(struct sim_world *w, uint32_t end);
void sim_engine_cqe(struct sim_world *w, uint32_t end, bool error);
bool sim_engine_next(struct sim_world *w, uint32_t end, struct sim_completion *out);
bool sim_engine_busy(const struct sim_world *w, uint32_t end);
struct sim_qp *sim_engine_carrier(struct sim_world *w, uint32_t end, uint32_t epoch);

/* sim_path.c: what each host believes of the paths */
bool sim_path_truth(const struct sim_world *w, uint32_t host, uint32_t path);
void sim_path_changed(struct sim_world *w, uint32_t path);
void sim_path_noticed(struct sim_world *w, uint32_t host, uint32_t path);
void sim_path_view(struct sim_world *w, uint32_t host, uint32_t path);
void sim_path_steady(struct sim_world *w, uint32_t host, uint32_t path, uint32_t generation);
void sim_path_blame(struct sim_world *w, uint32_t host, uint32_t path);
void sim_path_tell(struct sim_world *w, uint32_t end);
void sim_path_lost(struct sim_world *w, uint32_t host, uint32_t path, enum sc_reason reason);
bool sim_path_was_way(const struct sim_world *w, uint64_t from);

/* sim_shell.c */
void sim_shell_init(struct sim_world *w);
void sim_shell_event(struct sim_world *w, uint32_t end, const struct sc_event *event);
void sim_shell_later(struct sim_world *w, uint32_t end, struct sc_event event);
void sim_shell_message(struct sim_world *w, uint32_t end, const struct sim_message *message);
void sim_shell_timer(struct sim_world *w, uint32_t end, uint32_t generation);

/* sim_command.c: commands that take time on the worker of a NIC */
void sim_command_submit(struct sim_world *w, const struct sim_command *command);
void sim_command_run(struct sim_world *w, const struct sim_command *command);
void sim_command_unpark(struct sim_world *w, uint32_t host, uint32_t path);
void sim_command_quiesce(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_command_recount(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_command_flush_over(struct sim_world *w, uint32_t end, uint32_t generation);
void sim_command_drop_old(struct sim_world *w, uint32_t end, uint32_t epoch);
void sim_command_destroy(struct sim_world *w, struct sim_qp *qp);

/* sim_app.c */
void sim_app_init(struct sim_world *w);
void sim_app_post(struct sim_world *w, uint32_t end);
void sim_app_post_receive(struct sim_world *w, uint32_t end);
void sim_app_poll(struct sim_world *w, uint32_t end);
void sim_app_wake(struct sim_world *w, uint32_t end);
void sim_app_close(struct sim_world *w, uint32_t end);
void sim_app_check_completion(struct sim_world *w, uint32_t end, const struct sim_completion *c);

/* sim_check.c: the promises, where they can be broken */
void sim_check_write(struct sim_world *w, uint32_t end, uint32_t request);
void sim_check_receive(struct sim_world *w, uint32_t end, uint32_t receive);
void sim_check_response(struct sim_world *w, uint32_t end, uint32_t request);
void sim_check_completed_send(struct sim_world *w, uint32_t end, const struct sim_completion *c);
void sim_check_completed_receive(struct sim_world *w, uint32_t end, const struct sim_completion *c);
void sim_check_app_error(struct sim_world *w, uint32_t end);
void sim_check_fail(struct sim_world *w, uint32_t end, enum sc_reason reason);
void sim_check_resubmit(struct sim_world *w, uint32_t end);
void sim_check_publish(struct sim_world *w, uint32_t end, const struct sim_qp *qp);
void sim_check_step(struct sim_world *w, uint32_t end, const struct sc_event *event,
		    const struct sc_conn *before, const struct sc_actions *out);
void sim_check_end(struct sim_world *w);

/* sim_fault.c */
void sim_fault_init(struct sim_world *w);
void sim_fault_apply(struct sim_world *w, uint32_t index);
void sim_fault_heal(struct sim_world *w, uint32_t index);
void sim_fault_heal_all(struct sim_world *w);
void sim_fault_step(struct sim_world *w, uint32_t end, const struct sc_actions *out);
const char *sim_trigger_name(enum sim_trigger trigger);

/* sim_report.c */
void sim_report_print(const struct sim_totals *t, double seconds, bool coverage);
void sim_report_add(struct sim_totals *to, const struct sim_totals *from);

/* sim_shrink.c */
void sim_shrink(struct sim_world *w, uint64_t seed);
bool sim_shrink_parse(struct sim_world *w, uint64_t seed, const char *zeroes);

#endif
