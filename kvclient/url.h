/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The address of a store, taken apart. */
#ifndef KVCLIENT_URL_H
#define KVCLIENT_URL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Room behind a path for the names of the files beside it. */
#define KV_PATH_MAX (PATH_MAX - 32)
#define KV_HOST_MAX 254u

enum kv_scheme {
	KV_SCHEME_REDIS,
	KV_SCHEME_LMDB,
	KV_SCHEME_LMDB_DEFAULT,
};

enum kv_transport {
	KV_TRANSPORT_TCP,
	KV_TRANSPORT_TLS,
	KV_TRANSPORT_UNIX,
};

#define KV_USER_MAX	   128u
#define KV_PASSWORD_MAX	   512u
#define KV_OPTION_PATH_MAX 256u
#define KV_SOCKET_PATH_MAX 108u
#define KV_ADDRESSES_MAX   8u
#define KV_URL_MAX	   4096u
#define KV_MASTER_MAX	   128u

/* Where a server listens. */
struct kv_place {
	char host[KV_HOST_MAX];
	char port[6];
};

/* One Redis server. Parts that the address does not name are empty strings. */
struct kv_address {
	enum kv_transport transport;
	struct kv_place place;	       /* TCP, TLS */
	char path[KV_SOCKET_PATH_MAX]; /* UNIX */
	char master[KV_MASTER_MAX];    /* the server is a Sentinel, to be asked for this master */
	unsigned db;
	char user[KV_USER_MAX];
	char password[KV_PASSWORD_MAX];
	char password_file[KV_OPTION_PATH_MAX];
	char sentinel_password_file[KV_OPTION_PATH_MAX];
	char ca[KV_OPTION_PATH_MAX], cert[KV_OPTION_PATH_MAX], key[KV_OPTION_PATH_MAX]; /* TLS */
};

struct kv_url {
	enum kv_scheme scheme;
	unsigned n_addresses;
	struct kv_address address[KV_ADDRESSES_MAX]; /* addresses in the order of the tries */
	char path[KV_PATH_MAX];			     /* LMDB */
};

/* A host and port by a server's word. False: they are none. */
bool kv_place_set(struct kv_place *place, const char *host, const char *port);

int kv_url_parse(const char *url, struct kv_url *out, char *err, size_t errlen);

#endif
