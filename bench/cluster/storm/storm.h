/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Many hosts in virtual time. Each connection's two ends are the real core (shiftlib/core). Around
 * it is the shell's work, as far as that costs time: a background thread that serves one event
 * after the other, messages that gather in datagrams, one line of commands for each NIC.
 */
#ifndef BENCH_CLUSTER_STORM_H
#define BENCH_CLUSTER_STORM_H

#include <stdbool.h>
#include <stdint.h>

#include "shiftlib/conn/pace.h"
#include "shiftlib/core/core.h"

#define STORM_US     1000ull
#define STORM_MS     1000000ull
#define STORM_PATHS  2
#define STORM_QUEUED 8 /* answers of actions, at most, while the core is stepping */

/* Costs in ns. */
struct storm_costs {
	uint64_t step;	   /* an event of a connection: the core, and the work for it */
	uint64_t datagram; /* a datagram sent, or received */
	uint64_t wake;	   /* waking the background thread */
	uint64_t command;  /* a command on the NIC's line */
	uint64_t late;	   /* delay of the worker that comes back from a command */
	uint64_t latency;  /* time of a datagram from host to host */
};

enum storm_fault {
	STORM_NIC,    /* the port of one host goes down: bench/scale.py */
	STORM_SWITCH, /* the ports of all hosts on one rail go down */
	STORM_SILENT, /* all that goes over the rail is lost; nobody is told */
	STORM_FAULTS,
};
extern const char *const storm_fault_names[STORM_FAULTS];

struct storm_config {
	uint32_t hosts, peers, channels; /* peers of a host; connections with each of them */
	enum storm_fault fault;
	uint32_t drop_permille;		   /* of datagrams, on the path that lives */
	uint64_t noticed_min, noticed_max; /* STORM_SILENT: so much later */
	bool unasked;			   /* ends leave without asking the peer */
	uint64_t seed;
	struct storm_costs costs;
};

struct storm_message {
	uint32_t end; /* receiving end */
	bool standby;
	union {
		struct sc_msg_standby standby_msg;
		struct sc_msg_state state_msg;
	};
};

struct storm_datagram {
	uint32_t host, path; /* receiving host, and the path */
	uint32_t n, bytes, states;
	struct storm_message message[];
};

/* A route to one peer over one path, and the messages that wait there. */
struct storm_route {
	uint32_t to, path;
	struct storm_datagram *out;
	struct storm_route *next; /* next of the host's routes with messages */
};

enum storm_input_type {
	STORM_IN_DATAGRAM,
	STORM_IN_TIMER,	    /* end, generation */
	STORM_IN_COMMAND,   /* end: its old QP is in ERR */
	STORM_IN_PORT_DOWN, /* of this host */
	STORM_IN_SILENT,    /* peer: nothing is heard from it on path 0 */
	STORM_IN_FLUSH,	    /* messages that have gathered have waited long enough */
};

/* Input of a background thread. */
struct storm_input {
	enum storm_input_type type;
	uint32_t end, generation, peer;
	struct storm_datagram *datagram;
};

struct storm_inputs { /* a queue */
	struct storm_input *list;
	uint32_t first, n, room;
};

struct storm_ends { /* a queue */
	uint32_t *list;
	uint32_t first, n, room;
};

struct storm_host {
	struct storm_route *routes; /* peers x paths */
	uint32_t n_routes;
	struct storm_route *outs;
	struct storm_inputs inbox;
	struct storm_ends line;	     /* line of commands, the first of them under way */
	uint64_t free_at;	     /* nobody holds the lock from then on */
	uint64_t clock;		     /* time of the one who holds it */
	uint64_t round_at, flush_at; /* 0: none is to come */
	bool port_up, hold;
	uint32_t *ends;
	uint32_t n_ends, moving, faulted;
	struct sh_pace pace;
};

struct storm_end {
	struct sc_conn conn;
	uint32_t host, peer; /* hosts */
	uint32_t generation; /* of its timer */
	uint64_t timer_at;
	struct {
		struct sc_msg_state state;
		uint32_t paths;
	} heard;
	bool counted_moving, counted_waiting;
	uint64_t left_at, settled_at;
};

struct storm_event {
	uint64_t at, order;
	uint32_t host;
	enum { STORM_EV_ROUND, STORM_EV_COMMAND, STORM_EV_INPUT } type;
	struct storm_input input;
};

struct storm_heap {
	struct storm_event *list; /* from 1 */
	uint32_t n, room;
	uint64_t order;
};

struct storm_world {
	struct storm_config config;
	struct storm_costs costs; /* none, while standbys are made */
	uint64_t now, random;
	struct storm_heap heap;
	struct storm_host *host;
	struct storm_end *end; /* 2 k and 2 k + 1 are the two of connection k */
	uint32_t n_ends, n_settled, n_leaving;
	bool rail_dead, started;
	struct { /* events for the one end that is stepping */
		struct sc_event event[STORM_QUEUED];
		uint32_t n;
		bool stepping;
	} queue;
	struct {
		uint64_t noticed_at, states, standbys, datagrams, steps;
	} sum;
};

/* world.c */
/* ends the program if there is no memory */
void *storm_alloc(void *old, uint64_t n, uint64_t size);
uint32_t storm_pick(struct storm_world *w, uint64_t n);
void storm_at(struct storm_world *w, const struct storm_event *event);
void storm_input_at(struct storm_world *w, uint64_t at, uint32_t host,
		    const struct storm_input *input);
bool storm_next(struct storm_world *w, struct storm_event *event);
void storm_heap_clear(struct storm_world *w);

/* topology.c */
void storm_build(struct storm_world *w);
void storm_destroy(struct storm_world *w);
struct storm_route *storm_route(struct storm_host *h, uint32_t to, uint32_t path);

/* end.c */
void storm_end_event(struct storm_world *w, uint32_t end, const struct sc_event *event);
void storm_end_timer(struct storm_world *w, uint32_t end, uint32_t generation);
void storm_end_message(struct storm_world *w, const struct storm_datagram *datagram,
		       const struct storm_message *message);

/* host.c */
void storm_host_say(struct storm_world *w, uint32_t host, uint32_t to, uint32_t path,
		    const struct storm_message *message);
void storm_host_command(struct storm_world *w, uint32_t host, uint32_t end);
void storm_host_event(struct storm_world *w, const struct storm_event *event);

#endif
