/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Addresses of stores: what SHIFT_KV may say.
 *
 *	redis://[USER[:PASSWORD]@]HOST[:PORT][/DB][?OPTION=VALUE[&...]]
 *	rediss://...                                                      the same over TLS
 *	redis+unix://[USER[:PASSWORD]@]/PATH[?OPTION=VALUE[&...]]
 *	redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT]/MASTER[/DB][?OPTION=VALUE[&...]]
 *	rediss+sentinel://...                                             the same over TLS
 *	lmdb:/PATH
 *
 * Several addresses of Redis are separated by commas. %XX stands for a byte in users, passwords and
 * paths. An address may hold a password, and a malformed one may hold it anywhere: what is said of
 * addresses here never repeats what could be one.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/backend.h"
#include "kvclient/url.h"

#define KV_REDIS_DB_MAX	 65535u
#define KV_REDIS_PORT	 "6379"
#define KV_SENTINEL_PORT "26379"
#define KV_NUMBER_DIGITS 5

struct kv_parse {
	const char *whole;
	char *err;
	size_t errlen;
};

/* An address without a user is shown, up to a port that is none. Of others nothing is. */
static int kv_url_bad(const struct kv_parse *p, const char *why)
{
	const char *scheme_end = strstr(p->whole, "://");
	const char *colon = scheme_end ? strchr(scheme_end + 3, ':') : NULL;
	int n = (int)strnlen(p->whole, 60);
	const char *more = p->whole[n] ? "..." : "";

	if (strchr(p->whole, '@')) {
		n = 0;
		more = "SHIFT_KV";
	} else if (colon && colon - p->whole < n && strspn(colon + 1, "0123456789/,") == 0) {
		n = (int)(colon - p->whole);
		more = "...";
	}
	if (p->err && p->errlen)
		snprintf(p->err, p->errlen,
			 "\"%.*s%s\" is no KV address (%s): use "
			 "redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss:// for TLS, "
			 "redis+unix:///PATH, redis+sentinel:// or lmdb:/PATH",
			 n, p->whole, more, why);
	return -EINVAL;
}

/*
 * Takes at most five digits, and nothing else: strtoul() would take signs, blanks and trailing
 * text.
 */
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

