/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/control/wire.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "kvclient/kv.h"

/* Packed, so that a datagram may lie at any address; all fields little-endian. */

struct wire_header {
	uint32_t magic;
	uint8_t major, minor;
	uint16_t n_records;
	uint64_t src_instance, dst_instance;
	uint32_t length; /* with this header */
	uint32_t reserved;
} __attribute__((packed));
static_assert(sizeof(struct wire_header) == 32, "wire form");

struct wire_record {
	uint16_t type;
	uint16_t length; /* with this header; a multiple of 4 */
	uint32_t src_conn, dst_conn, nonce;
} __attribute__((packed));
static_assert(sizeof(struct wire_record) == 16, "wire form");

struct wire_standby {
	uint32_t epoch;
	uint8_t phase, seen, nic, mtu;
	uint8_t gid[16];
	uint32_t qpn, psn;
	uint16_t lid;
	uint8_t ask, path;
	uint8_t up, steady, drained;
	uint8_t masks_no, masks_seen;
	uint8_t lazy; /* 3.0: reserved, so 0, and not read */
	uint8_t reserved[2];
} __attribute__((packed));
static_assert(sizeof(struct wire_standby) == 44, "wire form");

struct wire_state {
	uint32_t epoch, seen_epoch, recv_count;
	uint8_t leaving, final, quiesced, flags;
	uint8_t reason, ask, phase, stranded;
	uint32_t switch_no, target, lost;
} __attribute__((packed));
static_assert(sizeof(struct wire_state) == 32, "wire form");

struct wire_key {
	uint8_t op, nic, backup_nic, reserved;
	uint32_t rkey, backup_rkey;
} __attribute__((packed));
static_assert(sizeof(struct wire_key) == 12, "wire form");

struct wire_keys {
	uint32_t first_seq;
	uint16_t n;
	uint16_t reserved;
	struct wire_key keys[];
} __attribute__((packed));
static_assert(sizeof(struct wire_keys) == 8, "wire form");

struct wire_seq {
	uint32_t seq;
} __attribute__((packed));
static_assert(sizeof(struct wire_seq) == 4, "wire form");

struct wire_ping {
	uint32_t seq;
	uint8_t nic;
	uint8_t reserved[3];
};
static_assert(sizeof(struct wire_ping) == 8, "wire form");

struct wire_nic {
	uint8_t nic, link_layer, mtu, reserved;
	uint32_t revision;
	uint8_t gid[16];
	uint16_t lid, reserved2;
	uint32_t qpn, qkey;
} __attribute__((packed));
static_assert(sizeof(struct wire_nic) == 36, "wire form");

static_assert(SH_WIRE_MAX % 4 == 0 && SH_WIRE_MAX <= UINT16_MAX, "lengths fit their fields");

/*
 * A build that plays a later minor version appends to records, and adds one of another type; one that
 * plays an earlier one knows nothing of what came since.
 */
#define WIRE_PLAYS_LATER (SH_WIRE_MINOR > SH_WIRE_MINOR_HERE)
#define WIRE_HAS_LAZY	 (SH_WIRE_MINOR >= 1)
#define WIRE_LATER_TYPE	 0x7fffu

#define WIRE_PSN_MAX 0xffffffu
#define WIRE_FLAGS   (SC_FLAG_FATAL | SC_FLAG_CLOSED)

static const char *const type_names[SH_WIRE_TYPES] = {
	[0] = "none",
	[SH_WIRE_STANDBY] = "standby",
	[SH_WIRE_STATE] = "state",
	[SH_WIRE_UNKNOWN] = "unknown-connection",
	[SH_WIRE_KEYS] = "keys",
	[SH_WIRE_KEYS_ACK] = "keys-ack",
	[SH_WIRE_KEY_ASK] = "key-ask",
	[SH_WIRE_NICS] = "nics",
	[SH_WIRE_NICS_ACK] = "nics-ack",
	[SH_WIRE_PING] = "ping",
	[SH_WIRE_PONG] = "pong",
};

const char *sh_wire_type_name(enum sh_wire_type type)
{
	return (unsigned int)type < SH_WIRE_TYPES ? type_names[type] : "invalid";
}

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

static size_t wire_grown(enum sh_wire_type type)
{
	bool array = type == SH_WIRE_KEYS || type == SH_WIRE_NICS;

	return WIRE_PLAYS_LATER && !array ? 8 : 0;
}

