/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* HMAC-SHA256 by libcrypto, which is loaded for it. kv.h has what others use of this. */
#ifndef KVCLIENT_MAC_H
#define KVCLIENT_MAC_H

#include <stddef.h>
#include <stdint.h>

#include "kvclient/kv.h"

/* kv_mac_ready() - 0, or that libcrypto is missing; kv_hmac() needs it to have been called. */
int kv_mac_ready(struct kv *kv);
int kv_hmac(const void *secret, size_t n_secret, const void *text, size_t n_text,
	    uint8_t mac[KV_MAC_LEN]);

#endif
