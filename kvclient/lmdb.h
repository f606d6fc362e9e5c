/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The seam between lmdb.c, which reads and writes records, and lmdb_store.c, which opens the file.
 */
#ifndef KVCLIENT_LMDB_H
#define KVCLIENT_LMDB_H

#include <lmdb.h>
#include <sys/types.h>

#include "kvclient/backend.h"
#include "kvclient/url.h"

#define KV_BOOT_ID_LEN 36u

/* The functions of LMDB that are used, in the order of kv_mdb_names. */
struct kv_mdb {
	__typeof__(mdb_env_create) *env_create;
	__typeof__(mdb_env_open) *env_open;
	__typeof__(mdb_env_close) *env_close;
	__typeof__(mdb_env_set_mapsize) *env_set_mapsize;
	__typeof__(mdb_env_set_maxreaders) *env_set_maxreaders;
	__typeof__(mdb_env_get_fd) *env_get_fd;
	__typeof__(mdb_txn_begin) *txn_begin;
	__typeof__(mdb_txn_commit) *txn_commit;
	__typeof__(mdb_txn_abort) *txn_abort;
	__typeof__(mdb_dbi_open) *dbi_open;
	__typeof__(mdb_stat) *stat;
	__typeof__(mdb_get) *get;
	__typeof__(mdb_put) *put;
	__typeof__(mdb_del) *del;
	__typeof__(mdb_cursor_open) *cursor_open;
	__typeof__(mdb_cursor_get) *cursor_get;
	__typeof__(mdb_cursor_del) *cursor_del;
	__typeof__(mdb_cursor_close) *cursor_close;
	__typeof__(mdb_reader_check) *reader_check;
	__typeof__(mdb_strerror) *strerror;
};
extern struct kv_mdb kv_mdb;

/* An open file of this process. Guarded by stores_lock. */
struct kv_store {
	struct kv_store *next;
	MDB_env *env;
	MDB_dbi dbi;
	int gate_fd;
	unsigned refs;
	bool shut; /* env and gate are closed; freed with the last handle */
	pid_t pid;
	dev_t dev;
	ino_t ino;
	char boot_id[KV_BOOT_ID_LEN];
};

/* A handle. */
struct kv_lmdb {
	struct kv kv;
	bool is_default;
	struct kv_lmdb_limits limits;
	struct kv_store *store;
	char path[KV_PATH_MAX];
};

/* Opens the file if needed, and takes the gate: 0, or -errno with a sentence in the handle. */
int kv_lmdb_enter(struct kv_lmdb *l);
/* @rc: LMDB's. Whatever is not an everyday answer makes the next call open the file anew. */
void kv_lmdb_leave(struct kv_lmdb *l, int rc);
/* The handle gives its store back, which ends with the last one. */
void kv_lmdb_release(struct kv_lmdb *l);
/* LMDB's code as -errno. */
int kv_lmdb_errno(int rc);

#endif
