/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Control messages: their names, and writing them. */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include "kvclient/kv.h"
#include "shiftlib/control/wire_form.h"

/* ---- writing -------------------------------------------------------------------------------- */

void sh_wire_begin(struct sh_wire_writer *writer, void *buf, size_t capacity, uint64_t src_instance,
		   uint64_t dst_instance)
{
	assert(capacity >= sizeof(struct wire_header));
	writer->buf = buf;
	writer->capacity = capacity < SH_WIRE_MAX ? capacity : SH_WIRE_MAX;
	writer->used = sizeof(struct wire_header);
	writer->n_records = 0;
	writer->src_instance = src_instance;
	writer->dst_instance = dst_instance;
}

/*
 * Adds the record's header and room for its zeroed body. Returns the body's place, or NULL if full.
 */
static void *writer_add(struct sh_wire_writer *writer, enum sh_wire_type type,
			const struct sh_wire_ids *ids, size_t body)
{
	static const struct sh_wire_ids none;
	const struct sh_wire_ids *about = ids ? ids : &none;
	size_t length = sizeof(struct wire_record) + body;
	struct wire_record record = {
		.type = htole16((uint16_t)type),
		.length = htole16((uint16_t)length),
		.src_conn = htole32(about->src_conn),
		.dst_conn = htole32(about->dst_conn),
		.nonce = htole32(about->nonce),
	};
	uint8_t *at = writer->buf + writer->used;

	if (length > writer->capacity - writer->used)
		return NULL;
	memcpy(at, &record, sizeof(record));
	writer->used += length;
	writer->n_records++;
	return at + sizeof(record);
}

static int writer_put(struct sh_wire_writer *writer, enum sh_wire_type type,
		      const struct sh_wire_ids *ids, const void *body, size_t length)
{
	void *at = writer_add(writer, type, ids, length);

	if (!at)
		return -ENOSPC;
	if (length)
		memcpy(at, body, length);
	return 0;
}

int sh_wire_put_standby(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
			const struct sc_msg_standby *standby)
{
	struct wire_standby wire = {
		.epoch = htole32(standby->epoch),
		.phase = standby->phase,
		.seen = standby->seen,
		.nic = standby->address.nic,
		.mtu = standby->address.mtu,
		.qpn = htole32(standby->address.qpn),
		.psn = htole32(standby->address.psn),
		.lid = htole16(standby->address.lid),
		.ask = standby->ask,
		.lazy = standby->lazy,
		.path = standby->path,
		.up = standby->up,
		.steady = standby->steady,
		.drained = standby->drained,
		.masks_no = standby->masks_no,
		.masks_seen = standby->masks_seen,
		.pkey = htole16(standby->address.pkey),
		.vlan = htole16(standby->address.vlan),
		.beyond = standby->beyond,
		.reads = standby->address.reads,
		.stays = standby->stays,
		.homed = standby->homed,
		.order = htole32(standby->order),
		.cannot = htole32(standby->cannot),
	};

	memcpy(wire.gid, standby->address.gid, sizeof(wire.gid));
	return writer_put(writer, SH_WIRE_STANDBY, ids, &wire, sizeof(wire));
}

int sh_wire_put_state(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
		      const struct sc_msg_state *state)
{
	struct wire_state wire = {
		.epoch = htole32(state->epoch),
		.seen_epoch = htole32(state->seen_epoch),
		.recv_count = htole32(state->recv_count),
		.leaving = state->leaving,
		.final = state->final,
		.quiesced = state->quiesced,
		.flags = state->flags,
		.reason = state->reason,
		.ask = state->ask,
		.phase = state->phase,
		.stranded = state->stranded,
		.target = htole32(state->target),
		.switch_no = htole32(state->switch_no),
		.lost = htole32(state->lost),
		.dead = htole32(state->dead),
		.cut = htole32(state->cut),
		.wants = state->wants,
		.exact = state->exact,
		.exact_seen = state->exact_seen,
		.wants_of = htole32(state->wants_of),
		.exact_of = htole32(state->exact_of),
		.exact_psn = htole32(state->exact_psn),
		.stay = state->stay,
		.stay_no = htole32(state->stay_no),
	};

	return writer_put(writer, SH_WIRE_STATE, ids, &wire, sizeof(wire));
}

int sh_wire_put_home(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
		     const struct sc_msg_home *home)
{
	struct wire_home wire = {
		.bar_no = htole32(home->bar_no),
		.bar_seen = htole32(home->bar_seen),
		.used_of = htole32(home->used_of),
		.wants_of = htole32(home->wants_of),
		.granted_of = htole32(home->granted_of),
		.used = home->used,
		.wants = home->wants,
		.granted = home->granted,
		.why = home->why,
		.ask = home->ask,
	};

	return writer_put(writer, SH_WIRE_HOME, ids, &wire, sizeof(wire));
}

int sh_wire_put_word(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
		     const struct sh_wire_word *word)
{
	struct wire_word wire = {
		.carrier = htole32(word->carrier),
		.rkey = htole32(word->rkey),
		.addr = htole64(word->addr),
		.value = htole64(word->value),
		.kind = word->kind,
	};

	return writer_put(writer, SH_WIRE_WORD, ids, &wire, sizeof(wire));
}

