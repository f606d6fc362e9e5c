/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sockets, and the time that is left for a call. */
#ifndef KVCLIENT_NET_H
#define KVCLIENT_NET_H

#include <stdint.h>

struct kv;
struct kv_address;

/*
 * kv_net_connect() - a connected, non-blocking socket, or -errno with a sentence in the handle
 * kv_net_wait() - until one of @events or an error is there: poll()'s revents, or -errno
 */
int kv_net_connect(struct kv *kv, const struct kv_address *address, uint64_t deadline_ms);
int kv_net_wait(int fd, short events, uint64_t deadline_ms);

/* Time left until @deadline_ms on the monotonic clock, never negative. */
uint64_t kv_now_ms(void);
unsigned kv_left_ms(uint64_t deadline_ms);

#endif
