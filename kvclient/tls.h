/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* TLS on a connected socket, by the installed OpenSSL (1.1.1 or later). */
#ifndef KVCLIENT_TLS_H
#define KVCLIENT_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kv;
struct kv_address;
struct kv_tls;

/*
 * kv_tls_new() - shake hands as @address wants it, until @deadline_ms at the latest
 *
 * The server's certificate must be valid, and name the host of the address. @fd stays the
 * caller's. Returns 0, or -errno with a sentence in the handle.
 */
int kv_tls_new(struct kv *kv, const struct kv_address *address, int fd, uint64_t deadline_ms,
	       struct kv_tls **out);
void kv_tls_free(struct kv_tls *tls);

/*
 * kv_tls_read(), kv_tls_write() - as many bytes as go without waiting
 *
 * Returns their number; 0, the server has closed the connection (read); -EAGAIN, when
 * kv_tls_events() is to be waited for; or another -errno. A write that had -EAGAIN is repeated
 * with the same bytes.
 */
ssize_t kv_tls_read(struct kv_tls *tls, void *bytes, size_t n);
ssize_t kv_tls_write(struct kv_tls *tls, const void *bytes, size_t n);

/* The events of poll() that the last call of this connection waits for. */
short kv_tls_events(const struct kv_tls *tls);

/* True if bytes were read from the socket that kv_tls_read() has not given away. */
bool kv_tls_pending(const struct kv_tls *tls);

#endif
