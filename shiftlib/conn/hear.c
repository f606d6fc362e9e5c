/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The records that a connection hears of its other end. Each goes to the core, or to the part
 * that knows its kind.
 */
#include <string.h>
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"

static struct sh_qp *hear_conn(const struct sh_peer *peer,
			       const struct sh_wire_record *record) SH_LOCKED
{
	struct sh_qp *qp = sh_conns_find(record->ids.dst_conn);

	if (!qp || qp->nonce != record->ids.nonce)
		return NULL;
	if (!qp->peer || qp->peer == peer)
		return qp;
	/* a newer entry in the KV than ours names the connection */
	SH_PARTS_TELL(news.hinted, qp);
	return NULL;
}

/*
 * Answers with the nonce that nobody has here: at the other end the number may be a new
 * connection's.
 */
static void hear_answer_unknown(struct sh_peer *peer, const struct sh_wire_record *record)
{
	struct sh_wire_ids ids = { .src_conn = record->ids.dst_conn,
				   .dst_conn = record->ids.src_conn,
				   .nonce = record->ids.nonce };
	struct sh_wire_writer writer;
	uint8_t buf[128];

	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, peer->instance);
	sh_wire_put_unknown(&writer, &ids);
	sh_peer_send_any(peer, buf, sh_wire_end(&writer));
}

/*
 * Before the peer has shown that it heard us, it means that we know it by an old entry of the KV:
 * there is a newer one, or will be.
 */
void sh_news_peer_unknown(struct sh_peer *peer, const struct sh_wire_record *record)
{
	struct sh_qp *qp = sh_conns_find(record->ids.dst_conn);

	if (qp && qp->peer == peer && qp->other.heard && qp->other.conn == record->ids.src_conn &&
	    qp->other.nonce == record->ids.nonce)
		sh_conn_simple(qp, SC_EV_MSG_UNKNOWN, SC_REASON_PEER_CLOSED);
}

/* True if the record answers what this end said: then the peer knows this connection. */
static bool hear_answers(const struct sh_wire_record *record)
{
	return record->type == SH_WIRE_STATE || record->standby.seen || record->standby.masks_seen;
}

/*
 * STATE goes over every path. One that has come over another one is told apart from its repetition,
 * which comes over the same one again: an answer to each copy would multiply what is said.
 */
static bool hear_copy(struct sh_qp *qp, const struct sh_nic *nic, const struct sc_msg_state *state)
{
	uint32_t bit = 1u << nic->index;
	bool same = qp->line.heard.nics && !memcmp(&qp->line.heard.state, state, sizeof(*state));

	if (same && !(qp->line.heard.nics & bit)) {
		qp->line.heard.nics |= bit;
		return true;
	}
	qp->line.heard.state = *state;
	qp->line.heard.nics = bit;
	return false;
}

void sh_news_peer_message(struct sh_peer *peer, const struct sh_nic *nic,
			  const struct sh_wire_record *record)
{
	struct sh_qp *qp = hear_conn(peer, record);
	struct sc_event event = { .type = SC_EV_MSG_STATE };
	bool left;

	if (!qp) {
		hear_answer_unknown(peer, record);
		return;
	}
	if (!qp->peer) { /* we have not read its entry yet: it sends again */
		SH_PARTS_TELL(news.hinted, qp);
		return;
	}
	qp->other.heard |= hear_answers(record);
	if (record->type == SH_WIRE_STANDBY) {
		event.type = SC_EV_MSG_STANDBY;
		event.standby = record->standby;
	} else {
		event.state = record->state;
		if (!event.state.flags && (event.state.reason == SC_REASON_OVERRUN ||
					   event.state.reason == SC_REASON_PEER_APPLICATION)) {
			qp->error.peer_overran = true;
			qp->error.peer_outran = event.state.reason == SC_REASON_PEER_APPLICATION;
			event.state.reason =
				SC_REASON_DEVICE; /* for the core it is a dead carrier */
		}
		event.copy = hear_copy(qp, nic, &record->state);
	}
	left = qp->core.peer.quiesced;
	sh_conn_event(qp, &event);
	if (!left && qp->core.peer.quiesced)
		sh_quiesce_peer_left(qp);
}

void sh_news_peer_told(struct sh_peer *peer, const struct sh_wire_record *record)
{
	struct sh_qp *qp = hear_conn(peer, record);

	if (!qp)
		hear_answer_unknown(peer, record);
	else if (qp->peer)
		(void)SH_PARTS_ASK(news.message, qp, record);
}

/*
 * An instance that is not introduced yet speaks: it has read our entry, so its own entries are
 * there.
 */
void sh_news_peer_stranger(const struct sh_wire_record *record)
{
	struct sh_qp *qp = sh_conns_find(record->ids.dst_conn);

	if (qp && qp->nonce == record->ids.nonce)
		SH_PARTS_TELL(news.hinted, qp);
}
