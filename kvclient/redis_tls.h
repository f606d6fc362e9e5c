/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* TLS on the connection to a Redis server. */
#ifndef KVCLIENT_REDIS_TLS_H
#define KVCLIENT_REDIS_TLS_H

#include <hiredis/hiredis.h>

struct kv;
struct kv_address;

/* Shakes hands on a fresh connection. 0, or -errno with a sentence in the handle. */
int kv_tls_start(struct kv *kv, redisContext *ctx, const struct kv_address *address,
		 unsigned timeout_ms);

#endif