/* The record's header, and room for its zeroed body: where the body goes, or NULL if it is full. */
static void *writer_add(struct sh_wire_writer *writer, enum sh_wire_type type,
			const struct sh_wire_ids *ids, size_t body)
{
	static const struct sh_wire_ids none;
	const struct sh_wire_ids *about = ids ? ids : &none;
	size_t length = sizeof(struct wire_record) + body + wire_grown(type);
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
		.lazy = WIRE_HAS_LAZY && standby->lazy,
		.path = standby->path,
		.up = standby->up,
		.steady = standby->steady,
		.drained = standby->drained,
		.masks_no = standby->masks_no,
		.masks_seen = standby->masks_seen,
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
	};

	return writer_put(writer, SH_WIRE_STATE, ids, &wire, sizeof(wire));
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

static size_t writer_end(struct sh_wire_writer *writer)
{
	struct wire_header header = {
		.magic = htole32(SH_WIRE_MAGIC),
		.major = SH_WIRE_MAJOR,
		.minor = SH_WIRE_MINOR,
		.n_records = htole16(writer->n_records),
		.src_instance = htole64(writer->src_instance),
		.dst_instance = htole64(writer->dst_instance),
		.length = htole32((uint32_t)writer->used),
	};

	memcpy(writer->buf, &header, sizeof(header));
	return writer->n_records ? writer->used : 0;
}

static void writer_add_later(struct sh_wire_writer *writer)
{
	if (WIRE_PLAYS_LATER && writer->n_records)
		writer_add(writer, (enum sh_wire_type)WIRE_LATER_TYPE, NULL, 4);
}

size_t sh_wire_end(struct sh_wire_writer *writer)
{
	writer_add_later(writer);
	return writer_end(writer);
}

/* ---- reading -------------------------------------------------------------------------------- */

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
	if (wire.major != SH_WIRE_MAJOR)
		return -EPROTONOSUPPORT;
	if (le32toh(wire.length) < sizeof(wire) || le32toh(wire.length) > length)
		return -EBADMSG;
	header->src_instance = le64toh(wire.src_instance);
	header->dst_instance = le64toh(wire.dst_instance);
	header->minor = wire.minor;
	header->n_records = le16toh(wire.n_records);
	reader->buf = buf;
	reader->length = le32toh(wire.length);
	reader->at = sizeof(wire);
	reader->records_left = header->n_records;
	return 0;
}

/*
 * Where the peer's queue pair is: of one host, and not its management. Before it is made there is
 * none. It is not said of which link layer it is; on Ethernet there is no LID.
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

	if (length < sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	standby->epoch = le32toh(wire.epoch);
	standby->phase = wire.phase;
	standby->seen = wire.seen;
	standby->ask = wire.ask;
	standby->lazy = WIRE_HAS_LAZY ? wire.lazy : 0;
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
	memcpy(standby->address.gid, wire.gid, sizeof(wire.gid));
	if (standby->phase > SC_STANDBY_FAILED || standby->seen > SC_STANDBY_FAILED ||
	    standby->ask > 1 || standby->lazy > 1 || standby->address.mtu > IBV_MTU_4096 ||
	    !standby_place_valid(&standby->address) || standby->address.psn > WIRE_PSN_MAX ||
	    standby->path >= SC_MAX_PATHS)
		return -EBADMSG;
	return 0;
}

static int read_state(struct sc_msg_state *state, const uint8_t *body, size_t length)
{
	struct wire_state wire;

	if (length < sizeof(wire))
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
	if (state->leaving > 1 || state->final > 1 || state->quiesced > 1 || state->ask > 1 ||
	    state->flags & ~WIRE_FLAGS || state->reason >= SC_REASONS ||
	    state->phase > SC_SWITCH_CANCEL || state->stranded > 1)
		return -EBADMSG;
	return 0;
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

	if (length < sizeof(wire))
		return -EBADMSG;
	memcpy(&wire, body, sizeof(wire));
	*seq = le32toh(wire.seq);
	return 0;
}

static int read_ping(struct sh_wire_ping *ping, const uint8_t *body, size_t length)
{
	struct wire_ping wire;

	if (length < sizeof(wire))
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
	case SH_WIRE_UNKNOWN: return 0;
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

/* Takes the header and body of the next record, of whatever type. */
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

	do {
		if (!reader->records_left)
			return 0;
		ret = reader_take(reader, &wire, &body);
		if (ret)
			return ret;
		type = le16toh(wire.type);
		if (!type)
			return -EBADMSG;
	} while (type >= SH_WIRE_TYPES);
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
