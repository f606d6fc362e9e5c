/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SmallBank over one-sided requests, as FORD and Motor run transactions: servers have records, and only
 * memory; clients lock, read, validate, write and unlock them by batches of CAS, READ and WRITE. Plain
 * verbs; nothing here knows of SHIFT.
 */
#ifndef BENCH_TXN_TXN_H
#define BENCH_TXN_TXN_H

#include "tests/lib/pair.h"

#include <stdio.h>

enum {
	SERVERS_MAX = 3,
	WORKERS_MAX = 16, /* of one client, or of all at one server */
	SET_MAX = 3,	  /* records of a transaction */
	BATCH_MAX = 2 * SET_MAX + 1,
	FREE = 0 /* of a lock */
};

#define START_VALUE INT64_C(100000) /* of every account, in both tables */

/* At a server. A lock holds its owner's value. Memory is little endian, as checks read it. */
struct record {
	uint64_t lock, version;
	int64_t value;
	uint64_t key;
};

/* The version comes with its value, in one WRITE. */
enum { RECORD_BODY = sizeof(uint64_t) + sizeof(int64_t) };

/* What a transaction does, written to every replica before any record. */
struct log_entry {
	uint64_t attempt, n;
	struct {
		uint64_t record, version;
		int64_t value;
	} write[SET_MAX];
};

/* Of one server's memory: records, then a log entry for each worker. */
struct shape {
	uint32_t records, servers;
	uint64_t log_at, bytes;
};

/* A record that a transaction reads, and writes if it has locked it. */
struct access {
	uint32_t record;
	bool write, locked;
	struct record seen;
	int64_t value; /* the new one */
};

enum type { AMALGAMATE, BALANCE, DEPOSIT_CHECKING, SEND_PAYMENT, TRANSACT_SAVINGS, WRITE_CHECK };

struct txn {
	enum type type;
	int64_t amount;
	int n;
	struct access set[SET_MAX];
};

/* What became of one: DOUBTFUL ones ended with a connection; what of them is in memory tells their phase. */
enum outcome { COMMITTED, ABORTED, DOUBTFUL };
enum phase { LOCKING, RELEASING, REPLICATING, COMMITTING };

struct batch {
	struct ibv_send_wr wr[BATCH_MAX];
	struct ibv_sge sge[BATCH_MAX];
	int n;
	bool atomics;
};

struct place {
	uint64_t addr;
	uint32_t rkey;
};

struct link {
	struct conn conn;
	struct place there;
	struct batch batch;
};

struct worker {
	uint32_t id; /* of all workers of all clients, from 1 */
	bool unique; /* each attempt locks with a value of its own */
	struct shape shape;
	struct link link[SERVERS_MAX];
	uint64_t random, attempt;
	enum phase phase;
	struct txn txn;
	uint64_t committed, aborted, ended_atomics;
	enum ibv_wc_status status; /* of the request that ended it */
	int journal;
};

struct shape shape_of(uint32_t accounts, uint32_t servers);
uint64_t record_at(uint32_t record);
int server_of(const struct worker *w, uint32_t record); /* that has the lock */

/* post.c: requests for each server, posted together; batches_run() waits for all. false: one failed. */
void batch_cas(struct worker *w, int server, void *old, uint64_t at, uint64_t expect,
	       uint64_t value);
void batch_read(struct worker *w, int server, void *into, uint64_t at, uint32_t len);
void batch_write(struct worker *w, int server, const void *from, uint64_t at, uint32_t len);
bool batches_run(struct worker *w);

/* commit.c */
enum outcome txn_run(struct worker *w);

/* smallbank.c */
uint64_t worker_random(struct worker *w, uint64_t below);
void txn_draw(struct worker *w);
bool txn_compute(struct txn *txn); /* new values; false: the account has too little */

/* journal.c: a file of fixed entries, which shiftlab/smallbank.py reads */
void journal_open(struct worker *w, const char *path);
void journal_note(struct worker *w, enum outcome outcome);
void journal_close(struct worker *w);

#endif
