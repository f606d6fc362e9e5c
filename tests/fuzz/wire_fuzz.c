/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Any bytes as a datagram: reading must end, stay inside them, give only values in range, and what
 * was read must come out the same when it is written and read again. Nothing counts that was not
 * signed, and what was signed counts once and as it was. For libFuzzer, and called by
 * tests/unit/wire_test.c with random bytes.
 */
#include "wire_fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "kvclient/backend.h"
#include "kvclient/kv.h"
#include "kvclient/mac.h"
#include "shiftlib/control/auth.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void check_ranges(const struct sh_wire_record *record)
{
	uint32_t i;

	CHECK(record->type > 0 && record->type < SH_WIRE_TYPES);
	if (record->type == SH_WIRE_STANDBY) {
		CHECK(record->standby.phase <= SC_STANDBY_FAILED);
		CHECK(record->standby.seen <= SC_STANDBY_FAILED);
		CHECK(record->standby.ask <= 1);
		CHECK(record->standby.lazy <= 1);
		CHECK(record->standby.beyond <= 1);
		CHECK(record->standby.address.qpn <= 0xffffff);
	} else if (record->type == SH_WIRE_STATE) {
		CHECK(record->state.reason < SC_REASONS);
		CHECK(record->state.final <= 1 && record->state.leaving <= 1);
		CHECK(record->state.quiesced <= 1 && record->state.ask <= 1);
		CHECK(!(record->state.flags & ~(SC_FLAG_FATAL | SC_FLAG_CLOSED)));
	} else if (record->type == SH_WIRE_HOME) {
		CHECK(record->home.used <= 1 && record->home.wants <= 1);
		CHECK(record->home.granted <= 1 && record->home.ask <= 1);
		CHECK(record->home.why < SC_HOME_WHYS);
	} else if (record->type == SH_WIRE_WORD) {
		CHECK(record->word.kind < SH_WIRE_WORD_KINDS);
	} else if (record->type == SH_WIRE_LOG) {
		CHECK(record->log.kind < SH_WIRE_LOG_KINDS);
		CHECK(record->log.why < SH_WIRE_LOG_WHYS);
	} else if (record->type == SH_WIRE_KEYS) {
		for (i = 0; i < record->keys.n; i++)
			CHECK(sh_wire_key(record, i).op < SH_WIRE_KEY_OPS);
	}
}

static int put_keys(struct sh_wire_writer *writer, const struct sh_wire_record *record)
{
	static struct sh_wire_key keys[SH_WIRE_MAX];
	uint32_t i;

	CHECK(record->keys.n < SH_WIRE_MAX);
	for (i = 0; i < record->keys.n; i++)
		keys[i] = sh_wire_key(record, i);
	return sh_wire_put_keys(writer, record->keys.first_seq, keys, record->keys.n);
}

static int put_record(struct sh_wire_writer *writer, const struct sh_wire_record *record)
{
	switch (record->type) {
	case SH_WIRE_STANDBY: return sh_wire_put_standby(writer, &record->ids, &record->standby);
	case SH_WIRE_STATE: return sh_wire_put_state(writer, &record->ids, &record->state);
	case SH_WIRE_HOME: return sh_wire_put_home(writer, &record->ids, &record->home);
	case SH_WIRE_WORD: return sh_wire_put_word(writer, &record->ids, &record->word);
	case SH_WIRE_LOG: return sh_wire_put_log(writer, &record->ids, &record->log);
	case SH_WIRE_INQUIRY: return sh_wire_put_inquiry(writer, &record->ids, &record->inquiry);
	case SH_WIRE_UNKNOWN: return sh_wire_put_unknown(writer, &record->ids);
	case SH_WIRE_KEYS: return put_keys(writer, record);
	case SH_WIRE_KEYS_ACK: return sh_wire_put_keys_ack(writer, record->seq);
	case SH_WIRE_KEY_ASK: return sh_wire_put_key_ask(writer, record->seq);
	case SH_WIRE_NICS: return sh_wire_put_nics(writer, record->nics.nic, record->nics.n);
	case SH_WIRE_NICS_ACK: return sh_wire_put_nics_ack(writer, record->seq);
	case SH_WIRE_PING: return sh_wire_put_ping(writer, &record->ping);
	case SH_WIRE_PONG: return sh_wire_put_pong(writer, &record->ping);
	case SH_WIRE_TYPES: break;
	}
	abort();
}

/* Field by field, as there are holes between them. */
static bool same_ids(const struct sh_wire_ids *a, const struct sh_wire_ids *b)
{
	return a->src_conn == b->src_conn && a->dst_conn == b->dst_conn && a->nonce == b->nonce;
}

