/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rediss:// by OpenSSL's libssl, which is loaded for the first such address.
 *
 * Only functions are used that OpenSSL has had since 1.1.1 with the same arguments, so that one
 * binary takes whichever of its libraries a system has. libssl brings its own libcrypto along.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/backend.h"
#include "kvclient/dl.h"
#include "kvclient/net.h"
#include "kvclient/tls.h"
#include "kvclient/url.h"

static struct {
	__typeof__(OPENSSL_init_crypto) *init_crypto;
	__typeof__(OPENSSL_init_ssl) *init_ssl;
	__typeof__(TLS_client_method) *client_method;
	__typeof__(SSL_CTX_new) *ctx_new;
	__typeof__(SSL_CTX_free) *ctx_free;
	__typeof__(SSL_CTX_ctrl) *ctx_ctrl;
	__typeof__(SSL_CTX_set_options) *ctx_options;
	__typeof__(SSL_CTX_set_verify) *set_verify;
	__typeof__(SSL_CTX_load_verify_locations) *load_verify;
	__typeof__(SSL_CTX_set_default_verify_paths) *default_verify;
	__typeof__(SSL_CTX_use_certificate_chain_file) *use_cert;
	__typeof__(SSL_CTX_use_PrivateKey_file) *use_key;
	__typeof__(SSL_new) *new;
	__typeof__(SSL_free) *free;
	__typeof__(SSL_ctrl) *ctrl;
	__typeof__(SSL_set_fd) *set_fd;
	__typeof__(SSL_get0_param) *param;
	__typeof__(SSL_set1_host) *set_host;
	__typeof__(X509_VERIFY_PARAM_set1_ip_asc) *set_ip;
	__typeof__(SSL_connect) *connect;
	__typeof__(SSL_read) *read;
	__typeof__(SSL_write) *write;
	__typeof__(SSL_pending) *pending;
	__typeof__(SSL_get_error) *error;
	__typeof__(SSL_get_verify_result) *verified;
	__typeof__(X509_verify_cert_error_string) *verify_text;
	__typeof__(ERR_get_error) *err_get;
	__typeof__(ERR_clear_error) *err_clear;
	__typeof__(ERR_reason_error_string) *err_text;
} ssl;

static const char *const ssl_names[] = {
	"OPENSSL_init_crypto",
	"OPENSSL_init_ssl",
	"TLS_client_method",
	"SSL_CTX_new",
	"SSL_CTX_free",
	"SSL_CTX_ctrl",
	"SSL_CTX_set_options",
	"SSL_CTX_set_verify",
	"SSL_CTX_load_verify_locations",
	"SSL_CTX_set_default_verify_paths",
	"SSL_CTX_use_certificate_chain_file",
	"SSL_CTX_use_PrivateKey_file",
	"SSL_new",
	"SSL_free",
	"SSL_ctrl",
	"SSL_set_fd",
	"SSL_get0_param",
	"SSL_set1_host",
	"X509_VERIFY_PARAM_set1_ip_asc",
	"SSL_connect",
	"SSL_read",
	"SSL_write",
	"SSL_pending",
	"SSL_get_error",
	"SSL_get_verify_result",
	"X509_verify_cert_error_string",
	"ERR_get_error",
	"ERR_clear_error",
	"ERR_reason_error_string",
	NULL,
};

static_assert(sizeof(ssl) / sizeof(void *) + 1 == sizeof(ssl_names) / sizeof(char *),
	      "one name a function");

#ifndef SSL_OP_IGNORE_UNEXPECTED_EOF
#define SSL_OP_IGNORE_UNEXPECTED_EOF 0
#endif

struct kv_tls {
	SSL *ssl;
	short events; /* that the last call waits for */
};

static pthread_once_t ssl_once = PTHREAD_ONCE_INIT;
static int ssl_rc;

