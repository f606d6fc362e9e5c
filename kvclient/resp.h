/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RESP, the protocol of Redis: commands to bytes, bytes to replies. No socket is known here.
 *
 * hiredis does the work, in libshift-redis.so (resp/), which is loaded for the first redis://
 * address and carries its own copy of hiredis. So neither the soname nor a struct of the build
 * machine's hiredis is in any other file of SHIFT. A program that must be one file links that
 * part instead (kvclient_resp).
 */
#ifndef KVCLIENT_RESP_H
#define KVCLIENT_RESP_H

#include <stddef.h>
#include <stdint.h>

#define KV_RESP_LIBRARY "libshift-redis.so"

/* Any change of the structs below raises it: a program may have loaded SHIFT before an upgrade. */
#define KV_RESP_VERSION 1u

/* An array of more elements, or of arrays, is refused. */
#define KV_REPLY_ELEMENTS 2u

enum kv_reply_type {
	KV_REPLY_STRING,
	KV_REPLY_STATUS,
	KV_REPLY_ERROR,
	KV_REPLY_INTEGER,
	KV_REPLY_NIL,
	KV_REPLY_ARRAY,
};

/* A reply. Owned by the reader's caller, who releases it by free_reply(). */
struct kv_reply {
	enum kv_reply_type type;
	size_t len; /* number of bytes in text, or of elements */
	struct kv_reply *element[KV_REPLY_ELEMENTS];
	char text[]; /* bytes of a string, status or error, and a 0 */
};

struct kv_reader;

/* Functions of libshift-redis.so. One thread at a time uses a reader. */
struct kv_resp {
	uint32_t version; /* KV_RESP_VERSION; it stays the first member */
	/* The bytes of a command, which free_command() releases; NULL: no memory. */
	char *(*command)(int argc, const char **argv, const size_t *len, size_t *bytes);
	void (*free_command)(char *command);
	/* A reader of one connection's replies; NULL: no memory. */
	struct kv_reader *(*open)(void);
	void (*close)(struct kv_reader *reader);
	/* Takes over what was read from the connection: 0 or -ENOMEM. */
	int (*feed)(struct kv_reader *reader, const char *bytes, size_t n);
	/*
	 * The next reply: 1; 0, more bytes are needed; -EPROTO, no server of Redis sends this; or
	 * -ENOMEM. A reply that @max_bytes do not hold is -EPROTO, and so is an array, unless
	 * @max_elements allow it. After a failure the reader can only be closed.
	 */
	int (*next)(struct kv_reader *reader, size_t max_bytes, size_t max_elements,
		    struct kv_reply **out);
	void (*free_reply)(struct kv_reply *reply);
};

/* The symbol of libshift-redis.so, and of the part that a program may link instead. */
extern const struct kv_resp shift_redis_resp;

struct kv;

/* Loads the library at the first call. Returns NULL with a sentence in the handle. */
const struct kv_resp *kv_resp(struct kv *kv);

#endif
