/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts of a connection: what is optional, or of one subject, is a part in a room below
 * conn/, and conn/ itself names none. It tells all parts what happens, and asks them, by the
 * table that process.c registers.
 *
 * Each call has the lock held, unless its comment says otherwise. NULL: the part has no
 * interest. The order of the table is the order of the calls; process.c says where it matters.
 */
#ifndef SHIFTLIB_CONN_PART_H
#define SHIFTLIB_CONN_PART_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/core/state.h"

struct sc_action;
struct sc_counts;
struct sc_event;
struct sc_verdict;
struct sh_carrier;
struct sh_qp;
struct sh_wire_record;
struct sp_request;
struct sp_settled;

/* The life of a connection, from RTR to the close. */
struct sh_part_life {
	/* A connection begins: forget what an earlier one left. */
	void (*reset)(struct sh_qp *qp);
	/* The application's QP has reached RTR; and once more: RTS. */
	void (*connected)(struct sh_qp *qp);
	/* The application closes the connection, whose peer is still known. */
	void (*leaves)(struct sh_qp *qp);
	/* The peer is about to be forgotten, or to become another. */
	void (*leaves_peer)(struct sh_qp *qp);
	/* The connection has no peer any more, and is about to lose its number. */
	void (*left)(struct sh_qp *qp);
};

/* The clock of a connection. */
struct sh_part_clock {
	/* Returns when run is due; 0: never. */
	uint64_t (*next_timer)(const struct sh_qp *qp);
	void (*run)(struct sh_qp *qp, uint64_t now);
	/* Returns when the part's module is due; 0: never. */
	uint64_t (*due)(void);
};

/* A step of the core, and the level of protection that follows from it. */
struct sh_part_step {
	/* The core has changed; its actions come next. */
	void (*stepped)(struct sh_qp *qp);
	/* The actions have been carried out. */
	void (*acted)(struct sh_qp *qp);
	/* The connection may move from now on. */
	void (*guarded)(struct sh_qp *qp);
	/* The level of protection, or the reason for it, is another. */
	void (*leveled)(struct sh_qp *qp);
	/* Lazy: the connection has no standby, and would go to that path. */
	void (*rests)(struct sh_qp *qp, uint8_t path);
	/*
	 * Returns why the connection is not protected, a constant; NULL: the part knows of
	 * nothing.
	 */
	const char *(*why)(const struct sh_qp *qp);
	/* Returns why the connection may not begin a move now, a constant; NULL: it may. */
	const char *(*forbids)(struct sh_qp *qp);
	/*
	 * Returns whether what forbids a move is being mended, and soon is: the event, which
	 * begins one, is put off, and the part raises it again. A message of the peer is lost
	 * instead, as it is repeated.
	 */
	bool (*defers)(struct sh_qp *qp, const struct sc_event *event);
	/* A look at the connection now and then (watch/look.c). */
	void (*look)(struct sh_qp *qp, uint64_t now);
	/* All connections of that round had their look. */
	void (*looked)(uint64_t now);
};

/* Paths, and the carriers that are made ahead for them. */
struct sh_part_standby {
	/* The core is about to be told of the paths. */
	void (*paths)(struct sh_qp *qp);
	/* A control path to the peer is there. */
	void (*path_opened)(struct sh_qp *qp);
	/*
	 * Adds what the part needs of a standby's send queue; true: something was added. Any
	 * thread.
	 */
	bool (*caps)(const struct sh_qp *qp, struct ibv_qp_cap *cap);
	/* Hands out a QP that was made ahead; false: none fits. */
	bool (*take)(struct sh_qp *qp, uint8_t path, struct sh_carrier *taken);
	/* A QP that was handed out is a standby's now (used), or has to go. */
	void (*taken)(struct sh_qp *qp, const struct sh_carrier *taken, bool used);
	/* The QP of a standby has been made. */
	void (*made)(struct sh_qp *qp, struct sh_carrier *carrier);
	/* The standby of that number is connected, by attributes that may have changed since. */
	void (*connected)(struct sh_qp *qp, uint32_t epoch, const struct ibv_qp_attr *by);
	/* The QP of a carrier is destroyed. Lock not held: what blocks may be done here. */
	void (*destroyed)(const struct sh_carrier *gone);
	/* All carriers but the first are gone. may_wait: the lock may be given up meanwhile. */
	void (*dropped)(struct sh_qp *qp, bool may_wait);
};

