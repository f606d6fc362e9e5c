/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The server that a handle uses: chosen among the addresses, kept, and left for an earlier one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/check.h"
#include "kvclient/net.h"
#include "kvclient/redis.h"
#include "kvclient/redis_cluster.h"

void kv_redis_disconnect(struct kv_redis *r)
{
	kv_link_close(r->link);
	r->link = NULL;
}

void kv_redis_name_place(struct kv_redis *r, const struct kv_place *place)
{
	snprintf(r->kv.where, sizeof(r->kv.where), "redis at %.100s:%s", place->host, place->port);
}

void kv_redis_name(struct kv_redis *r)
{
	const struct kv_address *a = &r->address[r->at];

	if (a->transport == KV_TRANSPORT_UNIX)
		snprintf(r->kv.where, sizeof(r->kv.where), "redis at %.108s", a->path);
	else
		kv_redis_name_place(r, r->link ? &r->place : &a->place);
}

static int redis_open(struct kv_redis *r, const struct kv_address *address, uint64_t deadline_ms,
		      struct kv_link **out)
{
	int rc = kv_link_open(&r->kv, address, r->password_file, deadline_ms, out);

	if (!rc)
		r->kv.contacts++;
	return rc;
}

int kv_redis_connect_at(struct kv_redis *r, const struct kv_place *place, uint64_t deadline_ms,
			struct kv_link **out)
{
	struct kv_address address = r->address[r->at];
	int rc;

	if (address.transport == KV_TRANSPORT_UNIX)
		address.transport = KV_TRANSPORT_TCP;
	address.place = *place;
	kv_redis_name_place(r, place);
	rc = redis_open(r, &address, deadline_ms, out);
	explicit_bzero(&address, sizeof(address));
	return rc;
}

static int redis_connect_to(struct kv_redis *r, unsigned at, unsigned timeout_ms)
{
	uint64_t deadline_ms = kv_now_ms() + timeout_ms;
	const struct kv_address *address = &r->address[at];
	int rc = 0;

	KV_ASSERT(at < r->n_addresses && !r->link);
	r->at = at;
	r->leave = false;
	kv_redis_name(r);
	r->place = address->place;
	if (*address->master)
		rc = kv_sentinel_ask(r, address, deadline_ms, &r->place);
	if (rc)
		return rc;
	if (address->transport != KV_TRANSPORT_UNIX)
		return kv_redis_connect_at(r, &r->place, deadline_ms, &r->link);
	return redis_open(r, address, deadline_ms, &r->link);
}

int kv_redis_connect(struct kv_redis *r)
{
	uint64_t deadline_ms = kv_now_ms() + r->kv.timeout_ms / (r->cluster ? 2 : 1);
	unsigned i, first = r->first;
	int rc = -EINVAL;

	kv_redis_disconnect(r);
	r->first = 0;
	for (i = 0; i < r->n_addresses; i++) {
		rc = redis_connect_to(r, (first + i) % r->n_addresses,
				      kv_left_ms(deadline_ms) / (r->n_addresses - i));
		if (!rc)
			break;
	}
	if (rc && rc != -ELIBACC && r->cluster && kv_cluster_stand_in(r))
		rc = 0;
	r->home_at_ms = kv_now_ms() + r->kv.home_ms;
	return rc;
}

/* Sentinels all name the same master, so none of them is nearer to the job. */
static bool redis_is_home(const struct kv_redis *r)
{
	return !r->at || *r->address[r->at].master;
}

void kv_redis_go_home(struct kv_redis *r)
{
	struct kv_link *here = r->link;
	struct kv_place place = r->place;
	unsigned i, at = r->at;

	if (!here || redis_is_home(r) || kv_now_ms() < r->home_at_ms)
		return;
	for (i = 0; i < at; i++) {
		r->link = NULL;
		if (!redis_connect_to(r, i, r->kv.timeout_ms / r->n_addresses)) {
			kv_link_close(here);
			return;
		}
	}
	r->link = here;
	r->at = at;
	r->place = place;
	kv_redis_name(r);
	r->home_at_ms = kv_now_ms() + r->kv.home_ms;
}

void kv_redis_leave_parents(struct kv_redis *r)
{
	if (r->link && r->link->pid != getpid())
		kv_redis_disconnect(r);
	if (r->cluster)
		kv_cluster_leave_parents(r->cluster);
}
