/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connections between hosts: each host with its nearest on both sides of a ring, or with all.
 */
#include "storm.h"

#include <stdlib.h>

static uint64_t retry_time_ns(void)
{
	return (4096ull << 20) * 8; /* a timeout of 20, 7 retries: NCCL's */
}

static void end_init(struct storm_world *w, uint32_t end, uint32_t host, uint32_t peer)
{
	struct storm_host *h = &w->host[host];
	struct storm_end *e = &w->end[end];
	struct sc_config config;

	sc_config_default(&config);
	config.retry_time_ns = retry_time_ns();
	if (w->config.unasked)
		config.stay_ns = 0;
	sc_init(&e->conn, &config);
	e->host = host;
	e->peer = peer;
	h->ends[h->n_ends++] = end;
}

/* Distances on the ring up to half of the peers; the one across is met from one side only. */
static bool connected(const struct storm_config *c, uint32_t a, uint32_t b)
{
	uint32_t way = b - a < c->hosts - (b - a) ? b - a : c->hosts - (b - a);

	return c->peers >= c->hosts - 1 || way <= c->peers / 2;
}

static void routes_init(struct storm_world *w, uint32_t host)
{
	struct storm_host *h = &w->host[host];

	h->port_up = true;
	h->routes = storm_alloc(NULL, (uint64_t)w->config.hosts * STORM_PATHS, sizeof(*h->routes));
	h->n_routes = w->config.hosts * STORM_PATHS;
	h->ends =
		storm_alloc(NULL, (uint64_t)w->config.hosts * w->config.channels, sizeof(*h->ends));
	for (uint32_t i = 0; i < h->n_routes; i++)
		h->routes[i] =
			(struct storm_route){ .to = i / STORM_PATHS, .path = i % STORM_PATHS };
}

struct storm_route *storm_route(struct storm_host *h, uint32_t to, uint32_t path)
{
	return &h->routes[to * STORM_PATHS + path];
}

static uint32_t connections(const struct storm_config *c)
{
	uint32_t n = 0;

	for (uint32_t a = 0; a < c->hosts; a++)
		for (uint32_t b = a + 1; b < c->hosts; b++)
			n += connected(c, a, b) ? c->channels : 0;
	return n;
}

static void connect_hosts(struct storm_world *w, uint32_t a, uint32_t b, uint32_t *next)
{
	for (uint32_t i = 0; i < w->config.channels; i++, *next += 2) {
		end_init(w, *next, a, b);
		end_init(w, *next + 1, b, a);
	}
}

void storm_build(struct storm_world *w)
{
	const struct storm_config *c = &w->config;
	uint32_t next = 0;

	w->n_ends = 2 * connections(c);
	w->end = storm_alloc(NULL, w->n_ends, sizeof(*w->end));
	w->host = storm_alloc(NULL, c->hosts, sizeof(*w->host));
	for (uint32_t a = 0; a < c->hosts; a++)
		routes_init(w, a);
	for (uint32_t a = 0; a < c->hosts; a++)
		for (uint32_t b = a + 1; b < c->hosts; b++)
			if (connected(c, a, b))
				connect_hosts(w, a, b, &next);
}

void storm_destroy(struct storm_world *w)
{
	storm_heap_clear(w);
	for (uint32_t i = 0; i < w->config.hosts; i++) {
		struct storm_host *h = &w->host[i];

		for (uint32_t k = 0; k < h->inbox.n; k++)
			free(h->inbox.list[h->inbox.first + k].datagram);
		for (uint32_t k = 0; k < h->n_routes; k++)
			free(h->routes[k].out);
		free(h->inbox.list);
		free(h->line.list);
		free(h->ends);
		free(h->routes);
	}
	free(w->host);
	free(w->end);
}
