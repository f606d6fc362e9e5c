/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The HTTP server: libmicrohttpd, run by the caller's own loop, on a socket of ours. */
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/exporter/exporter.h"

#define CONNECTIONS_MAX	  32u
#define CONNECTION_IDLE_S 10u
#define METRICS_TYPE	  "text/plain; version=0.0.4; charset=utf-8"

struct http {
	struct MHD_Daemon *daemon;
	char *(*page)(void *arg, size_t *length);
	void *arg;
};

/* ---- answers -------------------------------------------------------------------------------- */

static enum MHD_Result http_reply(struct MHD_Connection *connection, unsigned status,
				  const char *type, struct MHD_Response *response)
{
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result http_say(struct MHD_Connection *connection, unsigned status,
				const char *text)
{
	return http_reply(connection, status, "text/plain; charset=utf-8",
			  MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
							  MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result http_metrics(struct http *http, struct MHD_Connection *connection)
{
	size_t length;
	char *page = http->page(http->arg, &length);

	if (!page)
		return http_say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
	return http_reply(connection, MHD_HTTP_OK, METRICS_TYPE,
			  MHD_create_response_from_buffer(length, page, MHD_RESPMEM_MUST_FREE));
}

static enum MHD_Result http_answer(void *arg, struct MHD_Connection *connection, const char *url,
				   const char *method, const char *version, const char *body,
				   size_t *body_size, void **state)
{
	static char begun;

	(void)version;
	(void)body;
	if (!*state) { /* the headers only; the request is whole at the next call */
		*state = &begun;
		return MHD_YES;
	}
	if (*body_size) {
		*body_size = 0; /* passed over */
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return http_say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or HEAD\n");
	if (!strcmp(url, "/metrics"))
		return http_metrics(arg, connection);
	if (!strcmp(url, "/healthz"))
		return http_say(connection, MHD_HTTP_OK, "ok\n");
	if (!strcmp(url, "/"))
		return http_say(connection, MHD_HTTP_OK,
				"shift-exporter " SHIFT_VERSION ": see /metrics and /healthz\n");
	return http_say(connection, MHD_HTTP_NOT_FOUND, "see /metrics\n");
}

/* ---- where it listens ----------------------------------------------------------------------- */

/* "127.0.0.1:10471", "[::1]:10471": numbers only, as names may lead anywhere. */
static int listen_parse(const char *listen, struct addrinfo **out, char err[CTL_ERR_MAX])
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
					.ai_socktype = SOCK_STREAM };
	const char *colon = strrchr(listen, ':');
	char host[128];
	size_t n = colon ? (size_t)(colon - listen) : 0;
	bool bracket = n > 2 && listen[0] == '[' && listen[n - 1] == ']';

	if (!colon || !n || n >= sizeof(host) || (!bracket && memchr(listen, ':', n)))
		return ctl_err(err, -EINVAL,
			       "--listen takes ADDRESS:PORT or [ADDRESS]:PORT, not \"%.100s\"",
			       listen);
	snprintf(host, sizeof(host), "%.*s", (int)(bracket ? n - 2 : n), listen + bracket);
	if (getaddrinfo(host, colon + 1, &hints, out))
		return ctl_err(err, -EINVAL, "--listen: \"%.100s\" is no numeric address and port",
			       listen);
	return 0;
}

static bool address_is_loopback(const struct sockaddr *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	if (address->sa_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Says the address, with the port that the kernel chose if it was to choose. */
static void listen_say(int fd, const struct addrinfo *address)
{
	struct sockaddr_storage bound = { 0 };
	socklen_t length = sizeof(bound);
	char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
	bool v6 = address->ai_family == AF_INET6;

	getsockname(fd, (struct sockaddr *)&bound, &length);
	getnameinfo((struct sockaddr *)&bound, length, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV);
	ctl_say("listening on http://%s%s%s:%s/metrics", v6 ? "[" : "", host, v6 ? "]" : "", port);
	if (!address_is_loopback(address->ai_addr))
		ctl_say("everyone who reaches this address can read the names of programs, jobs "
			"and NICs; for authentication use a proxy in front of 127.0.0.1");
}

static int listen_open(const struct addrinfo *address, const char *text, char err[CTL_ERR_MAX])
{
	int on = 1, rc,
	    fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			IPPROTO_TCP);

	if (fd < 0)
		return ctl_err(err, -errno, "no socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (!bind(fd, address->ai_addr, address->ai_addrlen) && !listen(fd, 16))
		return fd;
	rc = ctl_err(err, -errno, "cannot listen on %.100s: %s", text, strerror(errno));
	close(fd);
	return rc;
}

/* ---- life ----------------------------------------------------------------------------------- */

static int http_begin(struct http *http, int fd, char err[CTL_ERR_MAX])
{
	http->daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, http_answer, http,
					MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
					CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
					CONNECTION_IDLE_S, MHD_OPTION_END);
	return http->daemon ? 0 : ctl_err(err, -EIO, "libmicrohttpd does not start");
}

int http_start(const char *listen, char *(*page)(void *arg, size_t *length), void *arg,
	       struct http **out, char err[CTL_ERR_MAX])
{
	struct http *http = calloc(1, sizeof(*http));
	struct addrinfo *address;
	int fd, rc;

	if (!http)
		return ctl_err(err, -ENOMEM, "out of memory");
	http->page = page;
	http->arg = arg;
	rc = listen_parse(listen, &address, err);
	if (rc)
		goto free_http;
	rc = fd = listen_open(address, listen, err);
	if (fd >= 0)
		rc = http_begin(http, fd, err);
	if (fd >= 0 && rc)
		close(fd);
	if (!rc)
		listen_say(fd, address);
	freeaddrinfo(address);
	if (rc)
		goto free_http;
	*out = http;
	return 0;
free_http:
	free(http);
	return rc;
}

int http_fd(const struct http *http)
{
	return MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int http_timeout_ms(struct http *http, int longest)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(http->daemon, &ms) != MHD_YES || ms > (unsigned)longest)
		return longest;
	return (int)ms;
}

void http_run(struct http *http)
{
	MHD_run(http->daemon);
}

void http_stop(struct http *http)
{
	MHD_stop_daemon(http->daemon);
	free(http);
}
