/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* HMAC-SHA256 by OpenSSL's libcrypto, loaded when a job has a secret. */
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
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
	__typeof__(EVP_MAC_fetch) *fetch;
	__typeof__(EVP_MAC_CTX_new) *ctx_new;
	__typeof__(EVP_MAC_CTX_free) *ctx_free;
	__typeof__(EVP_MAC_init) *begin;
	__typeof__(EVP_MAC_update) *update;
	__typeof__(EVP_MAC_final) *final;
} crypto;

static const char *const kv_crypto_names[] = {
	"OPENSSL_init_crypto", "EVP_sha256",   "HMAC",		 "EVP_MAC_fetch", "EVP_MAC_CTX_new",
	"EVP_MAC_CTX_free",    "EVP_MAC_init", "EVP_MAC_update", "EVP_MAC_final", NULL,
};

struct kv_mac {
	EVP_MAC_CTX *ctx; /* begins each text with the key already hashed */
};

static pthread_once_t crypto_once = PTHREAD_ONCE_INIT;
static int crypto_rc;
static EVP_MAC *crypto_mac; /* NULL: libcrypto has no HMAC to prepare */

/* No cleanup at exit: our thread may still be at work then. */
static void kv_crypto_load(void)
{
	void *slots[sizeof(crypto) / sizeof(void *)];

	crypto_rc = kv_dl_load(KV_CRYPTO_SONAME, kv_crypto_names, slots);
	if (crypto_rc)
		return;
	memcpy(&crypto, slots, sizeof(crypto));
	kv_fork_hold();
	crypto.init(OPENSSL_INIT_NO_ATEXIT, NULL);
	crypto_mac = crypto.fetch(NULL, OSSL_MAC_NAME_HMAC, NULL);
	kv_fork_release();
}

int kv_mac_ready(struct kv *kv)
{
	pthread_once(&crypto_once, kv_crypto_load);
	return crypto_rc ? kv_fail(kv, -ELIBACC, "install %s, which SHIFT_SECRET_FILE needs",
				   KV_CRYPTO_SONAME)
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
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {
		{ OSSL_MAC_PARAM_DIGEST, OSSL_PARAM_UTF8_STRING, digest, sizeof(digest) - 1,
		  OSSL_PARAM_UNMODIFIED },
		{ NULL, 0, NULL, 0, 0 },
	};

	mac->ctx = crypto.ctx_new(crypto_mac);
	if (!mac->ctx)
		return -ENOMEM;
	return crypto.begin(mac->ctx, key, KV_MAC_LEN, params) ? 0 : -EIO;
}

struct kv_mac *kv_mac_new(const uint8_t key[KV_MAC_LEN])
{
	struct kv_mac *mac = crypto_mac ? calloc(1, sizeof(*mac)) : NULL;

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
	size_t length = 0;

	if (!crypto.begin(mac->ctx, NULL, 0, NULL) || !crypto.update(mac->ctx, text, n) ||
	    !crypto.final(mac->ctx, out, &length, KV_MAC_LEN))
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
