/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rediss://, where the installed hiredis has an SSL part (Debian 13's; Debian 12's has none, and
 * there addresses of this kind are refused when they are read).
 */
#include "kvclient/backend.h"
#include "kvclient/dl.h"
#include "kvclient/url.h"
#include "kvclient/redis_tls.h"

#ifdef KV_HIREDIS_SSL_SONAME
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis_ssl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

static struct {
	__typeof__(redisInitOpenSSL) *init;
	__typeof__(redisCreateSSLContext) *create;
	__typeof__(redisFreeSSLContext) *free;
	__typeof__(redisInitiateSSLWithContext) *initiate;
	__typeof__(redisSSLContextGetError) *error;
} tls;

static const char *const kv_tls_names[] = {
	"redisInitOpenSSL",	   "redisCreateSSLContext",
	"redisFreeSSLContext",	   "redisInitiateSSLWithContext",
	"redisSSLContextGetError", NULL,
};

static pthread_once_t tls_once = PTHREAD_ONCE_INIT;
static int tls_rc;

static void kv_tls_load(void)
{
	void *slots[sizeof(tls) / sizeof(void *)];

	/* The SSL part calls functions of hiredis, and expects that the program has them. */
	tls_rc = kv_dl_share(KV_HIREDIS_SONAME);
	if (!tls_rc)
		tls_rc = kv_dl_load(KV_HIREDIS_SSL_SONAME, kv_tls_names, slots);
	if (tls_rc)
		return;
	memcpy(&tls, slots, sizeof(tls));
	tls.init();
}

bool kv_tls_known(void)
{
	return true;
}

/*
 * A handshake that waits in turn for both directions is left to a blocking socket with time-outs.
 */
static int kv_tls_block(int fd, bool block, unsigned timeout_ms)
{
	struct timeval tv = {
		.tv_sec = timeout_ms / 1000,
		.tv_usec = (timeout_ms % 1000) * 1000,
	};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, block ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)))
		return -errno;
	return 0;
}

static const char *kv_tls_path(const char *path)
{
	return *path ? path : NULL;
}

int kv_tls_start(struct kv *kv, redisContext *ctx, const struct kv_address *address,
		 unsigned timeout_ms)
{
	redisSSLContextError why = REDIS_SSL_CTX_NONE;
	redisSSLContext *ssl;
	int rc;

	pthread_once(&tls_once, kv_tls_load);
	if (tls_rc)
		return kv_fail(kv, -ELIBACC, "install %s, which rediss:// addresses need",
			       KV_HIREDIS_SSL_SONAME);
	kv_fork_hold();
	ssl = tls.create(kv_tls_path(address->ca), *address->ca ? NULL : "/etc/ssl/certs",
			 kv_tls_path(address->cert), kv_tls_path(address->key), address->host,
			 &why);
	kv_fork_release();
	if (!ssl)
		return kv_fail(kv, -EACCES, "TLS: %s", tls.error(why));
	rc = kv_tls_block(ctx->fd, true, timeout_ms ? timeout_ms : 1);
	kv_fork_hold(); /* the handshake waits for the server as well */
	if (!rc && tls.initiate(ctx, ssl) != REDIS_OK)
		rc = -EPROTO;
	kv_fork_release();
	if (!rc)
		rc = kv_tls_block(ctx->fd, false, 0);
	/* The connection has its own reference to what it needs of it. */
	tls.free(ssl);
	if (rc)
		return kv_fail(kv, rc, "TLS: %.120s", ctx->err ? ctx->errstr : strerror(-rc));
	return 0;
}

#else

bool kv_tls_known(void)
{
	return false;
}

int kv_tls_start(struct kv *kv, redisContext *ctx, const struct kv_address *address,
		 unsigned timeout_ms)
{
	return kv_fail(kv, -EPROTONOSUPPORT, "SHIFT was built without TLS");
}

#endif
