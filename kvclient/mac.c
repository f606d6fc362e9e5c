/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * HMAC-SHA256 by OpenSSL's libcrypto, loaded when a job has a secret.
 *
 * HMAC_*() are OpenSSL 3's older way, and 1.1's only one: so one binary takes the libcrypto of
 * either. A copy of the algorithm in here would be ours to keep fast on each CPU, and would not be
 * the certified one where that is asked for.
 */
/* Their older way is meant, so nothing is to be said of it. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/backend.h"
#include "kvclient/dl.h"
#include "kvclient/mac.h"

static struct {
	__typeof__(OPENSSL_init_crypto) *init;
	__typeof__(EVP_sha256) *sha256;
	__typeof__(HMAC) *hmac;
	__typeof__(HMAC_CTX_new) *ctx_new;
	__typeof__(HMAC_CTX_free) *ctx_free;
	__typeof__(HMAC_Init_ex) *begin;
	__typeof__(HMAC_Update) *update;
	__typeof__(HMAC_Final) *final;
} crypto;

static const char *const kv_crypto_names[] = {
	"OPENSSL_init_crypto", "EVP_sha256",  "HMAC",	    "HMAC_CTX_new", "HMAC_CTX_free",
	"HMAC_Init_ex",	       "HMAC_Update", "HMAC_Final", NULL,
};

static_assert(sizeof(crypto) / sizeof(void *) + 1 == sizeof(kv_crypto_names) / sizeof(char *),
	      "one name a function");

struct kv_mac {
	HMAC_CTX *ctx; /* begins each text with the key already hashed */
};

static pthread_once_t crypto_once = PTHREAD_ONCE_INIT;
static int crypto_rc;

/* No cleanup at exit: our thread may still be at work then. */
static void kv_crypto_load(void)
{
	static const char *const sonames[] = { "libcrypto.so.3", "libcrypto.so.4",
					       "libcrypto.so.1.1", NULL };
	void *slots[sizeof(crypto) / sizeof(void *)];

	crypto_rc = kv_dl_load(sonames, kv_crypto_names, slots);
	if (crypto_rc)
		return;
	memcpy(&crypto, slots, sizeof(crypto));
	kv_fork_hold();
	crypto.init(OPENSSL_INIT_NO_ATEXIT, NULL);
	kv_fork_release();
}

int kv_mac_ready(struct kv *kv)
{
	pthread_once(&crypto_once, kv_crypto_load);
	return crypto_rc ? kv_fail(kv, -ELIBACC,
				   "install libcrypto.so.3 or libcrypto.so.1.1, which "
				   "SHIFT_SECRET_FILE needs")
			 : 0;
}

int kv_hmac(const void *secret, size_t n_secret, const void *text, size_t n_text,
	    uint8_t mac[KV_MAC_LEN])
{
	unsigned n = 0;
	bool made;

	kv_fork_hold();
	made = crypto.hmac(crypto.sha256(), secret, (int)n_secret, text, n_text, mac, &n);
	kv_fork_release();
	if (!made)
		return -EIO;
	return n == KV_MAC_LEN ? 0 : -EIO;
}

int kv_derive(const struct kv *kv, const char *purpose, uint8_t key[KV_MAC_LEN])
{
	if (!kv->n_secret)
		return -ENOKEY;
	return kv_hmac(kv->secret, kv->n_secret, purpose, strlen(purpose), key);
}

static int kv_mac_key(struct kv_mac *mac, const uint8_t key[KV_MAC_LEN])
{
	bool begun;

	kv_fork_hold();
	mac->ctx = crypto.ctx_new();
	begun = mac->ctx && crypto.begin(mac->ctx, key, KV_MAC_LEN, crypto.sha256(), NULL);
	kv_fork_release();
	return begun ? 0 : -EIO;
}

struct kv_mac *kv_mac_new(const uint8_t key[KV_MAC_LEN])
{
	struct kv_mac *mac = crypto.ctx_new ? calloc(1, sizeof(*mac)) : NULL;

	if (mac && kv_mac_key(mac, key)) {
		kv_mac_free(mac);
		return NULL;
	}
	return mac;
}

void kv_mac_free(struct kv_mac *mac)
{
	if (mac && mac->ctx)
		crypto.ctx_free(mac->ctx);
	free(mac);
}

int kv_mac_make(struct kv_mac *mac, const void *text, size_t n, uint8_t out[KV_MAC_LEN])
{
	unsigned length = 0;

	if (!crypto.begin(mac->ctx, NULL, 0, NULL, NULL) || !crypto.update(mac->ctx, text, n) ||
	    !crypto.final(mac->ctx, out, &length))
		return -EIO;
	return length == KV_MAC_LEN ? 0 : -EIO;
}

bool kv_mac_same(const uint8_t *a, const uint8_t *b, size_t n)
{
	uint8_t diff = 0;

	while (n--)
		diff |= *a++ ^ *b++;
	return !diff;
}
