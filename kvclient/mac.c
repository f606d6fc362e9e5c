/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* HMAC-SHA256 by OpenSSL's libcrypto, loaded when a job has a secret. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <string.h>

#include "kvclient/backend.h"

static struct {
	__typeof__(OPENSSL_init_crypto) *init;
	__typeof__(EVP_sha256) *sha256;
	__typeof__(HMAC) *hmac;
} crypto;

static const char *const kv_crypto_names[] = {
	"OPENSSL_init_crypto",
	"EVP_sha256",
	"HMAC",
	NULL,
};

static pthread_once_t crypto_once = PTHREAD_ONCE_INIT;
static int crypto_rc;

/* No cleanup at exit: our thread may still be at work then. */
static void kv_crypto_load(void)
{
	void *slots[sizeof(crypto) / sizeof(void *)];

	crypto_rc = kv_dl_load(KV_CRYPTO_SONAME, kv_crypto_names, slots);
	if (crypto_rc)
		return;
	memcpy(&crypto, slots, sizeof(crypto));
	crypto.init(OPENSSL_INIT_NO_ATEXIT, NULL);
}

int kv_mac_ready(struct kv *kv)
{
	pthread_once(&crypto_once, kv_crypto_load);
	return crypto_rc ? kv_fail(kv, -ELIBACC, "install %s, which SHIFT_SECRET_FILE needs",
				   KV_CRYPTO_SONAME)
			 : 0;
}

int kv_mac(const void *secret, size_t n_secret, const void *text, size_t n_text,
	   uint8_t mac[KV_MAC_LEN])
{
	unsigned n = 0;

	if (!crypto.hmac(crypto.sha256(), secret, (int)n_secret, text, n_text, mac, &n))
		return -EIO;
	return n == KV_MAC_LEN ? 0 : -EIO;
}
