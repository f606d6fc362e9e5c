/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The parts of each store: a handle, and its operations. Not for other modules. */
#ifndef KVCLIENT_BACKEND_H
#define KVCLIENT_BACKEND_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvclient/kv.h"

struct kv_seen;
struct kv_url;

#define KV_WHERE_MAX  160u
#define KV_SECRET_MAX 1024u

/* The store is checked for expired records at this many entries, and refuses more after it. */
#define KV_LMDB_MAX_ENTRIES 32768u
/* Two pages of 4 KiB an entry at worst, plus inner pages: the entry limit bites first. */
#define KV_LMDB_MAP_BYTES   (320ul << 20)
#define KV_LMDB_MAX_READERS 512u

/* Result of an operation as long as no answer is known; never seen by callers. */
#define KV_OP_OPEN (-EINPROGRESS)

struct kv_ops {
	int (*ping)(struct kv *kv);
	/* run: does those ops whose ret is KV_OP_OPEN */
	int (*run)(struct kv *kv, struct kv_op *ops, uint32_t n);
	void (*close)(struct kv *kv);
};

struct kv {
	const struct kv_ops *ops;
	unsigned timeout_ms;
	unsigned home_ms; /* how often users of a later address try the earlier ones */
	uint32_t contacts;
	void (*aside)(int *fd);
	char where[KV_WHERE_MAX];
	size_t n_secret; /* 0: values have no MAC */
	char secret[KV_SECRET_MAX];
	uint64_t stamp; /* stamp of the last value that was written */
	struct kv_seen *seen;
	int err_rc; /* the failure that err tells; 0: none yet in this call */
	char err[KV_ERR_MAX];
};

struct kv_lmdb_limits {
	size_t map_bytes;
	size_t max_entries;
};

/* Says why in the handle and returns @rc: "return kv_fail(kv, -EIO, ...)". */
int kv_fail(struct kv *kv, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/*
 * kv_fail() for one operation of a batch: the first failure of the highest rank keeps its
 * sentence.
 */
void kv_op_fail(struct kv *kv, struct kv_op *op, int rc, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

struct kv *kv_redis_new(const struct kv_url *url, const char *password_file);
struct kv *kv_lmdb_new(const struct kv_url *url, const struct kv_lmdb_limits *limits);

#endif