static int kv_url_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Printable ASCII, and any byte but 0 as %XX. */
static bool kv_url_decode(const char *from, char *to, size_t cap)
{
	size_t n = 0;
	int high, low;

	for (; *from; from++) {
		unsigned char c = (unsigned char)*from;

		if (c <= ' ' || c >= 0x7f)
			return false;
		if (c == '%') {
			high = kv_url_hex(from[1]);
			low = high < 0 ? -1 : kv_url_hex(from[2]);
			if (low < 0 || !(high | low))
				return false;
			c = (unsigned char)(high << 4 | low);
			from += 2;
		}
		if (n + 1 >= cap)
			return false;
		to[n++] = (char)c;
	}
	to[n] = '\0';
	return n > 0;
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

/* NULL: the place is set. Or what is wrong with it. */
static const char *place_fill(struct kv_place *place, const char *host, const char *port,
			      bool bracketed)
{
	unsigned number;

	if (strlen(host) >= sizeof(place->host) || !kv_url_host_ok(host, bracketed))
		return "the host is not a name or address";
	if (!kv_url_number(port, 65535, &number) || number == 0)
		return "the port is not 1 to 65535";
	strcpy(place->host, host);
	strcpy(place->port, port);
	return NULL;
}

bool kv_place_set(struct kv_place *place, const char *host, const char *port)
{
	return !place_fill(place, host, port, strchr(host, ':'));
}

/* "HOST", "HOST:PORT", "[HOST]" or "[HOST]:PORT". */
static int kv_url_host(const struct kv_parse *p, char *text, const char *port, struct kv_place *out)
{
	bool bracketed = text[0] == '[';
	char *end = bracketed ? strchr(text, ']') : strrchr(text, ':');
	const char *why;

	if (bracketed) {
		if (!end)
			return kv_url_bad(p, "a ] is missing");
		text++;
		*end++ = '\0';
		if (*end && *end != ':')
			return kv_url_bad(p, "something stands between ] and the port");
		end = *end ? end : NULL;
	}
	if (end) {
		*end = '\0';
		port = end + 1;
	}
	why = place_fill(out, text, port, bracketed);
	return why ? kv_url_bad(p, why) : 0;
}

static int kv_url_user(const struct kv_parse *p, char *text, struct kv_address *out)
{
	char *colon = strchr(text, ':');

	if (colon) {
		*colon = '\0';
		if (!kv_url_decode(colon + 1, out->password, sizeof(out->password)))
			return kv_url_bad(p, "the password is malformed");
	}
	if (*text && !kv_url_decode(text, out->user, sizeof(out->user)))
		return kv_url_bad(p, "the user is malformed");
	return 0;
}

static int kv_url_option(const struct kv_parse *p, char *text, struct kv_address *out)
{
	const struct {
		const char *name;
		char *path;
		bool tls;
	} paths[] = {
		{ "password-file", out->password_file, false },
		{ "sentinel-password-file", out->sentinel_password_file, false },
		{ "ca", out->ca, true },
		{ "cert", out->cert, true },
		{ "key", out->key, true },
	};
	char *value = strchr(text, '=');

	if (!value)
		return kv_url_bad(p, "an option has no value");
	*value++ = '\0';
	if (!strcmp(text, "db"))
		return kv_url_number(value, KV_REDIS_DB_MAX, &out->db)
			       ? 0
			       : kv_url_bad(p, "the database is not a number");
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (strcmp(text, paths[i].name))
			continue;
		if (paths[i].tls && out->transport != KV_TRANSPORT_TLS)
			return kv_url_bad(p, "certificates are for rediss://");
		if (*value != '/' || !kv_url_decode(value, paths[i].path, KV_OPTION_PATH_MAX))
			return kv_url_bad(p, "the path of an option is malformed");
		return 0;
	}
	return kv_url_bad(
		p, "the options are db, password-file, sentinel-password-file, ca, cert and key");
}

static int kv_url_options(const struct kv_parse *p, char *text, struct kv_address *out)
{
	char *next;
	int rc = 0;

	for (; text && !rc; text = next) {
		next = strchr(text, '&');
		if (next)
			*next++ = '\0';
		rc = kv_url_option(p, text, out);
	}
	return rc;
}

/* Takes the name of a master off the path of a Sentinel's address. */
static int kv_url_master(const struct kv_parse *p, char **path, struct kv_address *out)
{
	char *name = *path, *slash = name ? strchr(name, '/') : NULL;

	if (slash)
		*slash++ = '\0';
	*path = slash;
	if (!name || !*name || strlen(name) >= sizeof(out->master) || !kv_url_host_ok(name, false))
		return kv_url_bad(p, "no master is named: redis+sentinel://HOST/MASTER");
	strcpy(out->master, name);
	return 0;
}

static int kv_url_place(const struct kv_parse *p, char *text, bool sentinel, struct kv_address *out)
{
	char *slash = strchr(text, '/');
	int rc = 0;

	if (out->transport == KV_TRANSPORT_UNIX) {
		if (slash != text || !kv_url_decode(text, out->path, sizeof(out->path)))
			return kv_url_bad(p, "the path of the socket is malformed");
		return 0;
	}
	if (slash)
		*slash++ = '\0';
	if (sentinel)
		rc = kv_url_master(p, &slash, out);
	if (rc)
		return rc;
	if (slash && *slash && !kv_url_number(slash, KV_REDIS_DB_MAX, &out->db))
		return kv_url_bad(p, "the database is not a number");
	return kv_url_host(p, text, sentinel ? KV_SENTINEL_PORT : KV_REDIS_PORT, &out->place);
}

