/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The records that a connection sends to its other end: of the core and of parts. */
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/core.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"

static struct sh_wire_ids message_ids(const struct sh_qp *qp)
{
	return (struct sh_wire_ids){ .src_conn = qp->conn_id,
				     .dst_conn = qp->other.conn,
				     .nonce = qp->other.nonce };
}

/* Sends STANDBY over the standby's own path: its arrival proves that the path works. */
void sh_messages_send_standby(struct sh_qp *qp, const struct sc_msg_standby *standby,
			      bool everywhere)
{
	struct sh_wire_ids ids = message_ids(qp);
	uint32_t k;

	if (!qp->peer || standby->path >= qp->paths.n)
		return;
	if (!everywhere) {
		sh_outbox_put_standby(qp->paths.routes[standby->path], &ids, standby);
		return;
	}
	for (k = qp->paths.n; k-- > 0;) /* the path that is being left comes last */
		sh_outbox_put_standby(qp->paths.routes[k], &ids, standby);
}

/*
 * Returns the reason that the peer is told. A key that no region has is the program's error. Behind
 * a count that lacks receives is this end's queue, not its NIC. Where the program did not poll, the
 * error is a program's for the peer.
 */
static enum sc_reason message_reason(const struct sh_qp *qp,
				     const struct sc_msg_state *state) SH_LOCKED
{
	if (state->reason == SC_REASON_KEY && qp->error.erred)
		return SC_REASON_APPLICATION;
	if (state->reason != SC_REASON_DEVICE || !sh_carriers_unseen(qp))
		return (enum sc_reason)state->reason;
	return sh_carriers_outran(qp) ? SC_REASON_PEER_APPLICATION : SC_REASON_OVERRUN;
}

/* Sends STATE over every live path: whichever died, another one carries it. */
void sh_messages_send_state(struct sh_qp *qp, const struct sc_msg_state *state)
{
	struct sh_wire_ids ids = message_ids(qp);
	struct sc_msg_state told = *state;
	uint32_t k;

	if (!qp->peer)
		return;
	told.reason = (uint8_t)message_reason(qp, state);
	for (k = qp->paths.n; k-- > 0;) /* the path that is being left comes last */
		sh_outbox_put_state(qp->paths.routes[k], &ids, &told);
}

void sh_messages_send_home(struct sh_qp *qp, const struct sc_msg_home *home)
{
	struct sh_wire_ids ids = message_ids(qp);
	uint32_t k;

	if (!qp->peer || !(qp->peer->caps & SH_WIRE_CAP_HOME))
		return;
	for (k = qp->paths.n; k-- > 0;)
		sh_outbox_put_home(qp->paths.routes[k], &ids, home);
}

void sh_messages_send_word(struct sh_qp *qp, const struct sh_wire_word *word)
{
	struct sh_wire_ids ids = message_ids(qp);

	for (uint32_t k = qp->peer ? qp->paths.n : 0; k-- > 0;)
		sh_outbox_put_word(qp->paths.routes[k], &ids, word);
}

void sh_messages_send_log(struct sh_qp *qp, const struct sh_wire_log *log)
{
	struct sh_wire_ids ids = message_ids(qp);

	for (uint32_t k = qp->peer ? qp->paths.n : 0; k-- > 0;)
		sh_outbox_put_log(qp->paths.routes[k], &ids, log);
}

void sh_messages_send_inquiry(struct sh_qp *qp, const struct sh_wire_inquiry *inquiry)
{
	struct sh_wire_ids ids = message_ids(qp);

	for (uint32_t k = qp->peer ? qp->paths.n : 0; k-- > 0;)
		sh_outbox_put_inquiry(qp->paths.routes[k], &ids, inquiry);
}
