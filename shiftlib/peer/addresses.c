/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The addresses of NICs: ours, told to peers when they change, and peers' own, as told by them. */
#include "shiftlib/base/util.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/addresses.h"
#include "shiftlib/peer/peer.h"

#define ADDRESSES_MIN_NS (2 * SH_NS_PER_MS) /* news are told again, doubling */
#define ADDRESSES_MAX_NS SH_NS_PER_S

/*
 * Collects as many as fit of the revisions that the peer does not know, the earliest first. Returns
 * their number.
 */
static uint32_t addresses_news(uint32_t known, struct sh_wire_nic *news, uint32_t max)
{
	struct sh_nic *next = NULL;
	uint32_t n, i;

	for (n = 0; n < max; n++, known = next->revision) {
		next = NULL;
		for (i = 0; i < sh_nics.n; i++)
			if (sh_revision_later(sh_nics.nic[i].revision, known) &&
			    (!next || sh_revision_later(next->revision, sh_nics.nic[i].revision)))
				next = &sh_nics.nic[i];
		if (!next)
			return n;
		news[n] = (struct sh_wire_nic){ .nic = next->index,
						.revision = next->revision,
						.address = next->address };
	}
	return n;
}

void sh_addresses_send(struct sh_peer *peer, uint64_t now)
{
	struct sh_wire_nic news[SH_WIRE_NICS_MAX];
	uint32_t n = addresses_news(peer->nics_acked, news, SH_WIRE_NICS_MAX);
	struct sh_wire_writer writer;
	uint8_t buf[512];

	peer->nics_resend_at = 0;
	if (!n || !peer->conns)
		return;
	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, peer->instance);
	if (!sh_wire_put_nics(&writer, news, n))
		sh_peer_send_any(peer, buf, sh_wire_end(&writer));
	peer->nics_interval = peer->nics_interval ? peer->nics_interval * 2 : ADDRESSES_MIN_NS;
	if (peer->nics_interval > ADDRESSES_MAX_NS)
		peer->nics_interval = ADDRESSES_MAX_NS;
	peer->nics_resend_at = now + peer->nics_interval;
}

void sh_addresses_acked(struct sh_peer *peer, uint32_t seq)
{
	if (!sh_revision_later(seq, peer->nics_acked) || sh_revision_later(seq, sh_nics.revision))
		return;
	peer->nics_acked = seq;
	peer->nics_interval = 0;
	sh_addresses_send(peer, sh_now_ns());
}

void sh_addresses_heard(struct sh_peer *peer, const struct sh_wire_record *record)
{
	struct sh_wire_writer writer;
	uint8_t buf[128];
	uint32_t i, last = 0;

	for (i = 0; i < record->nics.n; i++) {
		const struct sh_wire_nic *nic = &record->nics.nic[i];

		if (nic->nic < SH_MAX_NICS &&
		    sh_peer_learn(peer, nic->nic, &nic->address, nic->revision))
			return; /* the peer repeats it */
		last = nic->revision;
	}
	sh_wire_begin(&writer, buf, sizeof(buf), sh.instance, peer->instance);
	sh_wire_put_nics_ack(&writer, last);
	sh_peer_send_any(peer, buf, sh_wire_end(&writer));
}