/* No cleanup at exit: our thread may still be at work then. */
static void ssl_load(void)
{
	static const char *const sonames[] = { "libssl.so.3", "libssl.so.4", "libssl.so.1.1",
					       NULL };
	void *slots[sizeof(ssl) / sizeof(void *)];

	ssl_rc = kv_dl_load(sonames, ssl_names, slots);
	if (ssl_rc)
		return;
	memcpy(&ssl, slots, sizeof(ssl));
	kv_fork_hold();
	ssl.init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
	ssl.init_ssl(0, NULL);
	kv_fork_release();
}

/* ---- what OpenSSL says ---------------------------------------------------------------------- */

static int ssl_fail(struct kv *kv, int rc, const char *what)
{
	unsigned long code = ssl.err_get();
	const char *text = code ? ssl.err_text(code) : NULL;

	return kv_fail(kv, rc, "TLS: %s: %s", what, text ? text : strerror(-rc));
}

/* A call's result as bytes or -errno. Fork-held, as its errors are libcrypto's. */
static ssize_t ssl_result(struct kv_tls *tls, int ret)
{
	int saved_errno = errno;

	if (ret > 0)
		return ret;
	switch (ssl.error(tls->ssl, ret)) {
	case SSL_ERROR_WANT_READ: tls->events = POLLIN; return -EAGAIN;
	case SSL_ERROR_WANT_WRITE: tls->events = POLLOUT; return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN: return 0;
	case SSL_ERROR_SYSCALL: return saved_errno ? -saved_errno : -ECONNRESET;
	default: return -EPROTO;
	}
}

/* Around a call of a session: no error of an earlier one is taken for its own. */
static void call_begin(void)
{
	kv_fork_hold();
	errno = 0;
	ssl.err_clear();
}

/* ret: what the call returned. Bytes or -errno. */
static ssize_t call_end(struct kv_tls *tls, int ret)
{
	ssize_t rc = ssl_result(tls, ret);

	kv_fork_release();
	return rc;
}

/* ---- before the handshake ------------------------------------------------------------------- */

static int ctx_trust(struct kv *kv, SSL_CTX *ctx, const struct kv_address *address)
{
	int well = *address->ca ? ssl.load_verify(ctx, address->ca, NULL) : ssl.default_verify(ctx);

	return well ? 0 : ssl_fail(kv, -EACCES, *address->ca ? address->ca : "the system's CAs");
}

static int ctx_own(struct kv *kv, SSL_CTX *ctx, const struct kv_address *address)
{
	if (!*address->cert)
		return 0;
	if (ssl.use_cert(ctx, address->cert) != 1)
		return ssl_fail(kv, -EACCES, address->cert);
	if (ssl.use_key(ctx, address->key, SSL_FILETYPE_PEM) != 1)
		return ssl_fail(kv, -EACCES, address->key);
	return 0;
}

