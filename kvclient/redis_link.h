/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A connection to one Redis server: commands out, replies in. Which server, its user decides. */
#ifndef KVCLIENT_REDIS_LINK_H
#define KVCLIENT_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kvclient/resp.h"
#include "kvclient/seal.h"
#include "kvclient/url.h"

struct kv;
struct kv_tls;

/* A reply is a value and its head at most; what a server sends beyond it is not kept. */
#define KV_REDIS_REPLY_MAX (2 * KV_SEALED_MAX)

struct kv_link {
	const struct kv_resp *resp;
	int fd;
	pid_t pid;	    /* process that connected */
	struct kv_tls *tls; /* NULL: the bytes go as they are */
	struct kv_reader *reader;
	char *out; /* bytes of commands; those from sent to end are not written yet */
	size_t sent, end, room;
	bool lost; /* whatever arrives now would answer the wrong command */
};

/*
 * kv_link_open() - connect, and authenticate where the address has a user or password
 * @password_file: for an address that names no password; NULL: none
 *
 * Returns 0, or -errno with a sentence in the handle.
 */
int kv_link_open(struct kv *kv, const struct kv_address *address, const char *password_file,
		 uint64_t deadline_ms, struct kv_link **out);
/* Releases a connection; NULL is allowed. In a child the parent keeps its own. */
void kv_link_close(struct kv_link *link);

/* Appends a command, which is written along with waiting for replies. */
int kv_link_append(struct kv *kv, struct kv_link *link, int argc, const char **argv,
		   const size_t *len);
/*
 * Waits for the next reply, error replies included; @max_elements: of an array, 0: none is
 * expected. After a failure the link is lost and can only be closed.
 */
int kv_link_next(struct kv *kv, struct kv_link *link, uint64_t deadline_ms, size_t max_elements,
		 struct kv_reply **out);
/* Does one command; @judge says what its reply means. */
int kv_link_call(struct kv *kv, struct kv_link *link, uint64_t deadline_ms, int argc,
		 const char **argv, const size_t *len,
		 int (*judge)(struct kv *kv, const struct kv_reply *reply));

/* A judge that takes any reply that is no error. */
int kv_redis_any_reply(struct kv *kv, const struct kv_reply *reply);
/* The -errno of an error reply, by its first word; -EIO if that word is unknown. */
int kv_redis_reply_error(const char *text);

#endif