static bool same_standby(const struct sc_msg_standby *a, const struct sc_msg_standby *b)
{
	return a->epoch == b->epoch && a->phase == b->phase && a->seen == b->seen &&
	       a->ask == b->ask && a->lazy == b->lazy && a->beyond == b->beyond &&
	       !memcmp(a->address.gid, b->address.gid, 16) && a->path == b->path &&
	       a->up == b->up && a->steady == b->steady && a->drained == b->drained &&
	       a->homed == b->homed && a->cannot == b->cannot && a->order == b->order &&
	       a->masks_no == b->masks_no && a->masks_seen == b->masks_seen &&
	       a->address.lid == b->address.lid && a->address.nic == b->address.nic &&
	       a->address.mtu == b->address.mtu && a->address.qpn == b->address.qpn &&
	       a->address.psn == b->address.psn && a->address.pkey == b->address.pkey &&
	       a->address.vlan == b->address.vlan && a->address.reads == b->address.reads;
}

static bool same_state(const struct sc_msg_state *a, const struct sc_msg_state *b)
{
	return a->epoch == b->epoch && a->seen_epoch == b->seen_epoch &&
	       a->recv_count == b->recv_count && a->leaving == b->leaving && a->final == b->final &&
	       a->quiesced == b->quiesced && a->flags == b->flags && a->reason == b->reason &&
	       a->ask == b->ask && a->phase == b->phase && a->stranded == b->stranded &&
	       a->switch_no == b->switch_no && a->target == b->target && a->lost == b->lost &&
	       a->dead == b->dead && a->cut == b->cut && a->wants == b->wants &&
	       a->exact == b->exact && a->exact_seen == b->exact_seen &&
	       a->wants_of == b->wants_of && a->exact_of == b->exact_of &&
	       a->exact_psn == b->exact_psn;
}

static bool same_home(const struct sc_msg_home *a, const struct sc_msg_home *b)
{
	return a->bar_no == b->bar_no && a->bar_seen == b->bar_seen && a->used_of == b->used_of &&
	       a->wants_of == b->wants_of && a->granted_of == b->granted_of && a->used == b->used &&
	       a->wants == b->wants && a->granted == b->granted && a->why == b->why &&
	       a->ask == b->ask;
}

static bool same_word(const struct sh_wire_word *a, const struct sh_wire_word *b)
{
	return a->kind == b->kind && a->carrier == b->carrier && a->rkey == b->rkey &&
	       a->addr == b->addr && a->value == b->value;
}

static bool same_log(const struct sh_wire_log *a, const struct sh_wire_log *b)
{
	return a->kind == b->kind && a->why == b->why && a->carrier == b->carrier &&
	       a->rkey == b->rkey && a->addr == b->addr && a->tag == b->tag &&
	       a->number == b->number;
}

static bool same_keys(const struct sh_wire_record *a, const struct sh_wire_record *b)
{
	struct sh_wire_key x, y;
	uint32_t i;

	if (a->keys.first_seq != b->keys.first_seq || a->keys.n != b->keys.n)
		return false;
	for (i = 0; i < a->keys.n; i++) {
		x = sh_wire_key(a, i);
		y = sh_wire_key(b, i);
		if (x.op != y.op || x.nic != y.nic || x.backup_nic != y.backup_nic ||
		    x.rkey != y.rkey || x.backup_rkey != y.backup_rkey)
			return false;
	}
	return true;
}

static bool same_nic(const struct sh_wire_nic *a, const struct sh_wire_nic *b)
{
	return a->nic == b->nic && a->revision == b->revision &&
	       !memcmp(a->address.gid, b->address.gid, 16) && a->address.lid == b->address.lid &&
	       a->address.link_layer == b->address.link_layer && a->address.mtu == b->address.mtu &&
	       a->address.qpn == b->address.qpn && a->address.qkey == b->address.qkey;
}

static bool same_nics(const struct sh_wire_record *a, const struct sh_wire_record *b)
{
	uint32_t i;

	for (i = 0; i < a->nics.n; i++)
		if (!same_nic(&a->nics.nic[i], &b->nics.nic[i]))
			return false;
	return a->nics.n == b->nics.n;
}

