/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Writes: message 2 n has the data of Write n, message 2 n + 1 its parity. */
#ifndef SDR_SHELL_REL_H
#define SDR_SHELL_REL_H

#include "sdr/code/code.h"
#include "sdr/shell/internal.h"

enum { SDR_RESULTS = 1024, SDR_CHOICES = 8 };

struct sdr_req {
	struct sdr_rel *rel;
	bool send;	  /* else a receive */
	bool used, over;  /* used: its user has not asked yet; over: no more is done for it */
	uint8_t n_posted; /* how many of its two messages are posted */
	uint8_t n_done;	  /* receives: closed; sends: allowed */
	uint8_t n_gone;
	bool closing;
	int status;
	uint64_t write, addr, bytes;
	struct sdr_mr *mr;
	uint32_t imm;
};

/* A sender's end. */
struct sdr_writer {
	struct sdr_req req;
	struct sdr_tx tx;
	struct sdr_send_req data, parity; /* how their packets are made */
	uint64_t *acked, *wanted;
	uint32_t *left_at;
	uint8_t *code; /* parity's bytes */
	struct sdr_mr *code_mr;
	uint32_t encoded;	/* submessages */
	struct sdr_range range; /* the range that is being sent */
	uint32_t at;		/* the next packet, from the range's first */
	uint32_t decoded;	/* chunks that the receiver's code restored, as DONE says */
};

/* A receiver's end. */
struct sdr_reader {
	struct sdr_req req;
	uint64_t word;
	struct sdr_rx rx;
	struct sdr_rx_memory memory;
	uint8_t *code;
	struct sdr_mr *code_mr;
};

/* A choice of the model, which is taken again while size and link are about the same. */
struct sdr_chosen {
	uint64_t bytes; /* 0: there is none */
	double loss, rtt_ns, rate_bps, repeats;
	enum sdr_scheme_kind kind;
	uint32_t k, m;
};

struct sdr_rel {
	struct sdr_qp *qp;
	struct sdr_rel_attr attr;
	uint32_t chunks_max, parity_max; /* of a Write */
	bool made;			 /* the tables are made, when the chunk's size is known */
	uint64_t next_send, next_recv, tick_at;
	uint32_t turn;
	struct sdr_chosen chosen[SDR_CHOICES]; /* by size */
	struct sdr_writer *writers;
	struct sdr_reader *readers;
	uint8_t *scratch;
	struct {
		uint64_t write; /* + 1 */
		int status;
		uint32_t decoded;
	} results[SDR_RESULTS];
};

/* From the connection. */
void sdr_rel_allowed(struct sdr_rel *rel, const struct sdr_action *a);
void sdr_rel_gone(struct sdr_rel *rel, uint64_t n);
void sdr_rel_done(struct sdr_rel *rel, uint64_t n);
void sdr_rel_hear(struct sdr_rel *rel, const struct sdr_ctrl *c);
bool sdr_rel_progress(struct sdr_rel *rel);
void sdr_rel_failed(struct sdr_rel *rel);
void sdr_rel_forget_keys(struct sdr_rel *rel, uint32_t nic);
/* rel.c */
struct sdr_writer *sdr_writer_of(struct sdr_rel *rel, uint64_t write);
struct sdr_reader *sdr_reader_of(struct sdr_rel *rel, uint64_t write);
/* Chunk and parity as memory; scratch suffices for both. */
void sdr_rel_pieces(const struct sdr_rel *rel, const struct sdr_plan *p,
		    const struct sdr_submessage *s, uint64_t data, uint8_t *code,
		    struct sdr_piece *d, struct sdr_piece *c);
int sdr_rel_code(const struct sdr_plan *p, struct sdr_code *c);
int sdr_rel_ready(struct sdr_rel *rel);
/* rel_plan.c */
int sdr_rel_plan(struct sdr_rel *rel, uint64_t bytes, uint32_t imm, struct sdr_plan *plan);
/* rel_send.c */
void sdr_writer_hear(struct sdr_rel *rel, const struct sdr_ctrl *c);
bool sdr_writer_progress(struct sdr_rel *rel, struct sdr_writer *w, bool tick);
void sdr_writers_skip(struct sdr_rel *rel);
void sdr_writer_failed(struct sdr_rel *rel, struct sdr_writer *w);
/* rel_recv.c */
void sdr_reader_hear(struct sdr_rel *rel, const struct sdr_ctrl *c);
bool sdr_reader_progress(struct sdr_rel *rel, struct sdr_reader *r);
void sdr_readers_skip(struct sdr_rel *rel);
void sdr_reader_failed(struct sdr_rel *rel, struct sdr_reader *r);

#endif
