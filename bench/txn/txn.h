/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transactions over one-sided requests, as FORD and Motor run them. Servers have records, and only
 * memory; clients lock, read, validate, write and unlock them by batches of CAS, READ and WRITE.
 * Plain verbs; nothing here knows of SHIFT. A workload gives them their content: SmallBank,
 * TPC-C's two.
 */
#ifndef BENCH_TXN_TXN_H
#define BENCH_TXN_TXN_H

#include "include/shift/shift_uid.h"
#include "tests/lib/pair.h"

#include <assert.h>
#include <stdio.h>

enum {
	SERVERS_MAX = 3,
	WORKERS_MAX = 16,	 /* workers of one client, or of all clients at one server */
	FIELDS = 5,		 /* fields of a record */
	LINES_MAX = 10,		 /* lines of a row */
	SET_MAX = 3 + LINES_MAX, /* records of a transaction */
	BATCH_MAX = 2 * SET_MAX + 2,
	TYPES_MAX = 6, /* types of transactions of one workload */
	FREE = 0       /* lock that nobody has */
};

static_assert((int)BATCH_MAX <= (int)DEPTH, "a batch fits into the queue");

/*
 * A record at a server. A lock holds its owner's value. Memory is little endian, as checks read
 * it.
 */
struct record {
	uint64_t lock, version;
	int64_t value[FIELDS];
	uint64_t key;
};

/* The version comes with its values, in one WRITE. */
struct body {
	uint64_t version;
	int64_t value[FIELDS];
};

/*
 * A row that a transaction adds, in a place of its own. number: from 1; by: worker << 48 |
 * attempt.
 */
struct row {
	uint64_t number, by, record, n;
	int64_t amount;
	uint64_t line[LINES_MAX];
};

/* The acts of a transaction, written to every replica before any record. */
struct log_entry {
	uint64_t attempt, n;
	struct {
		uint64_t record;
		struct body body;
	} write[SET_MAX];
};

struct worker;
struct workload;

/* The shape of one server's memory: records, rows, then a log entry for each worker. */
struct shape {
	const struct workload *workload;
	uint32_t records, rows, rows_of_blocks, servers;
	uint64_t rows_at, log_at, bytes;
};

/* A record that a transaction reads, and writes if it has locked it. */
struct access {
	uint32_t record;
	bool write, locked;
	struct record seen;
	int64_t value[FIELDS]; /* the new ones */
};

struct txn {
	uint8_t type; /* of its workload's */
	bool doomed;  /* the transaction will find that it must not commit */
	int n;
	struct access set[SET_MAX];
	/* index of the row, at the server of the first record and at the replicas */
	uint32_t row_at;
	struct row row; /* number 0: no row is added */
};

/*
 * A workload. Records come in blocks, each with its locks at one server. draw: the next
 * transaction of a worker; compute: new values from the old ones, and the row; false: the
 * transaction takes all back.
 */
struct workload {
	const char *name;
	uint32_t block, rows_of_block, rows_of_worker;
	void (*start)(uint32_t record, int64_t value[FIELDS]);
	void (*draw)(struct worker *w);
	bool (*compute)(struct worker *w);
};

extern const struct workload smallbank, tpcc;

/*
 * The outcome of a transaction. DOUBTFUL ones ended with a connection; their traces in memory tell
 * their phase.
 */
enum outcome { COMMITTED, ABORTED, DOUBTFUL };
enum phase { LOCKING, RELEASING, REPLICATING, COMMITTING };

struct batch {
	struct ibv_send_wr wr[BATCH_MAX];
	struct ibv_sge sge[BATCH_MAX];
	int n;
	bool atomics;
};

struct place {
	uint64_t addr,
		uids; /* the table; records of UIDs, under the same key's protection domain */
	uint32_t rkey, uids_rkey;
};

struct link {
	struct conn conn;
	struct place there;
	struct batch batch;
	/* locks by UIDs: a connection for these alone */
	struct conn uid_conn;
	struct shift_uid *uid;
};

struct worker {
	uint32_t id; /* number among the workers of all clients, from 1 */
	bool unique; /* each attempt locks with a value of its own */
	bool by_uid; /* locks are taken by shift_uid_cas() */
	struct shape shape;
	struct link link[SERVERS_MAX];
	uint64_t random, attempt;
	enum phase phase;
	struct txn txn;
	uint64_t committed[TYPES_MAX], aborted, ended_atomics;
	enum ibv_wc_status status; /* status of the request that ended the worker */
	int journal;
};

/* Computes the shape for blocks of records; workers: those of all clients. */
struct shape shape_of(const struct workload *workload, uint32_t blocks, uint32_t workers,
		      uint32_t servers);
uint64_t txn_record_at(uint32_t record);
int server_of(const struct worker *w, uint32_t record); /* server that has the lock */
uint64_t attempt_of(const struct worker *w);		/* one number for worker and attempt */
uint64_t lock_value(const struct worker *w);

/*
 * post.c: requests for each server, posted together; batches_run() waits for all. false: one
 * failed.
 */
void batch_cas(struct worker *w, int server, void *old, uint64_t at, uint64_t expect,
	       uint64_t value);
void batch_read(struct worker *w, int server, void *into, uint64_t at, uint32_t len);
void batch_write(struct worker *w, int server, const void *from, uint64_t at, uint32_t len);
bool batches_run(struct worker *w);

/* commit.c */
void txn_reach(struct txn *txn, uint32_t record, bool write);
enum outcome txn_run(struct worker *w);

/* random.c: a worker's own sequence, from the seed of the run */
uint64_t worker_random(struct worker *w, uint64_t below);
bool worker_chance(struct worker *w, uint32_t percent);

/* journal.c: a file of fixed entries, which shiftlab/books.py reads */
void journal_open(struct worker *w, const char *path);
void journal_note(struct worker *w, enum outcome outcome);
void journal_close(struct worker *w);

#endif
