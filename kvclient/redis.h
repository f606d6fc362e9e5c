/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The seam between redis.c, which does operations, and redis_conn.c, which keeps the connection. */
#ifndef KVCLIENT_REDIS_H
#define KVCLIENT_REDIS_H

#include <hiredis/hiredis.h>

#include "kvclient/backend.h"
#include "kvclient/url.h"

/*
 * How often users of a later address look for an earlier one: all programs of a job are to meet at
 * one address again.
 */
#define KV_HOME_MS 30000u

/* A handle, and its connection. */
struct kv_redis {
	struct kv kv;
	char *password_file;
	redisContext *ctx;
	bool unsent; /* hiredis holds commands that are not written yet */
	bool leave;  /* the server cannot serve us: the next connection begins behind it */
	pid_t pid;
	unsigned at; /* the address of ctx */
	unsigned first;
	uint64_t home_at_ms;
	unsigned n_failed; /* calls in a row */
	uint64_t retry_at_ms;
	int failed_rc;
	char failed[KV_ERR_MAX];
	unsigned n_addresses;
	struct kv_address address[];
};

/* The functions of hiredis that are used, in the order of kv_hiredis_names. */
struct kv_hiredis {
	__typeof__(redisConnectFd) *connect_fd;
	__typeof__(redisAppendCommandArgv) *append;
	__typeof__(redisBufferWrite) *write;
	__typeof__(redisBufferRead) *read;
	__typeof__(redisGetReplyFromReader) *parse;
	__typeof__(redisFree) *free;
	__typeof__(freeReplyObject) *free_reply;
};
extern struct kv_hiredis kv_hiredis;

/* Connects to any of the addresses, each with its share of the time. */
int kv_redis_connect(struct kv_redis *r);
void kv_redis_disconnect(struct kv_redis *r);
/* The present connection is kept unless an earlier address is there. */
void kv_redis_go_home(struct kv_redis *r);
/* The parent's connection would mix both processes' replies; this side only closes its copy. */
void kv_redis_leave_parents(struct kv_redis *r);
/* Names the present address in the handle. */
void kv_redis_name(struct kv_redis *r);

int kv_redis_append(struct kv_redis *r, int argc, const char **argv, const size_t *len);
/* Returns the next reply, error replies included. Any failure closes the connection. */
int kv_redis_next(struct kv_redis *r, uint64_t deadline_ms, redisReply **out);
/* Does one command on the present connection; @judge says what its reply means. */
int kv_redis_call(struct kv_redis *r, int argc, const char **argv, const size_t *len,
		  int (*judge)(struct kv_redis *r, const redisReply *reply));
/* A judge for kv_redis_call() that takes any reply that is no error. */
int kv_redis_any_reply(struct kv_redis *r, const redisReply *reply);
/* The -errno of an error reply, by its first word; -EIO if that word is unknown. */
int kv_redis_reply_error(const char *text);

#endif