/* What is of TLS or of Sentinels alone, checked at once: nobody shall find out at a fault. */
static int kv_url_check(const struct kv_parse *p, const struct kv_address *out)
{
	if (!*out->cert != !*out->key)
		return kv_url_bad(p, "cert and key go together");
	if (*out->sentinel_password_file && !*out->master)
		return kv_url_bad(p, "sentinel-password-file is for redis+sentinel://");
	return 0;
}

/* Parses one address in @text, which is cut into pieces. */
static int kv_url_redis(const struct kv_parse *p, char *text, struct kv_address *out)
{
	static const struct {
		const char *scheme;
		enum kv_transport transport;
		bool sentinel;
	} schemes[] = {
		{ "redis://", KV_TRANSPORT_TCP, false },
		{ "rediss://", KV_TRANSPORT_TLS, false },
		{ "redis+unix://", KV_TRANSPORT_UNIX, false },
		{ "redis+sentinel://", KV_TRANSPORT_TCP, true },
		{ "rediss+sentinel://", KV_TRANSPORT_TLS, true },
	};
	char *rest = NULL, *options, *at;
	bool sentinel = false;
	int rc;

	for (size_t i = 0; !rest && i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		size_t n = strlen(schemes[i].scheme);

		if (strncmp(text, schemes[i].scheme, n))
			continue;
		rest = text + n;
		out->transport = schemes[i].transport;
		sentinel = schemes[i].sentinel;
	}
	if (!rest)
		return kv_url_bad(p, "unknown scheme");
	options = strchr(rest, '?');
	if (options)
		*options++ = '\0';
	at = strrchr(rest, '@');
	if (at) {
		*at = '\0';
		rc = kv_url_user(p, rest, out);
		if (rc)
			return rc;
		rest = at + 1;
	}
	rc = kv_url_place(p, rest, sentinel, out);
	if (!rc)
		rc = kv_url_options(p, options, out);
	return rc ? rc : kv_url_check(p, out);
}

static int kv_url_lmdb(const struct kv_parse *p, const char *path, struct kv_url *out)
{
	size_t len = strlen(path);

	if (path[0] != '/')
		return kv_url_bad(p, "the path does not start with /");
	if (len >= sizeof(out->path))
		return kv_url_bad(p, "the path is too long");
	if (path[len - 1] == '/')
		return kv_url_bad(p, "the path names a directory; name a file in it");
	out->scheme = KV_SCHEME_LMDB;
	strcpy(out->path, path);
	return 0;
}

static int kv_url_list(const struct kv_parse *p, struct kv_url *out)
{
	char text[KV_URL_MAX], *at, *next;
	int rc = 0;

	if (strlen(p->whole) >= sizeof(text))
		return kv_url_bad(p, "it is too long");
	strcpy(text, p->whole);
	out->scheme = KV_SCHEME_REDIS;
	for (at = text; at && !rc; at = next) {
		next = strchr(at, ',');
		if (next)
			*next++ = '\0';
		if (out->n_addresses == KV_ADDRESSES_MAX)
			return kv_url_bad(p, "it has too many addresses");
		rc = kv_url_redis(p, at, &out->address[out->n_addresses++]);
	}
	return rc;
}

int kv_url_parse(const char *url, struct kv_url *out, char *err, size_t errlen)
{
	const struct kv_parse p = { .whole = url, .err = err, .errlen = errlen };
	static const char lmdb[] = "lmdb:";

	memset(out, 0, sizeof(*out));
	if (!url || !*url) {
		out->scheme = KV_SCHEME_LMDB_DEFAULT;
		return 0;
	}
	if (!strncmp(url, lmdb, sizeof(lmdb) - 1))
		return kv_url_lmdb(&p, url + sizeof(lmdb) - 1, out);
	return kv_url_list(&p, out);
}