int sh_wire_put_log(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
		    const struct sh_wire_log *log)
{
	struct wire_log wire = {
		.carrier = htole32(log->carrier),
		.rkey = htole32(log->rkey),
		.addr = htole64(log->addr),
		.tag = htole32(log->tag),
		.number = htole32(log->number),
		.kind = log->kind,
		.why = log->why,
	};

	return writer_put(writer, SH_WIRE_LOG, ids, &wire, sizeof(wire));
}

int sh_wire_put_inquiry(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
			const struct sh_wire_inquiry *inquiry)
{
	struct wire_inquiry wire = {
		.carrier = htole32(inquiry->carrier),
		.kind = inquiry->kind,
		.status = inquiry->status,
	};

	return writer_put(writer, SH_WIRE_INQUIRY, ids, &wire, sizeof(wire));
}

int sh_wire_put_unknown(struct sh_wire_writer *writer, const struct sh_wire_ids *ids)
{
	return writer_put(writer, SH_WIRE_UNKNOWN, ids, NULL, 0);
}

static size_t writer_keys_room(const struct sh_wire_writer *writer)
{
	size_t fixed = sizeof(struct wire_record) + sizeof(struct wire_keys);
	size_t left = writer->capacity - writer->used;

	return left < fixed ? 0 : (left - fixed) / sizeof(struct wire_key);
}

static struct wire_key key_encode(const struct sh_wire_key *key)
{
	return (struct wire_key){
		.op = key->op,
		.nic = key->nic,
		.backup_nic = key->backup_nic,
		.rkey = htole32(key->rkey),
		.backup_rkey = htole32(key->backup_rkey),
	};
}

int sh_wire_put_keys(struct sh_wire_writer *writer, uint32_t first_seq,
		     const struct sh_wire_key *keys, size_t n)
{
	size_t room = writer_keys_room(writer), i;
	struct wire_keys *wire;

	if (n > room)
		n = room;
	if (!n)
		return -ENOSPC;
	wire = writer_add(writer, SH_WIRE_KEYS, NULL, sizeof(*wire) + n * sizeof(wire->keys[0]));
	if (!wire)
		return -ENOSPC;
	wire->first_seq = htole32(first_seq);
	wire->n = htole16((uint16_t)n);
	wire->reserved = 0;
	for (i = 0; i < n; i++)
		wire->keys[i] = key_encode(&keys[i]);
	return (int)n;
}

static int writer_put_seq(struct sh_wire_writer *writer, enum sh_wire_type type, uint32_t seq)
{
	struct wire_seq wire = { .seq = htole32(seq) };

	return writer_put(writer, type, NULL, &wire, sizeof(wire));
}

int sh_wire_put_keys_ack(struct sh_wire_writer *writer, uint32_t seq)
{
	return writer_put_seq(writer, SH_WIRE_KEYS_ACK, seq);
}

int sh_wire_put_key_ask(struct sh_wire_writer *writer, uint32_t seq)
{
	return writer_put_seq(writer, SH_WIRE_KEY_ASK, seq);
}

static struct wire_nic nic_encode(const struct sh_wire_nic *nic)
{
	struct wire_nic wire = {
		.nic = nic->nic,
		.link_layer = nic->address.link_layer,
		.mtu = nic->address.mtu,
		.revision = htole32(nic->revision),
		.lid = htole16(nic->address.lid),
		.qpn = htole32(nic->address.qpn),
		.qkey = htole32(nic->address.qkey),
	};

	memcpy(wire.gid, nic->address.gid, sizeof(wire.gid));
	return wire;
}

int sh_wire_put_nics(struct sh_wire_writer *writer, const struct sh_wire_nic *nics, uint32_t n)
{
	struct wire_nic *wire;
	uint32_t i;

	if (!n || n > SH_WIRE_NICS_MAX)
		return -ENOSPC;
	wire = writer_add(writer, SH_WIRE_NICS, NULL, n * sizeof(*wire));
	if (!wire)
		return -ENOSPC;
	for (i = 0; i < n; i++)
		wire[i] = nic_encode(&nics[i]);
	return 0;
}

int sh_wire_put_nics_ack(struct sh_wire_writer *writer, uint32_t seq)
{
	return writer_put_seq(writer, SH_WIRE_NICS_ACK, seq);
}

static int writer_put_ping(struct sh_wire_writer *writer, enum sh_wire_type type,
			   const struct sh_wire_ping *ping)
{
	struct wire_ping wire = { .seq = htole32(ping->seq), .nic = ping->nic };

	return writer_put(writer, type, NULL, &wire, sizeof(wire));
}

int sh_wire_put_ping(struct sh_wire_writer *writer, const struct sh_wire_ping *ping)
{
	return writer_put_ping(writer, SH_WIRE_PING, ping);
}

int sh_wire_put_pong(struct sh_wire_writer *writer, const struct sh_wire_ping *ping)
{
	return writer_put_ping(writer, SH_WIRE_PONG, ping);
}

size_t sh_wire_end(struct sh_wire_writer *writer)
{
	struct wire_header header = {
		.magic = htole32(SH_WIRE_MAGIC),
		.protocol = KV_PROTOCOL,
		.n_records = htole16(writer->n_records),
		.src_instance = htole64(writer->src_instance),
		.dst_instance = htole64(writer->dst_instance),
		.length = htole32((uint32_t)writer->used),
	};

	memcpy(writer->buf, &header, sizeof(header));
	return writer->n_records ? writer->used : 0;
}
