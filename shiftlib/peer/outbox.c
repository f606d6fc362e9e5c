/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The outbox: messages of connections, gathered until they leave. */
#include <errno.h>
#include <stdlib.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/util.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"

#define OUTBOX_HOLD_NS SH_NS_PER_MS /* longest wait of gathered messages for others */

/*
 * A message. Leaves at once, unless somebody goes over many connections: then messages gather in
 * one datagram for each path. So a NIC that dies with a thousand connections takes a few datagrams,
 * and one that dies with a single one does not wait.
 */
struct outbox_record {
	struct sh_wire_ids ids;
	/* exactly one is set */
	const struct sc_msg_standby *standby;
	const struct sc_msg_state *state;
	const struct sc_msg_home *home;
	const struct sh_wire_word *word;
	const struct sh_wire_log *log;
	const struct sh_wire_inquiry *inquiry;
};

static void outbox_send(struct sh_peer_path *path)
{
	void *buf = path->out.buf;

	if (!buf)
		return;
	sh_peer_send(path, buf, sh_wire_end(&path->out));
	list_del(&path->out_link);
	sh_peers.state_datagrams += path->out_states;
	path->out_states = false;
	path->out = (struct sh_wire_writer){ 0 };
	free(buf);
}

void sh_outbox_hold(void)
{
	sh_peers.outs_held++;
}

void sh_outbox_release(void)
{
	if (!--sh_peers.outs_held)
		sh_outbox_send_out();
}

void sh_outbox_keep(void)
{
	sh_peers.outs_held--;
}

/*
 * Sends soon. Another thread is about to send; if it is held up, the background thread sends before
 * it sleeps.
 */
void sh_outbox_send_soon(void)
{
	if (!list_empty(&sh_peers.outs))
		sh_wake_at(sh_now_ns() + OUTBOX_HOLD_NS);
}

void sh_outbox_send_out(void)
{
	while (!list_empty(&sh_peers.outs))
		outbox_send(list_entry(sh_peers.outs.next, struct sh_peer_path, out_link));
}

/* Returns the path's writer. NULL: no memory, and the message is lost, as datagrams may be. */
static struct sh_wire_writer *outbox_begin(struct sh_peer_path *path)
{
	void *buf = path->out.buf ? NULL : malloc(SH_WIRE_MAX);

	if (!path->out.buf && !buf)
		return NULL;
	if (buf) {
		sh_wire_begin(&path->out, buf, sh_peer_room(path), sh.instance,
			      path->peer->instance);
		list_add_tail(&sh_peers.outs, &path->out_link);
	}
	return &path->out;
}

static int outbox_write(struct sh_peer_path *path, const struct outbox_record *record)
{
	struct sh_wire_writer *writer = outbox_begin(path);
	int ret;

	if (!writer)
		return -ENOMEM;
	if (record->standby)
		return sh_wire_put_standby(writer, &record->ids, record->standby);
	if (record->home)
		return sh_wire_put_home(writer, &record->ids, record->home);
	if (record->word)
		return sh_wire_put_word(writer, &record->ids, record->word);
	if (record->log)
		return sh_wire_put_log(writer, &record->ids, record->log);
	if (record->inquiry)
		return sh_wire_put_inquiry(writer, &record->ids, record->inquiry);
	ret = sh_wire_put_state(writer, &record->ids, record->state);
	path->out_states |= !ret;
	sh_peers.states_sent += !ret;
	return ret;
}

static void outbox_put(struct sh_peer_path *path, const struct outbox_record *record)
{
	if (!path || !path->path || !sh_nic_usable(path->nic))
		return;
	if (outbox_write(path, record) == -ENOSPC) {
		outbox_send(path);
		outbox_write(path, record);
	}
	if (!sh_peers.outs_held)
		outbox_send(path);
}

void sh_outbox_put_standby(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			   const struct sc_msg_standby *standby)
{
	outbox_put(path, &(struct outbox_record){ .ids = *ids, .standby = standby });
}

void sh_outbox_put_state(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			 const struct sc_msg_state *state)
{
	outbox_put(path, &(struct outbox_record){ .ids = *ids, .state = state });
}

void sh_outbox_put_word(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			const struct sh_wire_word *word)
{
	outbox_put(path, &(struct outbox_record){ .ids = *ids, .word = word });
}

void sh_outbox_put_log(struct sh_peer_path *path, const struct sh_wire_ids *ids,
		       const struct sh_wire_log *log)
{
	outbox_put(path, &(struct outbox_record){ .ids = *ids, .log = log });
}

void sh_outbox_put_inquiry(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			   const struct sh_wire_inquiry *inquiry)
{
	outbox_put(path, &(struct outbox_record){ .ids = *ids, .inquiry = inquiry });
}

void sh_outbox_put_home(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			const struct sc_msg_home *home)
{
	outbox_put(path, &(struct outbox_record){ .ids = *ids, .home = home });
}
