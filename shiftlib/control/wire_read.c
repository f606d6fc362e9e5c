/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The reader of control messages, which come from anybody. */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include "kvclient/kv.h"
#include "shiftlib/control/wire_form.h"

int sh_wire_open(struct sh_wire_reader *reader, const void *buf, size_t length,
		 struct sh_wire_header *header)
{
	struct wire_header wire;

	memset(reader, 0, sizeof(*reader));
	if (length < sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, buf, sizeof(wire));
	if (le32toh(wire.magic) != SH_WIRE_MAGIC)
		return -EBADMSG;
	if (wire.protocol != KV_PROTOCOL)
		return -EPROTONOSUPPORT;
	if (le32toh(wire.length) < sizeof(wire) || le32toh(wire.length) > length)
		return -EBADMSG;
	header->src_instance = le64toh(wire.src_instance);
	header->dst_instance = le64toh(wire.dst_instance);
	header->n_records = le16toh(wire.n_records);
	reader->buf = buf;
	reader->length = le32toh(wire.length);
	reader->at = sizeof(wire);
	reader->records_left = header->n_records;
	return 0;
}

/*
 * True if the peer's queue pair is at a valid place: a GID or LID of one host, and no number of
 * management. Valid too: no queue pair yet. The link layer is not told; on Ethernet there is no
 * LID.
 */
static bool standby_place_valid(const struct sc_address *address)
{
	static const uint8_t none[16];
	bool gid = memcmp(address->gid, none, sizeof(none));

	if (!address->qpn)
		return true;
	if (!kv_qpn_valid(address->qpn) || (gid && !kv_gid_valid(address->gid)))
		return false;
	return gid || kv_lid_valid(address->lid);
}

static bool nic_place_valid(const struct sh_address *address)
{
	if (!address->qpn)
		return true;
	if (!kv_qpn_valid(address->qpn))
		return false;
	return address->link_layer == IBV_LINK_LAYER_ETHERNET ? kv_gid_valid(address->gid)
							      : kv_lid_valid(address->lid);
}

