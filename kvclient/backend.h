/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the stores of this folder share; not for other modules. */
#ifndef KVCLIENT_BACKEND_H
#define KVCLIENT_BACKEND_H

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kvclient/kv.h"

/* Room behind a path for the names of the files beside it. */
#define KV_PATH_MAX  (PATH_MAX - 32)
#define KV_WHERE_MAX 160u
#define KV_HOST_MAX  254u

/* The store is checked for expired records at this many entries, and refuses more after it. */
#define KV_LMDB_MAX_ENTRIES 32768u
/* Two pages of 4 KiB an entry at worst, plus inner pages: the entry limit bites first. */
#define KV_LMDB_MAP_BYTES   (320ul << 20)
#define KV_LMDB_MAX_READERS 512u

enum kv_scheme {
	KV_SCHEME_REDIS,
	KV_SCHEME_LMDB,
	KV_SCHEME_LMDB_DEFAULT,
};

enum kv_transport {
	KV_TRANSPORT_TCP,
	KV_TRANSPORT_TLS,
	KV_TRANSPORT_UNIX,
};

#define KV_USER_MAX	   128u
#define KV_PASSWORD_MAX	   512u
#define KV_OPTION_PATH_MAX 256u
#define KV_SOCKET_PATH_MAX 108u
#define KV_ADDRESSES_MAX   8u
#define KV_URL_MAX	   4096u

/* One Redis server. Empty strings are what was not said. */
struct kv_address {
	enum kv_transport transport;
	char host[KV_HOST_MAX]; /* TCP, TLS */
	char port[6];
	char path[KV_SOCKET_PATH_MAX]; /* UNIX */
	unsigned db;
	char user[KV_USER_MAX];
	char password[KV_PASSWORD_MAX];
	char password_file[KV_OPTION_PATH_MAX];
	char ca[KV_OPTION_PATH_MAX], cert[KV_OPTION_PATH_MAX], key[KV_OPTION_PATH_MAX]; /* TLS */
};

struct kv_url {
	enum kv_scheme scheme;
	unsigned n_addresses;
	struct kv_address address[KV_ADDRESSES_MAX]; /* in the order in which they are tried */
	char path[KV_PATH_MAX];			     /* LMDB */
};

/* What an operation returns as long as no answer is known; never seen by callers. */
#define KV_OP_OPEN (-EINPROGRESS)

#define KV_SECRET_MAX 1024u
#define KV_SEALED_MAX (12u + KV_VALUE_MAX + KV_MAC_LEN)

struct kv_seen;

struct kv_ops {
	int (*ping)(struct kv *kv);
	int (*run)(struct kv *kv, struct kv_op *ops, uint32_t n); /* those that are KV_OP_OPEN */
	void (*close)(struct kv *kv);
};

struct kv {
	const struct kv_ops *ops;
	unsigned timeout_ms;
	unsigned home_ms; /* who uses a later address looks after the earlier ones so often */
	uint32_t contacts;
	char where[KV_WHERE_MAX];
	size_t n_secret; /* 0: values have no MAC */
	char secret[KV_SECRET_MAX];
	uint64_t stamp; /* of the last value that was written */
	struct kv_seen *seen;
	int err_rc; /* what err is about; 0: nothing yet in this call */
	char err[KV_ERR_MAX];
};

struct kv_lmdb_limits {
	size_t map_bytes;
	size_t max_entries;
};

/* Says why in the handle and returns @rc: "return kv_fail(kv, -EIO, ...)". */
int kv_fail(struct kv *kv, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same for one operation of a batch: the first that is worth a sentence keeps it. */
void kv_op_fail(struct kv *kv, struct kv_op *op, int rc, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Reads the job's secret, if there is one. */
int kv_seal_open(struct kv *kv, const char *secret_file);

/* A put's value as it is stored. */
int kv_seal(struct kv *kv, struct kv_op *op, uint8_t out[KV_SEALED_MAX], size_t *len);

/* A get's answer as it was found: checked and copied, or refused. */
void kv_op_take(struct kv *kv, struct kv_op *op, const void *val, size_t len);

/* kv_mac_ready() - 0, or that libcrypto is missing; kv_hmac() needs it to have been called. */
int kv_mac_ready(struct kv *kv);
int kv_hmac(const void *secret, size_t n_secret, const void *text, size_t n_text,
	    uint8_t mac[KV_MAC_LEN]);

/* Whether no newer value of @key was seen; then this one is the newest. */
bool kv_seen_newest(struct kv_seen **seen, const char *key, uint64_t stamp);

int kv_url_parse(const char *url, struct kv_url *out, char *err, size_t errlen);

struct kv *kv_redis_new(const struct kv_url *url, const char *password_file);
struct kv *kv_lmdb_new(const struct kv_url *url, const struct kv_lmdb_limits *limits);

/*
 * kv_net_connect() - a connected, non-blocking socket, or -errno with a sentence in the handle
 * kv_net_wait() - until one of @events or an error is there: poll()'s revents, or -errno
 */
int kv_net_connect(struct kv *kv, const struct kv_address *address, uint64_t deadline_ms);
int kv_net_wait(int fd, short events, uint64_t deadline_ms);

/* Time left until @deadline_ms on the monotonic clock, never negative. */
uint64_t kv_now_ms(void);
unsigned kv_left_ms(uint64_t deadline_ms);

/*
 * kv_files_prepare_gate(), kv_files_prepare() - make sure that a store's files are there and ours
 *
 * The first makes the gate file; the second, called inside the gate, the lock file (its space
 * allocated) and the data file. All must be regular files of this user that nobody else can open,
 * in a directory where nobody else can exchange them. 0, or -errno with a sentence in the handle.
 */
int kv_files_prepare_gate(struct kv *kv, const char *path);
int kv_files_prepare(struct kv *kv, const char *path, size_t lock_bytes);

/* This user's own file on this machine, and the directory for it: made if needed, and checked. */
void kv_files_default_path(char *path, size_t cap);
int kv_files_default_make(struct kv *kv);

/*
 * kv_files_read_secret() - the first line of a file that only this user can read
 *
 * Returns its length without the end of the line, at least 1 and under @cap, or -errno with a
 * sentence in the handle: -EACCES for a file of somebody else or one that others may open.
 */
ssize_t kv_files_read_secret(struct kv *kv, const char *path, char *buf, size_t cap);

/* Whether rediss:// can work: SHIFT was built with hiredis' SSL part. */
bool kv_tls_known(void);

/*
 * kv_dl_load() - load a client library apart from the application's symbols
 * @names: NULL-terminated; the addresses go to @slots in the same order
 *
 * Returns 0, -ENOENT (no such library here) or -ENOSYS (a function is missing).
 */
int kv_dl_load(const char *soname, const char *const *names, void **slots);

/* For libraries that use another one without naming it: makes the loaded @soname seen by all. */
int kv_dl_share(const char *soname);

#endif
