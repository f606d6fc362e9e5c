/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Model of the hardware: send and receive rings, completion queues, QPs, NICs. */
#ifndef TESTS_SIM_SIM_NIC_H
#define TESTS_SIM_SIM_NIC_H

#include "sim_app.h"
#include "sim_event.h"
#include "sim_limits.h"

struct sim_world;

struct sim_entry { /* of a send ring */
	uint8_t request, packets;
	bool nop, fence, answered;
	bool log;      /* a log WQE behind that request */
	uint8_t taken; /* by the responder: so many packets */
	uint32_t psn;
	uint32_t says; /* of a log WQE: so many requests lie before it */
};

struct sim_cqe {
	bool recv, error, application, hidden;
	bool uncounted; /* the program has no place for it */
	uint8_t index;	/* request or receive */
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
	uint32_t mtu;	    /* units */
	uint32_t numbered;  /* packets, as the engine counts them */
	uint32_t numbers;   /* requests in its ring, and hidden ones but log WQEs */
	uint32_t log_since; /* requests that change memory, behind the last log WQE */
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

/* What a NIC wrote: half a cell of an end's memory, or a completion. */
struct sim_posted {
	uint64_t at;
	uint8_t end, cell, half;
	uint32_t old, now; /* of the half */
	uint16_t qpn;	   /* 0: no completion */
	uint32_t cqe;
	bool log;      /* the word of the log, */
	uint64_t *uid; /* or one of a record of the library uid/ */
	uint64_t word_old, word_now;
};

struct sim_nic {
	enum sim_health health;
	bool port_up, lose_tx, lose_acks, drained;
	bool cqes_lost; /* since it is sick */
	bool writes_lost; /* likewise all that it writes; what it would have to read is not answered */
	uint32_t n_posted;
	struct sim_posted posted[SIM_POSTED]; /* the last ones, oldest first */
	bool refuses, slow, stale;	      /* when it is asked for an expected PSN */
	bool hangs; /* a zombie's commands hang, and it obeys in the end */
	uint64_t busy_until;
	uint32_t n_parked;
	struct sim_command parked[SIM_PARKED];
};

struct sim_posted *sim_nic_posted(struct sim_world *w, struct sim_nic *nic);
struct sim_qp *sim_nic_make(struct sim_world *w, uint32_t end, uint32_t path, uint32_t epoch);
uint32_t sim_nic_packets(const struct sim_qp *qp, const struct sim_request *r);
void sim_nic_lay(struct sim_world *w, struct sim_qp *qp, uint32_t request, bool nop);
void sim_nic_lay_log(struct sim_world *w, struct sim_qp *qp, uint32_t request);
bool sim_nic_lay_fence(struct sim_world *w, struct sim_qp *qp, uint32_t request);
void sim_nic_lay_receive(struct sim_world *w, struct sim_qp *qp, uint32_t receive);
void sim_nic_transmit(struct sim_world *w, struct sim_qp *qp);
void sim_nic_retry(struct sim_world *w, struct sim_qp *qp, uint32_t generation);
void sim_nic_packet(struct sim_world *w, const struct sim_packet *packet);
void sim_nic_modify_err(struct sim_world *w, struct sim_qp *qp);
void sim_nic_lose_posted(struct sim_world *w, uint32_t host, uint32_t path);
void sim_nic_thaw(struct sim_world *w, uint32_t host, uint32_t path);
void sim_nic_reprobe(struct sim_world *w, uint32_t host, uint32_t path);
bool sim_nic_works(const struct sim_world *w, const struct sim_qp *qp);
bool sim_nic_may_send(const struct sim_world *w, const struct sim_qp *qp);
struct sim_nic *sim_nic_of(struct sim_world *w, const struct sim_qp *qp);

#endif