static int ctx_make(struct kv *kv, const struct kv_address *address, SSL_CTX **out)
{
	SSL_CTX *ctx = ssl.ctx_new(ssl.client_method());
	int rc;

	if (!ctx)
		return ssl_fail(kv, -ENOMEM, "no context");
	ssl.ctx_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
	ssl.ctx_ctrl(ctx, SSL_CTRL_MODE,
		     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
	/* A server may end without a word, as replies have lengths. New in OpenSSL 3. */
	ssl.ctx_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
	ssl.set_verify(ctx, SSL_VERIFY_PEER, NULL);
	rc = ctx_trust(kv, ctx, address);
	if (!rc)
		rc = ctx_own(kv, ctx, address);
	if (rc)
		ssl.ctx_free(ctx);
	else
		*out = ctx;
	return rc;
}

static bool is_ip(const char *host)
{
	struct in6_addr addr;

	return inet_pton(AF_INET, host, &addr) == 1 || inet_pton(AF_INET6, host, &addr) == 1;
}

/* The host that the certificate must name; servers of several names are told which one is meant. */
static bool expect_host(SSL *s, const char *host)
{
	char name[KV_HOST_MAX];

	if (is_ip(host))
		return ssl.set_ip(ssl.param(s), host) == 1;
	strcpy(name, host);
	return ssl.set_host(s, host) == 1 &&
	       ssl.ctrl(s, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) == 1;
}

static int session_make(struct kv *kv, const struct kv_address *address, int fd, SSL **out)
{
	SSL_CTX *ctx = NULL;
	int rc = ctx_make(kv, address, &ctx);

	if (rc)
		return rc;
	*out = ssl.new(ctx);
	ssl.ctx_free(ctx); /* the session has a reference of its own */
	if (!*out)
		return ssl_fail(kv, -ENOMEM, "no session");
	if (ssl.set_fd(*out, fd) == 1 && expect_host(*out, address->place.host))
		return 0;
	rc = ssl_fail(kv, -EINVAL, address->place.host);
	ssl.free(*out);
	return rc;
}

/* ---- the handshake -------------------------------------------------------------------------- */

static ssize_t handshake_step(struct kv_tls *tls)
{
	call_begin();
	return call_end(tls, ssl.connect(tls->ssl));
}

/* A certificate that is not believed is told by its own words, not as a failed handshake. */
static int handshake_failed(struct kv *kv, const struct kv_tls *tls, int rc)
{
	long verdict;

	kv_fork_hold();
	verdict = ssl.verified(tls->ssl);
	if (verdict == X509_V_OK)
		rc = ssl_fail(kv, rc ? rc : -ECONNRESET, "handshake");
	else
		rc = kv_fail(kv, -EACCES, "TLS: the server's certificate: %s",
			     ssl.verify_text(verdict));
	kv_fork_release();
	return rc;
}

static int handshake(struct kv *kv, struct kv_tls *tls, int fd, uint64_t deadline_ms)
{
	ssize_t rc;

	while ((rc = handshake_step(tls)) == -EAGAIN) {
		rc = kv_net_wait(fd, tls->events, deadline_ms);
		if (rc < 0)
			break;
	}
	return rc > 0 ? 0 : handshake_failed(kv, tls, (int)rc);
}

int kv_tls_new(struct kv *kv, const struct kv_address *address, int fd, uint64_t deadline_ms,
	       struct kv_tls **out)
{
	struct kv_tls *tls;
	int rc;

	pthread_once(&ssl_once, ssl_load);
	if (ssl_rc == -EMFILE)
		return kv_fail(kv, ssl_rc, "libssl was not loaded: %s", kv_dl_no_files);
	if (ssl_rc)
		return kv_fail(kv, -ELIBACC,
			       "install libssl.so.3 or libssl.so.1.1, which rediss:// addresses "
			       "need");
	tls = calloc(1, sizeof(*tls));
	if (!tls)
		return kv_fail(kv, -ENOMEM, "no memory for a connection");
	kv_fork_hold();
	rc = session_make(kv, address, fd, &tls->ssl);
	kv_fork_release();
	if (rc) {
		free(tls);
		return rc;
	}
	rc = handshake(kv, tls, fd, deadline_ms);
	if (rc)
		kv_tls_free(tls);
	else
		*out = tls;
	return rc;
}

/* ---- the connection ------------------------------------------------------------------------- */

/* Says no goodbye: a child that closes its copy would say it in its parent's name. */
void kv_tls_free(struct kv_tls *tls)
{
	if (!tls)
		return;
	kv_fork_hold();
	ssl.free(tls->ssl);
	kv_fork_release();
	free(tls);
}

ssize_t kv_tls_read(struct kv_tls *tls, void *bytes, size_t n)
{
	call_begin();
	return call_end(tls, ssl.read(tls->ssl, bytes, (int)n));
}

ssize_t kv_tls_write(struct kv_tls *tls, const void *bytes, size_t n)
{
	ssize_t rc;

	call_begin();
	rc = call_end(tls, ssl.write(tls->ssl, bytes, (int)n));
	return rc ? rc : -ECONNRESET;
}

short kv_tls_events(const struct kv_tls *tls)
{
	return tls->events;
}

bool kv_tls_pending(const struct kv_tls *tls)
{
	return ssl.pending(tls->ssl) > 0;
}
