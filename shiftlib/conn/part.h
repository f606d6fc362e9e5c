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
struct sc_verdict;
struct sh_carrier;
struct sh_qp;
struct sh_wire_record;
struct sp_request;
struct sp_settled;

/* The life of a connection, from RTR to the close. */
struct sh_part_life {
	void (*reset)(
		struct sh_qp *qp); /* a connection begins: what an earlier one left is forgotten */
	void (*connected)(struct sh_qp *qp); /* the application's QP is in RTR; and again: in RTS */
	void (*leaves)(struct sh_qp *qp); /* the application closes it; its peer is still known */
	void (*leaves_peer)(
		struct sh_qp *qp); /* its peer is about to be forgotten, or to be another */
	void (*left)(
		struct sh_qp *qp); /* it has no peer any more, and is about to have no number */
};

/* The clock of a connection. */
struct sh_part_clock {
	uint64_t (*next_timer)(const struct sh_qp *qp); /* run is due then; 0: never */
	void (*run)(struct sh_qp *qp, uint64_t now);
	uint64_t (*due)(
		void); /* when the part has something to do that is no connection's; 0: never */
};

/* A step of the core, and the level of protection that follows from it. */
struct sh_part_step {
	void (*stepped)(struct sh_qp *qp); /* the core has changed; its actions come next */
	void (*acted)(struct sh_qp *qp);   /* the actions have been carried out */
	void (*guarded)(struct sh_qp *qp); /* the connection may move from now on */
	void (*leveled)(
		struct sh_qp *qp); /* its level of protection, or the reason for that, is another */
	void (*rests)(struct sh_qp *qp,
		      uint8_t path); /* lazy: it has no standby, and would go to that path */
	/*
	 * Returns why the connection is not protected; a constant. NULL: this part knows of
	 * nothing.
	 */
	const char *(*why)(const struct sh_qp *qp);
	/* Returns why the connection may not begin a move now; a constant. NULL: it may. */
	const char *(*forbids)(struct sh_qp *qp);
	void (*look)(struct sh_qp *qp, uint64_t now); /* now and then: watch/look.c */
	void (*looked)(uint64_t now); /* all connections of that round had their look */
};

/* Paths, and the carriers that are made ahead for them. */
struct sh_part_standby {
	void (*paths)(struct sh_qp *qp);       /* the core is about to be told of its paths */
	void (*path_opened)(struct sh_qp *qp); /* a control path to its peer is there */
	/*
	 * Adds what the send queue of a standby needs for the part; true: there was something.
	 * Any thread.
	 */
	bool (*caps)(const struct sh_qp *qp, struct ibv_qp_cap *cap);
	/* Hands out a QP that was made ahead; false: there is none. */
	bool (*take)(struct sh_qp *qp, uint8_t path, struct sh_carrier *taken);
	void (*taken)(struct sh_qp *qp, const struct sh_carrier *taken,
		      bool used); /* what became of it */
	void (*made)(struct sh_qp *qp, struct sh_carrier *carrier);
	/*
	 * The standby of that number is connected, by attributes of the application that may
	 * have changed since.
	 */
	void (*connected)(struct sh_qp *qp, uint32_t epoch, const struct ibv_qp_attr *by);
	/* The QP of a carrier is destroyed. Lock not held: what blocks may be done here. */
	void (*destroyed)(const struct sh_carrier *gone);
	/* All carriers but the first are gone. may_wait: the lock may be given up meanwhile. */
	void (*dropped)(struct sh_qp *qp, bool may_wait);
};

/* A move, from the fault to its end. */
struct sh_part_move {
	void (*begins)(struct sh_qp *qp,
		       enum sc_reason reason); /* sends are about to be withheld */
	void (*withheld)(struct sh_qp *qp,
			 uint32_t epoch);   /* they are; epoch: of the carrier to come */
	void (*quiesces)(struct sh_qp *qp); /* old carriers are about to go to ERR */
	/*
	 * Returns whether the count is final though a NIC does not obey. recv_count: of the
	 * receives until now.
	 */
	bool (*is_over)(struct sh_qp *qp, uint32_t recv_count, uint64_t now);
	void (*ask_psn)(struct sh_qp *qp, uint32_t epoch); /* SC_ACT_ASK_PSN */
	void (*receives)(struct sh_qp *qp, uint8_t path);  /* receives are about to be laid there */
	void (*laid)(struct sh_qp *qp);			   /* they are */
	/* The sends are about to go to that carrier. 0, or the engine's error. */
	int (*takes)(struct sh_qp *qp, const struct sh_carrier *to);
	void (*sends)(struct sh_qp *qp, uint8_t path); /* sends are about to be laid there */
	void (*carried)(struct sh_qp *qp,
			uint8_t path); /* traffic runs there from now on; 0 also at the end */
	void (*settled)(struct sh_qp *qp, const struct sh_carrier *to,
			const struct sp_settled *settled);
	/*
	 * The application gets errors. unknown: number of requests of which it is not known
	 * whether they ran.
	 */
	void (*failed)(struct sh_qp *qp, enum sc_reason reason, uint32_t unknown);
	/*
	 * It is in ERR. failed: it got its errors from SHIFT; else from its NIC, or its peer is
	 * no more.
	 */
	void (*ended)(struct sh_qp *qp, bool failed);
};

/* The fate of outstanding requests: what a part knows beside the peer's count. */
struct sh_part_fate {
	void (*counts)(const struct sh_qp *qp, const struct sc_action *settle,
		       struct sc_counts *counts);
	/*
	 * Adds what is known to the counts, or to the requests. True: it was asked for;
	 * settling is tried again.
	 */
	bool (*tell)(struct sh_qp *qp, struct sp_request *requests, uint32_t n,
		     struct sc_counts *counts);
	/* An atomic's fate is not known. True: it was asked for. */
	bool (*ask)(struct sh_qp *qp, const struct sp_request *requests, uint32_t n);
	/* Returns whether the fate of request i will be told, whatever becomes of it. */
	bool (*would_tell)(const struct sh_qp *qp, const struct sp_request *requests, uint32_t n,
			   uint32_t i);
	void (*doubt)(struct sh_qp *qp,
		      const struct sc_verdict *verdict); /* one source contradicts others */
};

/* What is heard of a connection: from its peer, from the data path. */
struct sh_part_news {
	/* A record of a kind that is a part's. False: it is another part's. */
	bool (*message)(struct sh_qp *qp, const struct sh_wire_record *record);
	void (*hinted)(
		struct sh_qp *qp); /* somebody speaks to it who is not its peer, or not yet */
	void (*blamed)(struct sh_qp *qp, uint32_t epoch); /* that carrier ran out of retries */
	void (*gated)(struct sh_qp *qp, uint64_t now);	  /* sends wait behind the engine's gate */
	void (*progressed)(
		struct sh_qp *qp); /* a send completed on another carrier than the first */
	/*
	 * A request may not run yet: the engine bars it (-EACCES). Returns for what it waits; a
	 * constant.
	 */
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
/*
 * What all parts need of a send queue of the connection; false: no part needs anything. Any
 * thread.
 */
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
