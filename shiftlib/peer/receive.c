/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The receiver of peers' datagrams: checks who may say what, and hands records on. */
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/control/auth.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/addresses.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/peer/peer.h"

/* least time between two log lines about refused datagrams */
#define RECEIVE_REFUSED_NS (60 * SH_NS_PER_S)

/*
 * Takes a heartbeat, which is about the pair of NICs that it came over, whichever connections use
 * it.
 */
static void receive_ping(struct sh_peer *peer, const struct sh_nic *nic,
			 const struct sh_wire_record *record) SH_LOCKED
{
	struct sh_peer_path *path = sh_peer_path(peer, nic, record->ping.nic);

	if (path && record->type == SH_WIRE_PING)
		sh_heartbeat_ping_heard(path, record->ping.seq);
	else if (path)
		sh_heartbeat_pong_heard(path, record->ping.seq);
}

static void receive_record(struct sh_peer *peer, const struct sh_nic *nic,
			   const struct sh_wire_record *record) SH_LOCKED
{
	switch (record->type) {
	case SH_WIRE_STANDBY:
	case SH_WIRE_STATE: sh_news_peer_message(peer, nic, record); break;
	case SH_WIRE_HOME:
	case SH_WIRE_WORD:
	case SH_WIRE_LOG:
	case SH_WIRE_INQUIRY: sh_news_peer_told(peer, record); break;
	case SH_WIRE_UNKNOWN: sh_news_peer_unknown(peer, record); break;
	case SH_WIRE_KEYS: sh_keys_heard(peer, record); break;
	case SH_WIRE_KEYS_ACK: sh_keys_acked(peer, record->seq); break;
	case SH_WIRE_KEY_ASK: sh_keys_asked(peer, record->seq); break;
	case SH_WIRE_NICS: sh_addresses_heard(peer, record); break;
	case SH_WIRE_NICS_ACK: sh_addresses_acked(peer, record->seq); break;
	case SH_WIRE_PING:
	case SH_WIRE_PONG: receive_ping(peer, nic, record); break;
	case SH_WIRE_TYPES: break;
	}
}

static void receive_tell_soon(struct sh_peer *peer)
{
	peer->keys_interval = peer->nics_interval = 0;
	peer->keys_resend_at = peer->nics_resend_at = sh_now_ns();
}

/* Logs one line for each peer, now and then; the status has all. */
static void receive_refused(struct sh_peer *peer, uint64_t instance, enum sh_refusal refusal)
{
	struct sh_refused *refused = peer ? &peer->refused : &sh_peers.strangers;
	uint64_t now = sh_now_ns();

	sh_peers.refused[refusal]++;
	refused->n++;
	if (refused->said_at && now - refused->said_at < RECEIVE_REFUSED_NS)
		return;
	refused->said_at = now;
	sh_log(SH_LOG_WARN,
	       "a datagram in the name of %s %016llx is refused, as it is %s (%u refused so far)",
	       peer ? "peer" : "an unknown instance", (unsigned long long)instance,
	       sh_refusal_name(refusal), refused->n);
}

static enum sh_refusal receive_check(struct sh_peer *peer, const struct sh_nic *nic,
				     const struct sh_wire_header *header,
				     const struct sh_wire_reader *reader, size_t length)
{
	if (!sh_peers.auths.root)
		return SH_REFUSED_NOT;
	if (!peer)
		return sh_auth_stranger(&sh_peers.auths, header->src_instance, reader->buf,
					reader->length, length);
	return sh_auth_check(peer->auth, nic->index, reader->buf, reader->length, length);
}

/*
 * Takes a datagram of an instance not introduced yet. Senders have read the entries of their peers,
 * so their own entries are there.
 */
static void receive_from_stranger(struct sh_wire_reader *reader) SH_LOCKED
{
	struct sh_wire_record record;

	while (sh_wire_next(reader, &record) == 1)
		if (record.type == SH_WIRE_STANDBY || record.type == SH_WIRE_STATE)
			sh_news_peer_stranger(&record);
}

static void receive_from_peer(struct sh_peer *peer, const struct sh_nic *nic,
			      struct sh_wire_reader *reader) SH_LOCKED
{
	struct sh_wire_record record;
	int ret;

	if (!peer->heard_at) /* the peer knows us by now: news that it missed is due */
		receive_tell_soon(peer);
	peer->heard_at = sh_now_ns();
	if (peer->keys_silent)
		sh_keys_back(peer);
	while ((ret = sh_wire_next(reader, &record)) == 1)
		receive_record(peer, nic, &record);
	if (ret)
		receive_refused(peer, peer->instance, SH_REFUSED_DAMAGED);
}

static void receive_datagram(void *nic, const void *buf, size_t length) SH_LOCKED
{
	struct sh_wire_header header = { 0 };
	struct sh_wire_reader reader;
	enum sh_refusal refusal = SH_REFUSED_DAMAGED;
	struct sh_peer *peer = NULL;

	if (!sh_wire_open(&reader, buf, length, &header)) {
		peer = sh_peer_find(header.src_instance);
		refusal = header.dst_instance == sh.instance
				  ? receive_check(peer, nic, &header, &reader, length)
				  : SH_REFUSED_ASTRAY;
	}
	if (refusal)
		receive_refused(peer, header.src_instance, refusal);
	else if (peer)
		receive_from_peer(peer, nic, &reader);
	else
		receive_from_stranger(&reader);
}

int sh_news_nic_datagrams(struct sh_nic *nic)
{
	int n;

	sh_outbox_hold();
	do { /* a full batch leaves the completion channel unarmed */
		n = sh_control_poll(nic->control, receive_datagram, nic);
	} while (n == SH_CONTROL_RECEIVES);
	sh_outbox_release();
	return n;
}
