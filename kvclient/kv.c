/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The handle: addresses in, calls dispatched to the store behind it, arguments checked once. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kvclient/backend.h"
#include "kvclient/kv.h"

int kv_fail(struct kv *kv, int rc, const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(kv->err, sizeof(kv->err), "%s: ", kv->where);
	if (n < 0 || (size_t)n >= sizeof(kv->err))
		n = 0;
	va_start(ap, fmt);
	vsnprintf(kv->err + n, sizeof(kv->err) - (size_t)n, fmt, ap);
	va_end(ap);
	return rc;
}

uint64_t kv_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

unsigned kv_left_ms(uint64_t deadline_ms)
{
	uint64_t now = kv_now_ms();

	return now < deadline_ms ? (unsigned)(deadline_ms - now) : 0;
}

static struct kv *kv_new(const struct kv_url *url)
{
	static const struct kv_lmdb_limits limits = {
		.map_bytes = KV_LMDB_MAP_BYTES,
		.max_entries = KV_LMDB_MAX_ENTRIES,
	};

	switch (url->scheme) {
	case KV_SCHEME_REDIS: return kv_redis_new(url);
	case KV_SCHEME_LMDB:
	case KV_SCHEME_LMDB_DEFAULT: return kv_lmdb_new(url, &limits);
	}
	return NULL;
}

int kv_open(const char *url, unsigned timeout_ms, struct kv **out, char *err, size_t errlen)
{
	struct kv_url parsed;
	struct kv *kv;
	int rc;

	rc = kv_url_parse(url, &parsed, err, errlen);
	if (rc)
		return rc;
	kv = kv_new(&parsed);
	if (!kv) {
		if (err && errlen)
			snprintf(err, errlen, "no memory for a KV handle");
		return -ENOMEM;
	}
	kv->timeout_ms = timeout_ms ? timeout_ms : 1;
	*out = kv;
	return 0;
}

void kv_close(struct kv *kv)
{
	if (kv)
		kv->ops->close(kv);
}

static int kv_check_key(struct kv *kv, const char *key)
{
	size_t len = strnlen(key, KV_KEY_MAX + 1);

	if (len == 0 || len > KV_KEY_MAX)
		return kv_fail(kv, -EINVAL, "a key has 1 to %u bytes", KV_KEY_MAX);
	return 0;
}

int kv_ping(struct kv *kv)
{
	return kv->ops->ping(kv);
}

int kv_put(struct kv *kv, const char *key, const void *val, size_t len, unsigned lease_ms)
{
	int rc = kv_check_key(kv, key);

	if (rc)
		return rc;
	if (len == 0 || len > KV_VALUE_MAX)
		return kv_fail(kv, -EINVAL, "a value has 1 to %u bytes", KV_VALUE_MAX);
	if (!lease_ms)
		return kv_fail(kv, -EINVAL, "a record needs a lease");
	return kv->ops->put(kv, key, val, len, lease_ms);
}

int kv_get(struct kv *kv, const char *key, void *buf, size_t cap, size_t *len)
{
	int rc = kv_check_key(kv, key);

	return rc ? rc : kv->ops->get(kv, key, buf, cap, len);
}

int kv_del(struct kv *kv, const char *key)
{
	int rc = kv_check_key(kv, key);

	return rc ? rc : kv->ops->del(kv, key);
}

const char *kv_where(const struct kv *kv)
{
	return kv->where;
}

const char *kv_last_error(const struct kv *kv)
{
	return kv->err;
}
