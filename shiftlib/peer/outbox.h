/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The outbox: messages of connections, gathered for each path until they leave. */
#ifndef SHIFTLIB_PEER_OUTBOX_H
#define SHIFTLIB_PEER_OUTBOX_H

#include "shiftlib/base/locked.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/message.h"
#include "shiftlib/peer/peer.h"

/*
 * Hold and release, around work on many connections, whose messages go together; they nest. Lock
 * held all the while.
 */
void sh_outbox_hold(void) SH_LOCKED;
void sh_outbox_release(void) SH_LOCKED;
void sh_outbox_keep(void) SH_LOCKED;	 /* instead of release: gathered messages stay */
void sh_outbox_send_out(void) SH_LOCKED; /* sends all gathered messages */
void sh_outbox_send_soon(void) SH_LOCKED;
/* Send a message at once, or gather it while somebody holds. path NULL, or not usable now: lost. */
void sh_outbox_put_standby(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			   const struct sc_msg_standby *standby) SH_LOCKED;
void sh_outbox_put_state(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			 const struct sc_msg_state *state) SH_LOCKED;
void sh_outbox_put_word(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			const struct sh_wire_word *word) SH_LOCKED;
void sh_outbox_put_log(struct sh_peer_path *path, const struct sh_wire_ids *ids,
		       const struct sh_wire_log *log) SH_LOCKED;
void sh_outbox_put_inquiry(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			   const struct sh_wire_inquiry *inquiry) SH_LOCKED;
void sh_outbox_put_home(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			const struct sc_msg_home *home) SH_LOCKED;

#endif