bool wire_record_same(const struct sh_wire_record *a, const struct sh_wire_record *b)
{
	if (a->type != b->type)
		return false;
	switch (a->type) {
	case SH_WIRE_STANDBY:
		return same_ids(&a->ids, &b->ids) && same_standby(&a->standby, &b->standby);
	case SH_WIRE_STATE: return same_ids(&a->ids, &b->ids) && same_state(&a->state, &b->state);
	case SH_WIRE_HOME: return same_ids(&a->ids, &b->ids) && same_home(&a->home, &b->home);
	case SH_WIRE_WORD: return same_ids(&a->ids, &b->ids) && same_word(&a->word, &b->word);
	case SH_WIRE_LOG: return same_ids(&a->ids, &b->ids) && same_log(&a->log, &b->log);
	case SH_WIRE_INQUIRY:
		return same_ids(&a->ids, &b->ids) && a->inquiry.kind == b->inquiry.kind &&
		       a->inquiry.status == b->inquiry.status &&
		       a->inquiry.carrier == b->inquiry.carrier;
	case SH_WIRE_UNKNOWN: return same_ids(&a->ids, &b->ids);
	case SH_WIRE_KEYS: return same_keys(a, b);
	case SH_WIRE_NICS: return same_nics(a, b);
	case SH_WIRE_NICS_ACK:
	case SH_WIRE_KEYS_ACK:
	case SH_WIRE_KEY_ASK: return a->seq == b->seq;
	case SH_WIRE_PING:
	case SH_WIRE_PONG: return a->ping.seq == b->ping.seq && a->ping.nic == b->ping.nic;
	case SH_WIRE_TYPES: break;
	}
	return false;
}

static void check_again(const struct sh_wire_record *record)
{
	uint8_t buf[SH_WIRE_MAX];
	struct sh_wire_writer writer;
	struct sh_wire_reader reader;
	struct sh_wire_record again;
	struct sh_wire_header header;
	size_t length;

	if (record->type == SH_WIRE_KEYS && !record->keys.n)
		return;
	sh_wire_begin(&writer, buf, sizeof(buf), 1, 2);
	CHECK(put_record(&writer, record) >= 0);
	length = sh_wire_end(&writer);
	CHECK(!sh_wire_open(&reader, buf, length, &header) && header.n_records == 1);
	CHECK(sh_wire_next(&reader, &again) == 1);
	CHECK(wire_record_same(record, &again));
	CHECK(sh_wire_next(&reader, &again) == 0);
}

/* ---- signatures ----------------------------------------------------------------------------- */

static struct sh_auth *auth_of(uint64_t own, uint64_t peer)
{
	static const uint8_t key[KV_MAC_LEN] = "a key for all instances";
	static struct sh_auths auths[2]; /* for ever */
	static struct kv kv;

	CHECK(!kv_mac_ready(&kv));
	sh_auths_init(&auths[own % 2], own);
	CHECK(!sh_auths_begin(&auths[own % 2], key));
	return sh_auth_new(&auths[own % 2], peer);
}

static void check_auth(const uint8_t *data, size_t length, size_t datagram)
{
	static struct sh_auth *sender, *receiver;
	static uint64_t number;
	uint8_t copy[SH_WIRE_MAX + SH_AUTH_BYTES];
	size_t at;

	if (!sender) {
		sender = auth_of(1, 2);
		receiver = auth_of(2, 1);
	}
	CHECK(sender && receiver);
	CHECK(sh_auth_check(receiver, 0, data, datagram, length));
	memcpy(copy, data, datagram);
	length = sh_auth_sign(sender, (struct sh_auth_pair){ 1, 0 }, ++number, copy, datagram);
	CHECK(length == datagram + SH_AUTH_BYTES);
	at = number % length;
	copy[at] ^= 1;
	CHECK(sh_auth_check(receiver, 0, copy, datagram, length) == SH_REFUSED_FORGED);
	copy[at] ^= 1;
	CHECK(sh_auth_check(receiver, 1, copy, datagram, length) == SH_REFUSED_ASTRAY);
	CHECK(!sh_auth_check(receiver, 0, copy, datagram, length));
	CHECK(sh_auth_check(receiver, 0, copy, datagram, length) == SH_REFUSED_REPLAYED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	struct sh_wire_reader reader;
	struct sh_wire_record record;
	struct sh_wire_header header;
	int ret, n = 0;

	if (length > SH_WIRE_MAX || sh_wire_open(&reader, data, length, &header))
		return 0;
	while ((ret = sh_wire_next(&reader, &record)) == 1) {
		check_ranges(&record);
		check_again(&record);
		n++;
	}
	CHECK(n <= header.n_records && sh_wire_next(&reader, &record) == 0);
	check_auth(data, length, reader.length);
	return 0;
}