static int read_standby(struct sc_msg_standby *standby, const uint8_t *body, size_t length)
{
	struct wire_standby wire;

	if (length != sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	standby->epoch = le32toh(wire.epoch);
	standby->phase = wire.phase;
	standby->seen = wire.seen;
	standby->ask = wire.ask;
	standby->lazy = wire.lazy;
	standby->path = wire.path;
	standby->up = wire.up;
	standby->steady = wire.steady;
	standby->drained = wire.drained;
	standby->masks_no = wire.masks_no;
	standby->masks_seen = wire.masks_seen;
	standby->address.nic = wire.nic;
	standby->address.mtu = wire.mtu;
	standby->address.lid = le16toh(wire.lid);
	standby->address.qpn = le32toh(wire.qpn);
	standby->address.psn = le32toh(wire.psn);
	standby->address.pkey = le16toh(wire.pkey);
	standby->address.vlan = le16toh(wire.vlan);
	standby->beyond = wire.beyond;
	standby->address.reads = wire.reads;
	standby->stays = wire.stays;
	standby->homed = wire.homed;
	standby->order = le32toh(wire.order);
	standby->cannot = le32toh(wire.cannot);
	memcpy(standby->address.gid, wire.gid, sizeof(wire.gid));
	if (standby->phase > SC_STANDBY_FAILED || standby->seen > SC_STANDBY_FAILED ||
	    standby->ask > 1 || standby->lazy > 1 || standby->beyond > 1 ||
	    standby->address.mtu > IBV_MTU_4096 || !standby_place_valid(&standby->address) ||
	    standby->address.psn > WIRE_PSN_MAX || standby->path >= SC_MAX_PATHS ||
	    standby->stays > SC_STAYS_ATOMICS || !sc_order_valid(standby->order))
		return -EBADMSG;
	return 0;
}

static int read_state_exact(struct sc_msg_state *state, const struct wire_state *wire)
{
	state->wants = wire->wants;
	state->exact = wire->exact;
	state->exact_seen = wire->exact_seen;
	state->wants_of = le32toh(wire->wants_of);
	state->exact_of = le32toh(wire->exact_of);
	state->exact_psn = le32toh(wire->exact_psn);
	return state->wants > 1 || state->exact_seen > 1 || state->exact >= SC_EXACTS ||
			       state->exact_psn > WIRE_PSN_MAX
		       ? -EBADMSG
		       : 0;
}

static int read_state_stay(struct sc_msg_state *state, const struct wire_state *wire)
{
	state->stay = wire->stay;
	state->stay_no = le32toh(wire->stay_no);
	return state->stay >= SC_STAYS_TOLD ? -EBADMSG : 0;
}

static int read_state(struct sc_msg_state *state, const uint8_t *body, size_t length)
{
	struct wire_state wire;

	if (length != sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	state->epoch = le32toh(wire.epoch);
	state->seen_epoch = le32toh(wire.seen_epoch);
	state->recv_count = le32toh(wire.recv_count);
	state->leaving = wire.leaving;
	state->final = wire.final;
	state->quiesced = wire.quiesced;
	state->flags = wire.flags;
	state->reason = wire.reason;
	state->ask = wire.ask;
	state->phase = wire.phase;
	state->stranded = wire.stranded;
	state->target = le32toh(wire.target);
	state->switch_no = le32toh(wire.switch_no);
	state->lost = le32toh(wire.lost);
	state->dead = le32toh(wire.dead);
	state->cut = le32toh(wire.cut);
	if (state->leaving > 1 || state->final > 1 || state->quiesced > 1 || state->ask > 1 ||
	    state->flags & ~WIRE_FLAGS || state->reason >= SC_REASONS ||
	    state->phase > SC_SWITCH_CANCEL || state->stranded > 1)
		return -EBADMSG;
	return read_state_exact(state, &wire) ? -EBADMSG : read_state_stay(state, &wire);
}

static int read_home(struct sc_msg_home *home, const uint8_t *body, size_t length)
{
	struct wire_home wire;

	if (length != sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	*home = (struct sc_msg_home){
		.bar_no = le32toh(wire.bar_no),
		.bar_seen = le32toh(wire.bar_seen),
		.used_of = le32toh(wire.used_of),
		.wants_of = le32toh(wire.wants_of),
		.granted_of = le32toh(wire.granted_of),
		.used = wire.used,
		.wants = wire.wants,
		.granted = wire.granted,
		.why = wire.why,
		.ask = wire.ask,
	};
	return home->used > 1 || home->wants > 1 || home->granted > 1 || home->ask > 1 ||
			       home->why >= SC_HOME_WHYS
		       ? -EBADMSG
		       : 0;
}

static int read_word(struct sh_wire_word *word, const uint8_t *body, size_t length)
{
	struct wire_word wire;

	if (length != sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	*word = (struct sh_wire_word){
		.carrier = le32toh(wire.carrier),
		.rkey = le32toh(wire.rkey),
		.addr = le64toh(wire.addr),
		.value = le64toh(wire.value),
		.kind = wire.kind,
	};
	return word->kind >= SH_WIRE_WORD_KINDS ? -EBADMSG : 0;
}

static int read_log(struct sh_wire_log *log, const uint8_t *body, size_t length)
{
	struct wire_log wire;

	if (length != sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	*log = (struct sh_wire_log){
		.carrier = le32toh(wire.carrier),
		.rkey = le32toh(wire.rkey),
		.addr = le64toh(wire.addr),
		.tag = le32toh(wire.tag),
		.number = le32toh(wire.number),
		.kind = wire.kind,
		.why = wire.why,
	};
	return log->kind >= SH_WIRE_LOG_KINDS || log->why >= SH_WIRE_LOG_WHYS ? -EBADMSG : 0;
}

static int read_inquiry(struct sh_wire_inquiry *inquiry, const uint8_t *body, size_t length)
{
	struct wire_inquiry wire;

	if (length != sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	*inquiry = (struct sh_wire_inquiry){
		.carrier = le32toh(wire.carrier),
		.kind = wire.kind,
		.status = wire.status,
	};
	return inquiry->kind >= SH_WIRE_INQUIRY_KINDS ? -EBADMSG : 0;
}

static struct wire_key key_at(const uint8_t *raw, uint32_t i)
{
	struct wire_key key;

	memcpy(&key, raw + i * sizeof(key), sizeof(key));
	return key;
}

static int read_keys(struct sh_wire_record *record, const uint8_t *body, size_t length)
{
	struct wire_keys wire;
	uint32_t i;

	if (length < sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	record->keys.first_seq = le32toh(wire.first_seq);
	record->keys.n = le16toh(wire.n);
	record->keys.raw = body + sizeof(wire);
	if (length != sizeof(wire) + record->keys.n * sizeof(struct wire_key))
		return -EBADMSG;
	for (i = 0; i < record->keys.n; i++)
		if (key_at(record->keys.raw, i).op >= SH_WIRE_KEY_OPS)
			return -EBADMSG;
	return 0;
}

static int read_seq(uint32_t *seq, const uint8_t *body, size_t length)
{
	struct wire_seq wire;

	if (length != sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	*seq = le32toh(wire.seq);
	return 0;
}

static int read_ping(struct sh_wire_ping *ping, const uint8_t *body, size_t length)
{
	struct wire_ping wire;

	if (length != sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	*ping = (struct sh_wire_ping){ .seq = le32toh(wire.seq), .nic = wire.nic };
	return 0;
}

static int read_nic(struct sh_wire_nic *nic, const uint8_t *body)
{
	struct wire_nic wire;

	memcpy(&wire, body, sizeof(wire));
	nic->nic = wire.nic;
	nic->revision = le32toh(wire.revision);
	nic->address = (struct sh_address){
		.lid = le16toh(wire.lid),
		.link_layer = wire.link_layer,
		.mtu = wire.mtu,
		.qpn = le32toh(wire.qpn),
		.qkey = le32toh(wire.qkey),
	};
	memcpy(nic->address.gid, wire.gid, sizeof(wire.gid));
	if (wire.mtu > IBV_MTU_4096 || !nic_place_valid(&nic->address) ||
	    (wire.link_layer != IBV_LINK_LAYER_INFINIBAND &&
	     wire.link_layer != IBV_LINK_LAYER_ETHERNET))
		return -EBADMSG;
	return 0;
}

static int read_nics(struct sh_wire_record *record, const uint8_t *body, size_t length)
{
	uint32_t n = (uint32_t)(length / sizeof(struct wire_nic)), i;
	int ret = 0;

	if (!n || n > SH_WIRE_NICS_MAX || length != n * sizeof(struct wire_nic))
		return -EBADMSG;
	record->nics.n = n;
	for (i = 0; i < n && !ret; i++)
		ret = read_nic(&record->nics.nic[i], body + i * sizeof(struct wire_nic));
	return ret;
}

static int read_body(struct sh_wire_record *record, const uint8_t *body, size_t length)
{
	switch (record->type) {
	case SH_WIRE_STANDBY: return read_standby(&record->standby, body, length);
	case SH_WIRE_STATE: return read_state(&record->state, body, length);
	case SH_WIRE_HOME: return read_home(&record->home, body, length);
	case SH_WIRE_WORD: return read_word(&record->word, body, length);
	case SH_WIRE_LOG: return read_log(&record->log, body, length);
	case SH_WIRE_INQUIRY: return read_inquiry(&record->inquiry, body, length);
	case SH_WIRE_UNKNOWN: return length ? -EBADMSG : 0;
	case SH_WIRE_KEYS: return read_keys(record, body, length);
	case SH_WIRE_NICS: return read_nics(record, body, length);
	case SH_WIRE_KEYS_ACK:
	case SH_WIRE_NICS_ACK:
	case SH_WIRE_KEY_ASK: return read_seq(&record->seq, body, length);
	case SH_WIRE_PING:
	case SH_WIRE_PONG: return read_ping(&record->ping, body, length);
	case SH_WIRE_TYPES: break;
	}
	return -EBADMSG;
}

/* Takes the header and body of the next record. */
static int reader_take(struct sh_wire_reader *reader, struct wire_record *wire,
		       const uint8_t **body)
{
	size_t left = reader->length - reader->at, length;

	if (left < sizeof(*wire))
		return -EBADMSG;
	memcpy(wire, reader->buf + reader->at, sizeof(*wire));
	length = le16toh(wire->length);
	if (length < sizeof(*wire) || length > left || length % 4)
		return -EBADMSG;
	*body = reader->buf + reader->at + sizeof(*wire);
	reader->at += length;
	reader->records_left--;
	return 0;
}

static int reader_next(struct sh_wire_reader *reader, struct sh_wire_record *record)
{
	struct wire_record wire;
	const uint8_t *body;
	uint16_t type;
	int ret;

	if (!reader->records_left)
		return 0;
	ret = reader_take(reader, &wire, &body);
	if (ret)
		return ret;
	type = le16toh(wire.type);
	if (!type || type >= SH_WIRE_TYPES)
		return -EBADMSG;
	memset(record, 0, sizeof(*record));
	record->type = (enum sh_wire_type)type;
	record->ids.src_conn = le32toh(wire.src_conn);
	record->ids.dst_conn = le32toh(wire.dst_conn);
	record->ids.nonce = le32toh(wire.nonce);
	ret = read_body(record, body, le16toh(wire.length) - sizeof(wire));
	return ret ? ret : 1;
}

int sh_wire_next(struct sh_wire_reader *reader, struct sh_wire_record *record)
{
	int ret = reader_next(reader, record);

	if (ret < 0)
		reader->records_left = 0;
	return ret;
}

struct sh_wire_key sh_wire_key(const struct sh_wire_record *record, uint32_t i)
{
	struct wire_key wire;

	assert(record->type == SH_WIRE_KEYS && i < record->keys.n);
	wire = key_at(record->keys.raw, i);
	return (struct sh_wire_key){
		.op = wire.op,
		.nic = wire.nic,
		.backup_nic = wire.backup_nic,
		.rkey = le32toh(wire.rkey),
		.backup_rkey = le32toh(wire.backup_rkey),
	};
}
