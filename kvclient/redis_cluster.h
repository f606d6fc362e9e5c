/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Redis Cluster: which of its servers has a key. Nothing is known at first: all keys are asked for
 * at the present connection (server 0), whose answers MOVED and ASK name the right server.
 */
#ifndef KVCLIENT_REDIS_CLUSTER_H
#define KVCLIENT_REDIS_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

struct kv_cluster;
struct kv_link;
struct kv_redis;

/* Other servers than the present one that a handle uses at once. */
#define KV_CLUSTER_SERVERS 254u

/* The server that has @key, as far as is known: 0, the present connection. */
uint8_t kv_cluster_server(const struct kv_cluster *cluster, const char *key);

/*
 * kv_cluster_redirect() - learn from an error reply which server to ask
 * @from: server that says so
 * @once: receives the server if this is for the next try of one command alone (ASK), else 0
 *
 * Returns 1; 0, the reply is no redirection; -EPROTO (malformed), -ENOMEM or -EREMOTE (too many
 * servers).
 */
int kv_cluster_redirect(struct kv_redis *r, uint8_t from, const char *text, uint8_t *once);

/*
 * The connection to a server other than 0, made if there is none. Returns -errno with a sentence in
 * the handle; within a second after a failure the same one at once.
 */
int kv_cluster_link(struct kv_redis *r, uint8_t server, uint64_t deadline_ms, struct kv_link **out);

/*
 * Closes the connection to @server, whose keys are asked for at server 0 again. @rc: why the server
 * is left alone for a second; 0: it is not.
 */
void kv_cluster_drop(struct kv_redis *r, uint8_t server, int rc);

/* Makes any server that is known the present one, when no address answers. True if one did. */
bool kv_cluster_stand_in(struct kv_redis *r);

/* Closes the connections that this process has inherited. */
void kv_cluster_leave_parents(struct kv_cluster *cluster);

void kv_cluster_free(struct kv_cluster *cluster);

#endif
