/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A host. The background thread goes its rounds, one event after the other, while it holds the
 * lock (loop/loop.c). The worker of the dying NIC waits for its commands. If the lock is free it
 * goes on with their consequences, else it leaves them to the thread (conn/quiesce.c). Messages
 * gather in datagrams (peer/outbox.c).
 */
#include "storm.h"

#include <stdlib.h>

#define WIRE_MAX       4000 /* control/wire.h */
#define WIRE_HEADER    32
#define WIRE_STATE     56 /* bytes with the record's header */
#define WIRE_STANDBY   64
#define OUTBOX_HOLD_NS STORM_MS
#define DATAGRAM_ROOM  ((WIRE_MAX - WIRE_HEADER) / WIRE_STATE)

/* ---- the outbox ------------------------------------------------------------------------------ */

static bool arrives(struct storm_world *w, uint32_t from, const struct storm_route *route)
{
	if (!route->path)
		return !w->rail_dead && w->host[route->to].port_up && w->host[from].port_up;
	return !w->started || storm_pick(w, 1000) >= w->config.drop_permille;
}

static void datagram_send(struct storm_world *w, uint32_t host, struct storm_route *route)
{
	struct storm_host *h = &w->host[host];
	struct storm_datagram *out = route->out;

	route->out = NULL;
	h->clock += w->costs.datagram;
	w->sum.datagrams += out->states > 0;
	if (!arrives(w, host, route)) {
		free(out);
		return;
	}
	storm_input_at(w, h->clock + w->costs.latency, route->to,
		       &(struct storm_input){ .type = STORM_IN_DATAGRAM, .datagram = out });
}

static void outs_send(struct storm_world *w, uint32_t host)
{
	struct storm_host *h = &w->host[host];
	struct storm_route *route;

	while ((route = h->outs)) {
		h->outs = route->next;
		if (route->out)
			datagram_send(w, host, route);
	}
	h->flush_at = 0;
}

static void datagram_begin(struct storm_host *h, struct storm_route *route)
{
	struct storm_route **last = &h->outs;

	route->out = storm_alloc(
		NULL, 1, sizeof(*route->out) + DATAGRAM_ROOM * sizeof(route->out->message[0]));
	route->out->host = route->to;
	route->out->path = route->path;
	route->out->bytes = WIRE_HEADER;
	while (*last && *last != route)
		last = &(*last)->next;
	if (*last)
		return; /* the last datagram was full, and has left */
	route->next = NULL;
	*last = route;
}

void storm_host_say(struct storm_world *w, uint32_t host, uint32_t to, uint32_t path,
		    const struct storm_message *message)
{
	uint32_t bytes = message->standby ? WIRE_STANDBY : WIRE_STATE;
	struct storm_host *h = &w->host[host];
	struct storm_route *route = storm_route(h, to, path);

	if (!path && !h->port_up)
		return;
	if (route->out && route->out->bytes + bytes > WIRE_MAX)
		datagram_send(w, host, route);
	if (!route->out)
		datagram_begin(h, route);
	route->out->message[route->out->n++] = *message;
	route->out->bytes += bytes;
	route->out->states += !message->standby;
	w->sum.states += !message->standby;
	w->sum.standbys += message->standby;
}

/* ---- the line of commands -------------------------------------------------------------------- */

static void command_begin(struct storm_world *w, uint32_t host, uint64_t at)
{
	storm_at(w, &(struct storm_event){ .at = at + w->costs.command + w->costs.late,
					   .host = host,
					   .type = STORM_EV_COMMAND });
}

void storm_host_command(struct storm_world *w, uint32_t host, uint32_t end)
{
	struct storm_host *h = &w->host[host];
	struct storm_ends *line = &h->line;

	if (line->first + line->n == line->room) {
		line->room = line->room ? 2 * line->room : 64;
		line->list = storm_alloc(line->list, line->room, sizeof(*line->list));
	}
	line->list[line->first + line->n++] = end;
	if (line->n == 1)
		command_begin(w, host, h->clock);
}

static void quiesced(struct storm_world *w, uint32_t end)
{
	storm_end_event(w, end,
			&(struct sc_event){ .type = SC_EV_QUIESCED,
					    .final = true,
					    .epoch = w->end[end].conn.epoch });
}

/* ---- the background thread ------------------------------------------------------------------- */

static void round_soon(struct storm_world *w, uint32_t host, uint64_t at)
{
	struct storm_host *h = &w->host[host];

	at = at > h->free_at ? at : h->free_at;
	if (h->round_at && h->round_at <= at)
		return;
	h->round_at = at;
	storm_at(w, &(struct storm_event){ .at = at, .host = host, .type = STORM_EV_ROUND });
}

