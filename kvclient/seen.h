/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The newest value of each key that was read: an older one is refused. */
#ifndef KVCLIENT_SEEN_H
#define KVCLIENT_SEEN_H

#include <stdbool.h>
#include <stdint.h>

struct kv_seen;

/* True if no newer value of @key was seen; then this one is the newest. */
bool kv_seen_newest(struct kv_seen **seen, const char *key, uint64_t stamp);

#endif
