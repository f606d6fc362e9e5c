/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Redis Sentinel: processes that watch a master and its replicas, agree on who is the master, and
 * are asked for it before each connection. The answer is an array of host and port.
 */
#include <errno.h>
#include <string.h>

#include "kvclient/redis.h"

/* A Sentinel that has the master writes its address; one that has not, no array. */
static int place_take(struct kv *kv, const char *master, const struct kv_reply *reply,
		      struct kv_place *out)
{
	const struct kv_reply *host = reply->element[0], *port = reply->element[1];

	if (reply->type == KV_REPLY_ERROR)
		return kv_redis_any_reply(kv, reply);
	if (reply->type == KV_REPLY_NIL)
		return kv_fail(kv, -ENOENT, "this Sentinel knows no master \"%s\"", master);
	if (reply->type != KV_REPLY_ARRAY || !host || !port || host->type != KV_REPLY_STRING ||
	    port->type != KV_REPLY_STRING || !kv_place_set(out, host->text, port->text))
		return kv_fail(kv, -EPROTO, "this is no Sentinel's answer");
	return 0;
}

/* A Sentinel has a password of its own, if any; the address' user and password are the master's. */
static struct kv_address sentinel_address(const struct kv_address *address)
{
	struct kv_address sentinel = *address;

	explicit_bzero(sentinel.password, sizeof(sentinel.password));
	sentinel.user[0] = '\0';
	sentinel.db = 0;
	strcpy(sentinel.password_file, address->sentinel_password_file);
	return sentinel;
}

int kv_sentinel_ask(struct kv_redis *r, const struct kv_address *address, uint64_t deadline_ms,
		    struct kv_place *out)
{
	const char *argv[] = { "SENTINEL", "GET-MASTER-ADDR-BY-NAME", address->master };
	const size_t len[] = { strlen(argv[0]), strlen(argv[1]), strlen(argv[2]) };
	const struct kv_address sentinel = sentinel_address(address);
	struct kv_reply *reply;
	struct kv_link *link;
	int rc;

	rc = kv_link_open(&r->kv, &sentinel, NULL, deadline_ms, &link);
	if (rc)
		return rc;
	rc = kv_link_append(&r->kv, link, 3, argv, len);
	if (!rc)
		rc = kv_link_next(&r->kv, link, deadline_ms, 2, &reply);
	if (!rc) {
		rc = place_take(&r->kv, address->master, reply, out);
		link->resp->free_reply(reply);
	}
	kv_link_close(link);
	return rc;
}