static void tell(struct storm_world *w, uint32_t host, const struct storm_input *input)
{
	struct storm_inputs *inbox = &w->host[host].inbox;

	if (!inbox->n)
		inbox->first = 0;
	if (inbox->first + inbox->n == inbox->room) {
		inbox->room = inbox->room ? 2 * inbox->room : 64;
		inbox->list = storm_alloc(inbox->list, inbox->room, sizeof(*inbox->list));
	}
	inbox->list[inbox->first + inbox->n++] = *input;
	round_soon(w, host, w->now);
}

static void read_datagram(struct storm_world *w, uint32_t host, struct storm_datagram *datagram)
{
	w->host[host].clock += w->costs.datagram;
	for (uint32_t i = 0; i < datagram->n; i++)
		storm_end_message(w, datagram, &datagram->message[i]);
	free(datagram);
}

/* Tells users of the path to this peer, or to any: the paths first (conn/watch/nic_news.c). */
static void path_down(struct storm_world *w, uint32_t host, uint32_t peer, enum sc_reason reason)
{
	uint8_t well = reason == SC_REASON_PORT ? 2 : 3;
	struct sc_event paths = { .type = SC_EV_PATHS, .up = 2, .steady = 2, .well = well };
	struct sc_event fault = { .type = SC_EV_FAULT, .reason = reason };
	struct storm_host *h = &w->host[host];

	if (!w->sum.noticed_at)
		w->sum.noticed_at = h->clock;
	h->faulted = h->n_ends;
	for (int second = 0; second < 2; second++)
		for (uint32_t i = 0; i < h->n_ends; i++)
			if (peer == host || w->end[h->ends[i]].peer == peer)
				storm_end_event(w, h->ends[i], second ? &fault : &paths);
	h->faulted = 0;
}

static void read_input(struct storm_world *w, uint32_t host, const struct storm_input *input)
{
	switch (input->type) {
	case STORM_IN_DATAGRAM: read_datagram(w, host, input->datagram); break;
	case STORM_IN_TIMER: storm_end_timer(w, input->end, input->generation); break;
	case STORM_IN_COMMAND: quiesced(w, input->end); break;
	case STORM_IN_PORT_DOWN:
		w->host[host].port_up = false;
		path_down(w, host, host, SC_REASON_PORT);
		break;
	case STORM_IN_SILENT: path_down(w, host, input->peer, SC_REASON_SILENCE); break;
	case STORM_IN_FLUSH: break;
	}
}

/* Serves the events that have come so far; later ones are for the next round. */
static void go_round(struct storm_world *w, uint32_t host)
{
	struct storm_host *h = &w->host[host];
	uint32_t n = h->inbox.n;
	struct storm_input input;

	h->round_at = 0;
	h->clock = w->now + w->costs.wake;
	while (n--) {
		input = h->inbox.list[h->inbox.first++];
		h->inbox.n--;
		read_input(w, host, &input);
	}
	outs_send(w, host);
	h->free_at = h->clock;
	if (h->inbox.n)
		round_soon(w, host, h->free_at);
}

/* ---- the worker of the dying NIC ------------------------------------------------------------- */

/* Goes on after a command; gives the next command when the consequences of this one are done. */
static void go_on(struct storm_world *w, uint32_t host, uint32_t end)
{
	struct storm_host *h = &w->host[host];

	h->clock = w->now;
	quiesced(w, end);
	if (!h->line.n) {
		outs_send(w, host);
	} else if (h->outs && !h->flush_at) {
		h->flush_at = h->clock + OUTBOX_HOLD_NS;
		storm_input_at(w, h->flush_at, host,
			       &(struct storm_input){ .type = STORM_IN_FLUSH });
	}
	h->free_at = h->clock;
}

static void command_done(struct storm_world *w, uint32_t host)
{
	struct storm_host *h = &w->host[host];
	uint32_t end = h->line.list[h->line.first];
	bool free = h->free_at <= w->now && !h->inbox.n;

	h->line.first++;
	h->line.n--;
	if (!h->line.n)
		h->line.first = 0;
	if (free)
		go_on(w, host, end);
	else
		tell(w, host, &(struct storm_input){ .type = STORM_IN_COMMAND, .end = end });
	if (h->line.n)
		command_begin(w, host, free ? h->clock : w->now);
}

void storm_host_event(struct storm_world *w, const struct storm_event *event)
{
	switch (event->type) {
	case STORM_EV_ROUND:
		if (w->host[event->host].round_at == event->at)
			go_round(w, event->host);
		break;
	case STORM_EV_COMMAND: command_done(w, event->host); break;
	case STORM_EV_INPUT: tell(w, event->host, &event->input); break;
	}
}
