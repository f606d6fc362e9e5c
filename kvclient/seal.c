/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The frame around every value in a store, and the checks before a value is believed.
 *
 *	"SK1", 'P' or 'M' | stamp, 8 bytes | value | with M: HMAC-SHA256, 32 bytes
 *
 * A value steers where memory keys are used. With a job secret it counts only if the MAC over its
 * key, stamp and bytes is right: nobody without the secret can write one, or move one to another
 * key. The stamp is the time of the write and rises with each; a reader remembers the newest of
 * each key and refuses older ones, so a value that was recorded cannot replace its successor. A
 * reader that never saw the successor cannot tell: docs/security.md says what that is worth.
 */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "kvclient/backend.h"
#include "kvclient/check.h"
#include "kvclient/files.h"
#include "kvclient/mac.h"
#include "kvclient/seal.h"
#include "kvclient/seen.h"

#define KV_SECRET_MIN 16u

struct kv_seal_head {
	char magic[2];
	char version;
	char kind;
	uint8_t stamp[8];
};

static_assert(sizeof(struct kv_seal_head) + KV_MAC_LEN + KV_VALUE_MAX == KV_SEALED_MAX,
	      "what a value takes in the store");

#define KV_KIND_PLAIN 'P'
#define KV_KIND_MAC   'M'

int kv_seal_open(struct kv *kv, const char *secret_file)
{
	ssize_t n;

	if (!secret_file || !*secret_file)
		return 0;
	n = kv_files_read_secret(kv, secret_file, kv->secret, sizeof(kv->secret));
	if (n < 0)
		return (int)n;
	if (n < (ssize_t)KV_SECRET_MIN)
		return kv_fail(kv, -EINVAL,
			       "the secret in %s has fewer than %u bytes (openssl rand -hex 32 "
			       "makes one)",
			       secret_file, KV_SECRET_MIN);
	KV_ASSERT((size_t)n < sizeof(kv->secret));
	kv->n_secret = (size_t)n;
	return kv_mac_ready(kv);
}

/* The key ends with a 0, which is in no key, so no other key and value give the same bytes. */
static int kv_seal_mac(const struct kv *kv, const char *key, const uint8_t *sealed, size_t n,
		       uint8_t mac[KV_MAC_LEN])
{
	static const char domain[] = "shift-kv-1";
	uint8_t text[sizeof(domain) + KV_KEY_MAX + 1 + KV_SEALED_MAX];
	size_t n_key = strlen(key) + 1;

	KV_ASSERT(n_key <= KV_KEY_MAX + 1 && n <= KV_SEALED_MAX);
	memcpy(text, domain, sizeof(domain));
	memcpy(text + sizeof(domain), key, n_key);
	memcpy(text + sizeof(domain) + n_key, sealed, n);
	return kv_hmac(kv->secret, kv->n_secret, text, sizeof(domain) + n_key + n, mac);
}

static uint64_t kv_seal_stamp(struct kv *kv)
{
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_REALTIME, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	kv->stamp = now > kv->stamp ? now : kv->stamp + 1;
	return kv->stamp;
}

int kv_seal(struct kv *kv, struct kv_op *op, uint8_t out[KV_SEALED_MAX], size_t *len)
{
	struct kv_seal_head head = { .magic = { 'S', 'K' }, .version = '1', .kind = KV_KIND_PLAIN };
	uint64_t stamp = htole64(kv_seal_stamp(kv));

	KV_ASSERT(op->len <= KV_VALUE_MAX);
	if (kv->n_secret)
		head.kind = KV_KIND_MAC;
	memcpy(head.stamp, &stamp, sizeof(stamp));
	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), op->val, op->len);
	*len = sizeof(head) + op->len;
	if (!kv->n_secret)
		return 0;
	if (kv_seal_mac(kv, op->key, out, *len, out + *len))
		return kv_fail(kv, -EIO, "libcrypto cannot compute a MAC");
	*len += KV_MAC_LEN;
	return 0;
}

static int kv_unseal_mac(struct kv *kv, const char *key, const uint8_t *sealed, size_t *len)
{
	uint8_t mac[KV_MAC_LEN];

	if (*len <= sizeof(struct kv_seal_head) + KV_MAC_LEN)
		return -EBADMSG;
	*len -= KV_MAC_LEN;
	if (kv_seal_mac(kv, key, sealed, *len, mac) || !kv_mac_same(mac, sealed + *len, KV_MAC_LEN))
		return -EKEYREJECTED;
	return 0;
}

/* @len: of the sealed value; receives that of the value itself. */
static int kv_unseal(struct kv *kv, const char *key, const uint8_t *sealed, size_t *len)
{
	struct kv_seal_head head;
	uint64_t stamp;
	int rc;

	if (*len <= sizeof(head) || *len > KV_SEALED_MAX)
		return -EBADMSG;
	memcpy(&head, sealed, sizeof(head));
	if (head.magic[0] != 'S' || head.magic[1] != 'K')
		return -EBADMSG;
	if (head.version != '1' || (head.kind != KV_KIND_PLAIN && head.kind != KV_KIND_MAC))
		return -EPROTONOSUPPORT;
	if (head.kind == KV_KIND_PLAIN && kv->n_secret)
		return -ENOKEY;
	if (head.kind == KV_KIND_MAC && !kv->n_secret)
		return -EKEYREVOKED;
	if (kv->n_secret) {
		rc = kv_unseal_mac(kv, key, sealed, len);
		if (rc)
			return rc;
		memcpy(&stamp, head.stamp, sizeof(stamp));
		if (!kv_seen_newest(&kv->seen, key, le64toh(stamp)))
			return -ESTALE;
	}
	*len -= sizeof(head);
	return *len > KV_VALUE_MAX ? -EBADMSG : 0;
}

const char *kv_refusal(int rc)
{
	switch (rc) {
	case -EBADMSG: return "its record in the KV is malformed";
	case -EPROTONOSUPPORT:
		return "its record in the KV is of another version of SHIFT: run the same one at "
		       "both ends";
	case -ENOKEY: return "its record in the KV has no MAC: its writer has no SHIFT_SECRET_FILE";
	case -EKEYREVOKED: return "its record in the KV has a MAC: set SHIFT_SECRET_FILE here, too";
	case -EKEYREJECTED: return "its record in the KV has a wrong MAC: of another secret or key";
	case -ESTALE: return "its record in the KV is older than one seen before: replayed";
	case -EMSGSIZE: return "its record in the KV is too large";
	default: return NULL;
	}
}

void kv_op_take(struct kv *kv, struct kv_op *op, const void *val, size_t len)
{
	int rc = kv_unseal(kv, op->key, val, &len);

	if (rc) {
		op->got = 0;
		kv_op_fail(kv, op, rc, "%s: %s", op->key, kv_refusal(rc));
		return;
	}
	op->got = len;
	if (len > op->cap) {
		kv_op_fail(kv, op, -EMSGSIZE, "the record has %zu bytes", len);
		return;
	}
	memcpy(op->buf, (const uint8_t *)val + sizeof(struct kv_seal_head), len);
	op->ret = 0;
}
