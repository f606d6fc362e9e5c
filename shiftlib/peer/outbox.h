/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What connections say, gathered for each path until it leaves. Lock held. */
#ifndef SHIFTLIB_PEER_OUTBOX_H
#define SHIFTLIB_PEER_OUTBOX_H

#include "shiftlib/control/wire.h"
#include "shiftlib/core/core.h"
#include "shiftlib/peer/peer.h"

/* Around work on many connections, whose messages go together; they nest. Lock held all the while. */
void sh_outbox_hold(void);
void sh_outbox_release(void);
void sh_outbox_keep(void);     /* instead of release: what was gathered stays */
void sh_outbox_send_out(void); /* what was left behind leaves */
void sh_outbox_send_soon(void);
/* Leaves at once, but while somebody holds. path NULL, or not usable now: it is lost. */
void sh_outbox_put_standby(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			   const struct sc_msg_standby *standby);
void sh_outbox_put_state(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			 const struct sc_msg_state *state);
void sh_outbox_put_word(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			const struct sh_wire_word *word);
void sh_outbox_put_log(struct sh_peer_path *path, const struct sh_wire_ids *ids,
		       const struct sh_wire_log *log);
void sh_outbox_put_home(struct sh_peer_path *path, const struct sh_wire_ids *ids,
			const struct sc_msg_home *home);

#endif
