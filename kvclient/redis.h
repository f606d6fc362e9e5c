/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The seam between redis.c, which does operations, redis_conn.c, which chooses the server among the
 * addresses, and redis_cluster.c, which follows a cluster to its other servers.
 */
#ifndef KVCLIENT_REDIS_H
#define KVCLIENT_REDIS_H

#include "kvclient/backend.h"
#include "kvclient/redis_link.h"
#include "kvclient/url.h"

/*
 * How often users of a later address look for an earlier one: all programs of a job are to meet at
 * one address again.
 */
#define KV_HOME_MS 30000u

struct kv_cluster;

/* A handle, and its connection. */
struct kv_redis {
	struct kv kv;
	char *password_file;
	struct kv_link *link;	    /* present connection; NULL: none */
	struct kv_cluster *cluster; /* NULL: no server has redirected us yet */
	bool leave;  /* the server cannot serve us: the next connection begins behind it */
	unsigned at; /* the address of link */
	unsigned first;
	struct kv_place place; /* of link: differs from the address behind a Sentinel */
	uint64_t home_at_ms;
	unsigned n_failed; /* calls in a row */
	uint64_t retry_at_ms;
	int failed_rc;
	char failed[KV_ERR_MAX];
	unsigned n_addresses;
	struct kv_address address[];
};

/* Connects to any of the addresses, each with its share of the time. */
int kv_redis_connect(struct kv_redis *r);
void kv_redis_disconnect(struct kv_redis *r);
/* The present connection is kept unless an earlier address is there. */
void kv_redis_go_home(struct kv_redis *r);
/* The parent's connections would mix both processes' replies; this side only closes its copies. */
void kv_redis_leave_parents(struct kv_redis *r);
/* Names the present server in the handle. */
void kv_redis_name(struct kv_redis *r);
/* Names another one at @place for what is said of it; kv_redis_name() ends that. */
void kv_redis_name_place(struct kv_redis *r, const struct kv_place *place);
/* Connects to a server that others named: as the present address, but at @place. */
int kv_redis_connect_at(struct kv_redis *r, const struct kv_place *place, uint64_t deadline_ms,
			struct kv_link **out);

/*
 * The master that the Sentinel at @address names. Returns 0, or -errno with a sentence in the
 * handle.
 */
int kv_sentinel_ask(struct kv_redis *r, const struct kv_address *address, uint64_t deadline_ms,
		    struct kv_place *out);

#endif
