/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the tests of kvclient/ share: a directory of their own, and real Redis servers. */
#ifndef TESTS_LIB_KV_SUPPORT_H
#define TESTS_LIB_KV_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "kvclient/kv.h"

#define KV_TEST_TIMEOUT_MS 5000u
#define KV_TEST_LEASE_MS   60000u

struct redis_server {
	pid_t pid;
	int port;
	char url[64];
};

/* A new empty directory, and its removal with all files in it (one level). */
char *kv_test_dir(void);
void kv_test_dir_remove(char *dir);

/* A port of the loopback interface that nobody listens on just now. */
int kv_test_free_port(void);

/*
 * Starts redis-server on @port (0: a free one) and waits until it answers; it ends with this
 * process. @password may be NULL.
 */
void redis_server_start(struct redis_server *s, const char *dir, int port, const char *password);
/* The same with more options of redis-server; @more ends with NULL. */
void redis_server_start_with(struct redis_server *s, const char *dir, int port,
			     const char *const *more);
/* A Redis Sentinel, with @conf as its configuration (a file that it writes itself, too). */
void redis_sentinel_start(struct redis_server *s, const char *dir, const char *conf);
void redis_server_kill(struct redis_server *s);

/*
 * Sends a command, in words with blanks between them, and reads the first @cap - 1 bytes of what
 * the server says, up to its first pause.
 */
void redis_server_say(const struct redis_server *s, const char *command, char *said, size_t cap);
/* Repeats a command until what the server says has @want in it; fails after a minute. */
void redis_server_await(const struct redis_server *s, const char *command, const char *want);

/* Batches of one operation; they return its result. */
int kv_put(struct kv *kv, const char *key, const void *val, size_t len, unsigned lease_ms);
int kv_get(struct kv *kv, const char *key, void *buf, size_t cap, size_t *len);
int kv_del(struct kv *kv, const char *key);

/* Reaps @pid, which must have ended with exit status 0. */
void kv_test_join(pid_t pid);

/* SHIFT_TEST_SEED replays a run; printed by whoever draws from it. */
unsigned kv_test_seed(void);

#endif