/* A move, from the fault to its end. */
struct sh_part_move {
	/* Sends are about to be withheld. */
	void (*begins)(struct sh_qp *qp, enum sc_reason reason);
	/* Sends are withheld. epoch: number of the carrier to come. */
	void (*withheld)(struct sh_qp *qp, uint32_t epoch);
	/* Old carriers are about to go to ERR. */
	void (*quiesces)(struct sh_qp *qp);
	/*
	 * Returns whether the count is final though a NIC does not obey. recv_count: number of
	 * receives until now.
	 */
	bool (*is_over)(struct sh_qp *qp, uint32_t recv_count, uint64_t now);
	/*
	 * Returns whether the count, which is final as the NICs execute nothing more, must wait
	 * before it is told. Asked again soon, while it must.
	 */
	bool (*delays)(struct sh_qp *qp, uint64_t now);
	/* The core asks for the expected PSN of that carrier: SC_ACT_ASK_PSN. */
	void (*ask_psn)(struct sh_qp *qp, uint32_t epoch);
	/* Receives are about to be laid on that path. */
	void (*receives)(struct sh_qp *qp, uint8_t path);
	/* Receives have been laid. */
	void (*laid)(struct sh_qp *qp);
	/* Sends are about to go to that carrier. Returns 0, or the engine's error. */
	int (*takes)(struct sh_qp *qp, const struct sh_carrier *to);
	/* Sends are about to be laid on that path. */
	void (*sends)(struct sh_qp *qp, uint8_t path);
	/* Outstanding requests have been settled; qp->active is still the old carrier. */
	void (*settled)(struct sh_qp *qp, const struct sh_carrier *to,
			const struct sp_settled *settled);
	/* Traffic runs on that path from now on; path 0 also when errors end the connection. */
	void (*carried)(struct sh_qp *qp, uint8_t path);
	/*
	 * An error is the application's to see (P6, or unprotected). status: of its completion;
	 * SUCCESS: an asynchronous event told of it.
	 */
	void (*passed)(struct sh_qp *qp, enum ibv_wc_status status);
	/* The application gets errors. unknown: number of requests that may have run or not. */
	void (*failed)(struct sh_qp *qp, enum sc_reason reason, uint32_t unknown);
	/* The connection has ended. failed: errors of SHIFT's were shown to the application. */
	void (*ended)(struct sh_qp *qp, bool failed);
};

/* The fate of outstanding requests: what a part knows beside the peer's count. */
struct sh_part_fate {
	/* Adds what is known before requests are looked at. */
	void (*counts)(const struct sh_qp *qp, const struct sc_action *settle,
		       struct sc_counts *counts);
	/* Adds what is known to counts or requests. True: the peer was asked; try again soon. */
	bool (*tell)(struct sh_qp *qp, struct sp_request *requests, uint32_t n,
		     struct sc_counts *counts);
	/* An atomic's fate is not known. True: the peer was asked; try again soon. */
	bool (*ask)(struct sh_qp *qp, const struct sp_request *requests, uint32_t n);
	/* Returns whether the fate of request i will be told, whatever becomes of it. */
	bool (*would_tell)(const struct sh_qp *qp, const struct sp_request *requests, uint32_t n,
			   uint32_t i);
	/* A verdict was reached; one source may contradict the others. */
	void (*doubt)(struct sh_qp *qp, const struct sc_verdict *verdict);
};

/* News of a connection: from its peer, from the data path. */
struct sh_part_news {
	/* Takes a record of the part's kind; false: the record is another part's. */
	bool (*message)(struct sh_qp *qp, const struct sh_wire_record *record);
	/* Somebody speaks to the connection who is not its peer, or not yet. */
	void (*hinted)(struct sh_qp *qp);
	/*
	 * A send of that carrier ended as by an error of the program, and the error is withheld.
	 * Returns whether the part looks into it: then the part calls sh_mailbox_program() or
	 * sh_mailbox_nic() later.
	 */
	bool (*accused)(struct sh_qp *qp, uint32_t epoch, enum ibv_wc_status status);
	/* A carrier ran out of retries. */
	void (*blamed)(struct sh_qp *qp, uint32_t epoch);
	/* Sends wait behind the engine's gate. */
	void (*gated)(struct sh_qp *qp, uint64_t now);
	/* A send completed on another carrier than the first. */
	void (*progressed)(struct sh_qp *qp);
	/* The engine bars a request (-EACCES). Returns what it waits for, a constant. */
	const char *(*barred)(struct sh_qp *qp, uint64_t now);
};

struct sh_conn_part {
	const char *name;
	struct sh_part_life life;
	struct sh_part_clock clock;
	struct sh_part_step step;
	struct sh_part_standby standby;
	struct sh_part_move move;
	struct sh_part_fate fate;
	struct sh_part_news news;
};

/* All of them, and NULL behind the last; until sh_parts_register() there are none. */
extern const struct sh_conn_part *const *sh_parts;

/* Once, before any connection. The array lives as long as the process. */
void sh_parts_register(const struct sh_conn_part *const *parts);
/* Adds what all parts need of a send queue of the connection; false: nothing. Any thread. */
bool sh_parts_caps(const struct sh_qp *qp, struct ibv_qp_cap *cap);

/* Tells all parts in their order: SH_PARTS_TELL(life.left, qp). */
#define SH_PARTS_TELL(what, ...)                                                                   \
	do {                                                                                       \
		for (const struct sh_conn_part *const *part_ = sh_parts; *part_; part_++)          \
			if ((*part_)->what)                                                        \
				(*part_)->what(__VA_ARGS__);                                       \
	} while (0)

/*
 * Asks the parts in their order, until one has an answer that is not 0: SH_PARTS_ASK(step.why,
 * qp).
 */
#define SH_PARTS_ASK(what, ...)                                                                    \
	({                                                                                         \
		__typeof__((*sh_parts)->what(__VA_ARGS__)) answer_ = 0;                            \
		for (const struct sh_conn_part *const *part_ = sh_parts; *part_ && !answer_;       \
		     part_++)                                                                      \
			if ((*part_)->what)                                                        \
				answer_ = (*part_)->what(__VA_ARGS__);                             \
		answer_;                                                                           \
	})

#endif
