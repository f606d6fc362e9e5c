/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Addresses of stores: redis://HOST:PORT[/DB] and lmdb:/PATH. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/backend.h"

#define KV_REDIS_DB_MAX 65535u

static int kv_url_bad(const char *url, const char *why, char *err, size_t errlen)
{
	if (err && errlen)
		snprintf(err, errlen,
			 "\"%.80s\" is no KV address (%s): use redis://HOST:PORT, "
			 "redis://HOST:PORT/DB, redis://[IPV6]:PORT or lmdb:/PATH",
			 url, why);
	return -EINVAL;
}

#define KV_NUMBER_DIGITS 5

/* At most five digits, and nothing else: strtoul() would take signs, blanks and trailing text. */
static bool kv_url_number(const char *text, unsigned max, unsigned *out)
{
	unsigned long value;
	size_t i;

	for (i = 0; text[i]; i++)
		if (!isdigit((unsigned char)text[i]))
			return false;
	if (i == 0 || i > KV_NUMBER_DIGITS)
		return false;
	value = strtoul(text, NULL, 10);
	*out = (unsigned)value;
	return value <= max;
}

static bool kv_url_host_ok(const char *host, bool bracketed)
{
	const char *allowed = bracketed ? ":.%" : ".-_";

	if (!*host)
		return false;
	for (; *host; host++)
		if (!isalnum((unsigned char)*host) && !strchr(allowed, *host))
			return false;
	return true;
}

/* Splits "HOST:PORT" or "[HOST]:PORT" in place; NULL when it has neither form. */
static char *kv_url_split_port(char *text, bool *bracketed)
{
	char *colon;

	*bracketed = text[0] == '[';
	if (*bracketed) {
		colon = strchr(text, ']');
		if (!colon || colon[1] != ':')
			return NULL;
		*colon++ = '\0';
	} else {
		colon = strrchr(text, ':');
		if (!colon)
			return NULL;
	}
	*colon = '\0';
	return colon + 1;
}

static int kv_url_redis(const char *url, const char *rest, struct kv_url *out, char *err,
			size_t errlen)
{
	char text[KV_HOST_MAX + 16];
	char *db, *port, *host = text;
	bool bracketed;
	unsigned number;

	if (strlen(rest) >= sizeof(text))
		return kv_url_bad(url, "it is too long", err, errlen);
	strcpy(text, rest);
	db = strchr(text, '/');
	if (db)
		*db++ = '\0';
	port = kv_url_split_port(text, &bracketed);
	if (!port)
		return kv_url_bad(url, "the port is missing", err, errlen);
	if (bracketed)
		host++;
	if (strlen(host) >= KV_HOST_MAX || !kv_url_host_ok(host, bracketed))
		return kv_url_bad(url, "the host is not a name or address", err, errlen);
	if (!kv_url_number(port, 65535, &number) || number == 0)
		return kv_url_bad(url, "the port is not 1 to 65535", err, errlen);
	if (db && *db && !kv_url_number(db, KV_REDIS_DB_MAX, &out->db))
		return kv_url_bad(url, "the database is not a number", err, errlen);
	out->scheme = KV_SCHEME_REDIS;
	strcpy(out->host, host);
	strcpy(out->port, port);
	return 0;
}

static int kv_url_lmdb(const char *url, const char *rest, struct kv_url *out, char *err,
		       size_t errlen)
{
	size_t len = strlen(rest);

	if (rest[0] != '/')
		return kv_url_bad(url, "the path does not start with /", err, errlen);
	if (len >= sizeof(out->path))
		return kv_url_bad(url, "the path is too long", err, errlen);
	if (rest[len - 1] == '/')
		return kv_url_bad(url, "the path names a directory, not a file", err, errlen);
	out->scheme = KV_SCHEME_LMDB;
	strcpy(out->path, rest);
	return 0;
}

int kv_url_parse(const char *url, struct kv_url *out, char *err, size_t errlen)
{
	static const char redis[] = "redis://", lmdb[] = "lmdb:";

	memset(out, 0, sizeof(*out));
	if (!url || !*url) {
		out->scheme = KV_SCHEME_LMDB_DEFAULT;
		return 0;
	}
	if (!strncmp(url, redis, sizeof(redis) - 1))
		return kv_url_redis(url, url + sizeof(redis) - 1, out, err, errlen);
	if (!strncmp(url, lmdb, sizeof(lmdb) - 1))
		return kv_url_lmdb(url, url + sizeof(lmdb) - 1, out, err, errlen);
	return kv_url_bad(url, "unknown scheme", err, errlen);
}
