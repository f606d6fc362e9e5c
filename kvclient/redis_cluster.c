/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The servers of a Redis Cluster that this handle has been sent to, and the slots of keys that each
 * of them has. A server that fails is forgotten with its slots: the present connection tells who
 * has taken them over.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/check.h"
#include "kvclient/net.h"
#include "kvclient/redis.h"
#include "kvclient/redis_cluster.h"

#define SLOTS		 16384u
#define LEFT_ALONE_MS	 1000u
#define STAND_IN_TRY_MAX 8u

struct server {
	struct kv_place place;
	struct kv_link *link; /* NULL: none now */
	uint64_t retry_at_ms; /* the server is left alone until then */
	int failed_rc;
};

struct kv_cluster {
	uint8_t slot[SLOTS]; /* server of each slot */
	unsigned n;	     /* number of servers; server i is server[i - 1] */
	struct server *server[KV_CLUSTER_SERVERS];
};

/* CRC-16 with the polynomial 0x1021, first 0, as Redis Cluster's specification has it. */
static uint16_t crc16(const char *bytes, size_t n)
{
	uint16_t crc = 0;

	for (; n; n--, bytes++) {
		crc ^= (uint16_t)((uint8_t)*bytes << 8);
		for (int bit = 0; bit < 8; bit++)
			crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
	}
	return crc;
}

/* Only what stands between the first { and the next } counts, unless that is nothing. */
static unsigned slot_of(const char *key)
{
	const char *open = strchr(key, '{'), *end = open ? strchr(open, '}') : NULL;

	if (end && end > open + 1)
		return crc16(open + 1, (size_t)(end - open - 1)) % SLOTS;
	return crc16(key, strlen(key)) % SLOTS;
}

static struct server *server_at(const struct kv_cluster *cluster, uint8_t server)
{
	KV_ASSERT(server && server <= cluster->n);
	return cluster->server[server - 1];
}

uint8_t kv_cluster_server(const struct kv_cluster *cluster, const char *key)
{
	return cluster ? cluster->slot[slot_of(key)] : 0;
}

/* ---- redirections --------------------------------------------------------------------------- */

/* Returns the number of the server at @place, or -errno. */
static int server_find(struct kv_redis *r, const struct kv_place *place)
{
	struct kv_cluster *cluster = r->cluster;
	struct server *server;
	unsigned i;

	for (i = 0; i < cluster->n; i++)
		if (!strcmp(cluster->server[i]->place.host, place->host) &&
		    !strcmp(cluster->server[i]->place.port, place->port))
			return (int)i + 1;
	if (i == KV_CLUSTER_SERVERS)
		return -EREMOTE;
	server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	server->place = *place;
	cluster->server[cluster->n++] = server;
	return (int)cluster->n;
}

/* "MOVED 3999 10.0.0.7:6381": a host that is left out is the one that says so. */
static int redirect_parse(const struct kv_redis *r, uint8_t from, const char *text, unsigned *slot,
			  struct kv_place *out)
{
	char host[KV_HOST_MAX], *colon;
	const char *said = host;
	int n = 0;

	if (sscanf(text, "%*5s %5u %253s%n", slot, host, &n) != 2 || !n || *slot >= SLOTS)
		return -EPROTO;
	colon = strrchr(host, ':');
	if (!colon)
		return -EPROTO;
	*colon = '\0';
	if (!*host || !strcmp(host, "?"))
		said = from ? server_at(r->cluster, from)->place.host : r->place.host;
	return kv_place_set(out, said, colon + 1) ? 0 : -EPROTO;
}

int kv_cluster_redirect(struct kv_redis *r, uint8_t from, const char *text, uint8_t *once)
{
	bool ask = !strncmp(text, "ASK ", 4);
	struct kv_place place;
	unsigned slot;
	int rc;

	*once = 0;
	if (!ask && strncmp(text, "MOVED ", 6) != 0)
		return 0;
	if (!r->cluster)
		r->cluster = calloc(1, sizeof(*r->cluster));
	if (!r->cluster)
		return -ENOMEM;
	rc = redirect_parse(r, from, text, &slot, &place);
	if (!rc)
		rc = server_find(r, &place);
	if (rc < 0)
		return rc;
	if (ask)
		*once = (uint8_t)rc;
	else
		r->cluster->slot[slot] = (uint8_t)rc;
	return 1;
}

/* ---- connections ---------------------------------------------------------------------------- */

/* True if it has failed so recently that nobody tries again. A server with a link has not. */
static bool server_left_alone(const struct server *s)
{
	return s->failed_rc && kv_now_ms() < s->retry_at_ms;
}

int kv_cluster_link(struct kv_redis *r, uint8_t server, uint64_t deadline_ms, struct kv_link **out)
{
	struct server *s = server_at(r->cluster, server);
	int rc;

	kv_redis_name_place(r, &s->place);
	if (server_left_alone(s))
		return kv_fail(&r->kv, s->failed_rc, "cannot connect: %s", strerror(-s->failed_rc));
	rc = s->link ? 0 : kv_redis_connect_at(r, &s->place, deadline_ms, &s->link);
	if (!rc)
		s->failed_rc = 0;
	*out = s->link;
	return rc;
}

void kv_cluster_drop(struct kv_redis *r, uint8_t server, int rc)
{
	struct server *s = server_at(r->cluster, server);

	kv_link_close(s->link);
	s->link = NULL;
	if (rc && !server_left_alone(s))
		s->retry_at_ms = kv_now_ms() + LEFT_ALONE_MS;
	s->failed_rc = rc;
	for (unsigned i = 0; i < SLOTS; i++)
		if (r->cluster->slot[i] == server)
			r->cluster->slot[i] = 0;
}

bool kv_cluster_stand_in(struct kv_redis *r)
{
	struct kv_cluster *cluster = r->cluster;
	uint64_t deadline_ms = kv_now_ms() + r->kv.timeout_ms / 2;
	unsigned i, n = cluster->n < STAND_IN_TRY_MAX ? cluster->n : STAND_IN_TRY_MAX;

	for (i = 0; i < n && !r->link; i++) {
		struct kv_place place = cluster->server[i]->place;
		unsigned share_ms = kv_left_ms(deadline_ms) / (n - i);

		if (!kv_redis_connect_at(r, &place, kv_now_ms() + share_ms, &r->link))
			r->place = place;
	}
	return r->link != NULL;
}

void kv_cluster_leave_parents(struct kv_cluster *cluster)
{
	for (unsigned i = 0; i < cluster->n; i++) {
		struct server *s = cluster->server[i];

		if (s->link && s->link->pid != getpid()) {
			kv_link_close(s->link);
			s->link = NULL;
		}
	}
}

void kv_cluster_free(struct kv_cluster *cluster)
{
	if (!cluster)
		return;
	for (unsigned i = 0; i < cluster->n; i++) {
		kv_link_close(cluster->server[i]->link);
		free(cluster->server[i]);
	}
	free(cluster);
}
