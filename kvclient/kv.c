/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The handle: addresses in, calls dispatched to the store behind it, arguments checked once. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvclient/backend.h"
#include "kvclient/check.h"
#include "kvclient/net.h"
#include "kvclient/url.h"
#include "kvclient/seal.h"
#include "kvclient/kv.h"

/*
 * Replaces control characters: a server's text may not look like a line of ours, or like orders to
 * a terminal.
 */
static void kv_one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static void kv_say(struct kv *kv, int rc, const char *fmt, va_list ap)
{
	int n = snprintf(kv->err, sizeof(kv->err), "%s: ", kv->where);

	if (n < 0 || (size_t)n >= sizeof(kv->err))
		n = 0;
	vsnprintf(kv->err + n, sizeof(kv->err) - (size_t)n, fmt, ap);
	kv_one_line(kv->err);
	kv->err_rc = rc;
}

int kv_fail(struct kv *kv, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	kv_say(kv, rc, fmt, ap);
	va_end(ap);
	return rc;
}

/* Ranks failures: a batch tells the store's before a wrong value's before a missing one's. */
static int kv_rank(int rc)
{
	if (!rc)
		return 0;
	if (rc == -ENOENT)
		return 1;
	return kv_refusal(rc) ? 2 : 3;
}

void kv_op_fail(struct kv *kv, struct kv_op *op, int rc, const char *fmt, ...)
{
	va_list ap;

	KV_ASSERT(rc && rc != KV_OP_OPEN);
	op->ret = rc;
	if (kv_rank(kv->err_rc) >= kv_rank(rc))
		return;
	va_start(ap, fmt);
	kv_say(kv, rc, fmt, ap);
	va_end(ap);
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

static struct kv *kv_new(const struct kv_url *url, const struct kv_options *options)
{
	static const struct kv_lmdb_limits limits = {
		.map_bytes = KV_LMDB_MAP_BYTES,
		.max_entries = KV_LMDB_MAX_ENTRIES,
	};

	switch (url->scheme) {
	case KV_SCHEME_REDIS: return kv_redis_new(url, options->password_file);
	case KV_SCHEME_LMDB:
	case KV_SCHEME_LMDB_DEFAULT: return kv_lmdb_new(url, &limits);
	}
	return NULL;
}

int kv_open_with(const char *url, const struct kv_options *options, struct kv **out, char *err,
		 size_t errlen)
{
	struct kv_url *parsed = malloc(sizeof(*parsed));
	struct kv *kv = NULL;
	int rc = -ENOMEM;

	if (parsed) {
		rc = kv_url_parse(url, parsed, err, errlen);
		if (rc)
			goto free_url;
		kv = kv_new(parsed, options);
	}
	if (!kv) {
		rc = -ENOMEM;
		if (err && errlen)
			snprintf(err, errlen, "no memory for a KV handle");
		goto free_url;
	}
	kv->timeout_ms = options->timeout_ms ? options->timeout_ms : 1;
	kv->aside = options->aside;
	rc = kv_seal_open(kv, options->secret_file);
	if (rc) {
		if (err && errlen)
			snprintf(err, errlen, "%s", kv->err);
		kv_close(kv);
		goto free_url;
	}
	*out = kv;

free_url:
	if (parsed)
		explicit_bzero(parsed, sizeof(*parsed));
	free(parsed);
	return rc;
}

int kv_open(const char *url, unsigned timeout_ms, struct kv **out, char *err, size_t errlen)
{
	const struct kv_options options = { .timeout_ms = timeout_ms };

	return kv_open_with(url, &options, out, err, errlen);
}

void kv_close(struct kv *kv)
{
	if (!kv)
		return;
	explicit_bzero(kv->secret, sizeof(kv->secret));
	free(kv->seen);
	kv->ops->close(kv);
}

int kv_ping(struct kv *kv)
{
	kv->err_rc = 0;
	return kv->ops->ping(kv);
}

static void kv_op_check_put(struct kv *kv, struct kv_op *op)
{
	if (op->len == 0 || op->len > KV_VALUE_MAX)
		kv_op_fail(kv, op, -EINVAL, "a value has 1 to %u bytes", KV_VALUE_MAX);
	else if (!op->lease_ms)
		kv_op_fail(kv, op, -EINVAL, "a record needs a lease");
}

static void kv_op_open(struct kv *kv, struct kv_op *op)
{
	size_t len = strnlen(op->key, KV_KEY_MAX + 1);

	op->ret = KV_OP_OPEN;
	op->got = 0;
	if (len == 0 || len > KV_KEY_MAX)
		kv_op_fail(kv, op, -EINVAL, "a key has 1 to %u bytes", KV_KEY_MAX);
	else if (op->type == KV_OP_PUT)
		kv_op_check_put(kv, op);
}

static bool kv_ops_any_open(const struct kv_op *ops, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (ops[i].ret == KV_OP_OPEN)
			return true;
	return false;
}

int kv_run(struct kv *kv, struct kv_op *ops, uint32_t n)
{
	uint32_t i, part;
	int rc = 0;

	kv->err_rc = 0;
	for (i = 0; i < n; i++)
		kv_op_open(kv, &ops[i]);
	for (i = 0; i < n && !rc; i += part) {
		part = n - i < KV_RUN_MAX ? n - i : KV_RUN_MAX;
		if (kv_ops_any_open(ops + i, part))
			rc = kv->ops->run(kv, ops + i, part);
		KV_ASSERT(rc || !kv_ops_any_open(ops + i, part));
	}
	for (i = 0; i < n && rc; i++)
		if (ops[i].ret == KV_OP_OPEN)
			ops[i].ret = rc;
	return rc;
}

const char *kv_where(const struct kv *kv)
{
	return kv->where;
}

uint32_t kv_contacts(const struct kv *kv)
{
	return kv->contacts;
}

const char *kv_last_error(const struct kv *kv)
{
	return kv->err;
}
