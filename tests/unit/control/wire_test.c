/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The datagram codec: what is written is read the same; whatever else is read does no harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "kvclient/kv.h"
#include "shiftlib/control/wire.h"
#include "tests/fuzz/wire_fuzz.h"
#include "tests/lib/random.h"

#define GID_FIRST    0x20   /* of one host */
#define LIDS	     0xbfff /* likewise, from 1 */
#define HEADER_BYTES 32
#define ROUNDS	     20000
#define MUTATIONS    200000

static uint64_t rng;

static void fill_random(void *at, size_t length)
{
	uint8_t *byte = at;

	while (length--)
		*byte++ = (uint8_t)random_next(&rng);
}

static struct sh_wire_ids random_ids(void)
{
	return (struct sh_wire_ids){ .src_conn = (uint32_t)random_next(&rng),
				     .dst_conn = (uint32_t)random_next(&rng),
				     .nonce = (uint32_t)random_next(&rng) };
}

/* None, or one of an application's. */
static uint32_t random_qpn(void)
{
	return random_below(&rng, 8) ? 2 + random_below(&rng, 0xfffffd) : 0;
}

/* Of some of the paths, each once. */
static uint32_t random_order(void)
{
	uint32_t n = random_below(&rng, SC_MAX_PATHS), left = (1u << SC_MAX_PATHS) - 2, order = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t path = 1 + random_below(&rng, SC_MAX_PATHS - 1);

		while (!(left >> path & 1))
			path = path % (SC_MAX_PATHS - 1) + 1;
		left &= ~(1u << path);
		order |= path << SC_ORDER_BITS * i;
	}
	return order;
}

static struct sc_msg_standby random_standby(void)
{
	struct sc_msg_standby standby = { 0 };

	standby.epoch = (uint32_t)random_next(&rng);
	standby.phase = (uint8_t)random_below(&rng, SC_STANDBY_FAILED + 1);
	standby.seen = (uint8_t)random_below(&rng, SC_STANDBY_FAILED + 1);
	standby.ask = (uint8_t)random_below(&rng, 2);
	standby.lazy = (uint8_t)random_below(&rng, 2);
	fill_random(standby.address.gid, sizeof(standby.address.gid));
	standby.address.gid[0] = GID_FIRST;
	standby.path = (uint8_t)random_below(&rng, SC_MAX_PATHS);
	standby.up = (uint8_t)random_below(&rng, 1 << SC_MAX_PATHS);
	standby.steady = (uint8_t)random_below(&rng, 1 << SC_MAX_PATHS);
	standby.drained = (uint8_t)random_below(&rng, 1 << SC_MAX_PATHS);
	standby.masks_no = (uint8_t)random_next(&rng);
	standby.masks_seen = (uint8_t)random_next(&rng);
	standby.address.lid = (uint16_t)random_next(&rng);
	standby.address.nic = (uint8_t)random_next(&rng);
	standby.address.mtu = (uint8_t)random_below(&rng, 6);
	standby.address.qpn = random_qpn();
	standby.address.psn = random_below(&rng, 1 << 24);
	standby.address.pkey = (uint16_t)random_next(&rng);
	standby.address.vlan = (uint16_t)random_below(&rng, 4095);
	standby.beyond = (uint8_t)random_below(&rng, 2);
	standby.address.reads = (uint8_t)random_next(&rng);
	standby.stays = (uint8_t)random_below(&rng, SC_STAYS_ATOMICS + 1);
	standby.homed = (uint8_t)random_below(&rng, 1 << SC_MAX_PATHS);
	standby.cannot = (uint32_t)random_next(&rng);
	standby.order = random_order();
	return standby;
}

static struct sc_msg_state random_state(void)
{
	struct sc_msg_state state = { 0 };

	state.epoch = (uint32_t)random_next(&rng);
	state.seen_epoch = (uint32_t)random_next(&rng);
	state.recv_count = (uint32_t)random_next(&rng);
	state.leaving = (uint8_t)random_below(&rng, 2);
	state.final = (uint8_t)random_below(&rng, 2);
	state.quiesced = (uint8_t)random_below(&rng, 2);
	state.ask = (uint8_t)random_below(&rng, 2);
	state.flags = (uint8_t)random_below(&rng, 4);
	state.reason = (uint8_t)random_below(&rng, SC_REASONS);
	state.phase = (uint8_t)random_below(&rng, SC_SWITCH_CANCEL + 1);
	state.stranded = (uint8_t)random_below(&rng, 2);
	state.switch_no = (uint32_t)random_next(&rng);
	state.target = (uint32_t)random_next(&rng);
	state.lost = (uint32_t)random_next(&rng);
	state.dead = (uint32_t)random_next(&rng);
	state.cut = (uint32_t)random_next(&rng);
	state.wants = (uint8_t)random_below(&rng, 2);
	state.exact = (uint8_t)random_below(&rng, SC_EXACTS);
	state.exact_seen = (uint8_t)random_below(&rng, 2);
	state.wants_of = (uint32_t)random_next(&rng);
	state.exact_of = (uint32_t)random_next(&rng);
	state.exact_psn = random_below(&rng, 0x1000000);
	state.stay = (uint8_t)random_below(&rng, SC_STAYS_TOLD);
	state.stay_no = 1 + random_below(&rng, 1000);
	return state;
}

static struct sh_wire_key random_key(void)
{
	struct sh_wire_key key = { 0 };

	key.op = (uint8_t)random_below(&rng, SH_WIRE_KEY_OPS);
	key.nic = (uint8_t)random_next(&rng);
	key.backup_nic = (uint8_t)random_next(&rng);
	key.rkey = (uint32_t)random_next(&rng);
	key.backup_rkey = (uint32_t)random_next(&rng);
	return key;
}

/* What was written, to compare with what is read; keys as they are in the datagram. */
struct sent {
	struct sh_wire_record record;
	struct sh_wire_key keys[8];
};

static void random_nics(struct sh_wire_record *r)
{
	uint32_t i, j;

	r->nics.n = 1 + random_below(&rng, SH_WIRE_NICS_MAX);
	for (i = 0; i < r->nics.n; i++) {
		r->nics.nic[i] = (struct sh_wire_nic){
			.nic = (uint8_t)random_next(&rng),
			.revision = (uint32_t)random_next(&rng),
			.address = { .lid = (uint16_t)(1 + random_below(&rng, LIDS)),
				     .link_layer = (uint8_t)(1 + random_below(&rng, 2)),
				     .mtu = (uint8_t)random_below(&rng, 6),
				     .qpn = random_qpn(),
				     .qkey = (uint32_t)random_next(&rng) },
		};
		for (j = 0; j < 16; j++)
			r->nics.nic[i].address.gid[j] = (uint8_t)random_next(&rng);
		r->nics.nic[i].address.gid[0] = GID_FIRST;
	}
}

static struct sh_wire_ping random_ping(void)
{
	return (struct sh_wire_ping){ .seq = (uint32_t)random_next(&rng),
				      .nic = (uint8_t)random_next(&rng) };
}

static struct sc_msg_home random_home(void)
{
	return (struct sc_msg_home){
		.bar_no = (uint32_t)random_next(&rng),
		.bar_seen = (uint32_t)random_next(&rng),
		.used_of = (uint32_t)random_next(&rng),
		.wants_of = (uint32_t)random_next(&rng),
		.granted_of = (uint32_t)random_next(&rng),
		.used = (uint8_t)random_below(&rng, 2),
		.wants = (uint8_t)random_below(&rng, 2),
		.granted = (uint8_t)random_below(&rng, 2),
		.why = (uint8_t)random_below(&rng, SC_HOME_WHYS),
		.ask = (uint8_t)random_below(&rng, 2),
	};
}

static struct sh_wire_word random_word(void)
{
	return (struct sh_wire_word){
		.kind = (uint8_t)random_below(&rng, SH_WIRE_WORD_KINDS),
		.carrier = (uint32_t)random_next(&rng),
		.rkey = (uint32_t)random_next(&rng),
		.addr = random_next(&rng),
		.value = random_next(&rng),
	};
}

static struct sh_wire_log random_log(void)
{
	return (struct sh_wire_log){
		.kind = (uint8_t)random_below(&rng, SH_WIRE_LOG_KINDS),
		.why = (uint8_t)random_below(&rng, SH_WIRE_LOG_WHYS),
		.carrier = (uint32_t)random_next(&rng),
		.rkey = (uint32_t)random_next(&rng),
		.addr = random_next(&rng),
		.tag = (uint32_t)random_next(&rng),
		.number = (uint32_t)random_next(&rng),
	};
}

static int put_random(struct sh_wire_writer *writer, struct sent *sent)
{
	struct sh_wire_record *r = &sent->record;
	uint32_t n, i;

	memset(sent, 0, sizeof(*sent));
	r->type = (enum sh_wire_type)(1 + random_below(&rng, SH_WIRE_TYPES - 1));
	if (r->type <= SH_WIRE_UNKNOWN)
		r->ids = random_ids();
	switch (r->type) {
	case SH_WIRE_STANDBY:
		r->standby = random_standby();
		return sh_wire_put_standby(writer, &r->ids, &r->standby);
	case SH_WIRE_STATE:
		r->state = random_state();
		return sh_wire_put_state(writer, &r->ids, &r->state);
	case SH_WIRE_HOME:
		r->ids = random_ids();
		r->home = random_home();
		return sh_wire_put_home(writer, &r->ids, &r->home);
	case SH_WIRE_WORD:
		r->ids = random_ids();
		r->word = random_word();
		return sh_wire_put_word(writer, &r->ids, &r->word);
	case SH_WIRE_LOG:
		r->ids = random_ids();
		r->log = random_log();
		return sh_wire_put_log(writer, &r->ids, &r->log);
	case SH_WIRE_INQUIRY:
		r->ids = random_ids();
		r->inquiry.kind = (uint8_t)random_below(&rng, SH_WIRE_INQUIRY_KINDS);
		r->inquiry.status = (uint8_t)random_next(&rng);
		r->inquiry.carrier = (uint32_t)random_next(&rng);
		return sh_wire_put_inquiry(writer, &r->ids, &r->inquiry);
	case SH_WIRE_UNKNOWN: return sh_wire_put_unknown(writer, &r->ids);
	case SH_WIRE_KEYS:
		n = 1 + random_below(&rng, 8);
		for (i = 0; i < n; i++)
			sent->keys[i] = random_key();
		r->keys.first_seq = (uint32_t)random_next(&rng);
		r->keys.n = n;
		return sh_wire_put_keys(writer, r->keys.first_seq, sent->keys, n);
	case SH_WIRE_KEYS_ACK:
		r->seq = (uint32_t)random_next(&rng);
		return sh_wire_put_keys_ack(writer, r->seq);
	case SH_WIRE_KEY_ASK:
		r->seq = (uint32_t)random_next(&rng);
		return sh_wire_put_key_ask(writer, r->seq);
	case SH_WIRE_NICS: random_nics(r); return sh_wire_put_nics(writer, r->nics.nic, r->nics.n);
	case SH_WIRE_NICS_ACK:
		r->seq = (uint32_t)random_next(&rng);
		return sh_wire_put_nics_ack(writer, r->seq);
	case SH_WIRE_PING: r->ping = random_ping(); return sh_wire_put_ping(writer, &r->ping);
	case SH_WIRE_PONG: r->ping = random_ping(); return sh_wire_put_pong(writer, &r->ping);
	case SH_WIRE_TYPES: break;
	}
	return -EINVAL;
}

static void assert_same_keys(const struct sh_wire_record *got, const struct sent *sent)
{
	struct sh_wire_key key;
	uint32_t i;

	assert_int_equal(got->keys.first_seq, sent->record.keys.first_seq);
	assert_true(got->keys.n >= 1 && got->keys.n <= sent->record.keys.n);
	for (i = 0; i < got->keys.n; i++) {
		key = sh_wire_key(got, i);
		assert_int_equal(key.op, sent->keys[i].op);
		assert_int_equal(key.nic, sent->keys[i].nic);
		assert_int_equal(key.backup_nic, sent->keys[i].backup_nic);
		assert_int_equal(key.rkey, sent->keys[i].rkey);
		assert_int_equal(key.backup_rkey, sent->keys[i].backup_rkey);
	}
}

static void assert_same(const struct sh_wire_record *got, const struct sent *sent)
{
	if (got->type == SH_WIRE_KEYS && sent->record.type == SH_WIRE_KEYS)
		assert_same_keys(got, sent);
	else
		assert_true(wire_record_same(got, &sent->record));
}

/* A datagram of random records in a buffer of random size: its length; *n of them in sent. */
static size_t write_random(uint8_t *buf, struct sent *sent, uint32_t max, uint32_t *n)
{
	size_t capacity = HEADER_BYTES + random_below(&rng, SH_WIRE_MAX - HEADER_BYTES + 200);
	uint32_t want = 1 + random_below(&rng, max);
	struct sh_wire_writer writer;

	sh_wire_begin(&writer, buf, capacity, random_next(&rng), random_next(&rng));
	for (*n = 0; *n < want; (*n)++)
		if (put_random(&writer, &sent[*n]) < 0)
			break;
	assert_true(writer.used <= capacity && writer.used <= SH_WIRE_MAX);
	return sh_wire_end(&writer);
}

static void round_trip(void **state)
{
	static struct sent sent[200];
	static uint8_t buf[SH_WIRE_MAX + 200];
	struct sh_wire_reader reader;
	struct sh_wire_record record;
	struct sh_wire_header header;
	uint32_t round, n, i;
	size_t length;

	for (round = 0; round < ROUNDS; round++) {
		length = write_random(buf, sent, 200, &n);
		if (!n) {
			assert_int_equal(length, 0);
			continue;
		}
		assert_int_equal(sh_wire_open(&reader, buf, length, &header), 0);
		assert_int_equal(header.n_records, n);
		for (i = 0; i < n; i++) {
			assert_int_equal(sh_wire_next(&reader, &record), 1);
			assert_same(&record, &sent[i]);
		}
		assert_int_equal(sh_wire_next(&reader, &record), 0);
	}
}

/* The bytes themselves: ends of other builds, and byte orders, read them. */
static void golden(void **state)
{
	static const char want[] = "SHFT\5\0\2\0" /* magic, version, records */
				   "\x08\x07\x06\x05\x04\x03\x02\x01"
				   "\x18\x17\x16\x15\x14\x13\x12\x11"
				   "\x80\0\0\0\0\0\0\0"			/* length */
				   "\2\0\x4c\0\1\0\0\0\2\0\0\0\3\0\0\0" /* STATE */
				   "\4\0\0\0\5\0\0\0\6\0\0\x80"
				   "\0\1\1\2"
				   "\x0b\1\2\1"
				   "\7\0\0\0\x09\0\0\0\x0a\0\0\0\x0b\0\0\0\x0c\0\0\0"
				   "\1\2\1\2\x0d\0\0\0\x0e\0\0\0\xf0\xff\xff\0"
				   "\x0f\0\0\0"
				   "\5\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0" /* KEYS_ACK */
				   "\xdd\xcc\xbb\xaa";
	const struct sh_wire_ids ids = { 1, 2, 3 };
	const struct sc_msg_state msg = { .epoch = 4,
					  .seen_epoch = 5,
					  .recv_count = 0x80000006,
					  .final = 1,
					  .quiesced = 1,
					  .flags = SC_FLAG_CLOSED,
					  .reason = SC_REASON_PEER_CLOSED,
					  .ask = 1,
					  .phase = SC_SWITCH_FENCED,
					  .stranded = 1,
					  .switch_no = 7,
					  .target = 9,
					  .lost = 10,
					  .dead = 11,
					  .cut = 12,
					  .wants = 1,
					  .exact = SC_EXACT_TOLD,
					  .exact_seen = 1,
					  .wants_of = 13,
					  .exact_of = 14,
					  .exact_psn = 0xfffff0,
					  .stay = SC_STAY_GO,
					  .stay_no = 15 };
	uint8_t buf[SH_WIRE_MAX];
	struct sh_wire_writer writer;

	sh_wire_begin(&writer, buf, sizeof(buf), 0x0102030405060708, 0x1112131415161718);
	assert_int_equal(sh_wire_put_state(&writer, &ids, &msg), 0);
	assert_int_equal(sh_wire_put_keys_ack(&writer, 0xaabbccdd), 0);
	assert_int_equal(sh_wire_end(&writer), sizeof(want) - 1);
	assert_memory_equal(buf, want, sizeof(want) - 1);
}

static void full(void **state)
{
	const struct sh_wire_ids ids = { 1, 2, 3 };
	static struct sh_wire_key keys[1000];
	uint8_t buf[SH_WIRE_MAX + 64];
	struct sh_wire_writer writer;
	struct sh_wire_reader reader;
	struct sh_wire_header header;
	int n, records = 0;

	sh_wire_begin(&writer, buf, sizeof(buf), 1, 2);
	n = sh_wire_put_keys(&writer, 0, keys, 1000);
	assert_int_equal(n, (SH_WIRE_MAX - HEADER_BYTES - 24) / 12);
	assert_int_equal(sh_wire_put_keys(&writer, 0, keys, 1000), -ENOSPC);
	sh_wire_begin(&writer, buf, sizeof(buf), 1, 2);
	while (!sh_wire_put_unknown(&writer, &ids))
		records++;
	assert_int_equal(records, (SH_WIRE_MAX - HEADER_BYTES) / 16);
	assert_int_equal(sh_wire_open(&reader, buf, sh_wire_end(&writer), &header), 0);
	assert_int_equal(header.n_records, records);
	sh_wire_begin(&writer, buf, HEADER_BYTES, 1, 2);
	assert_int_equal(sh_wire_put_unknown(&writer, &ids), -ENOSPC);
	assert_int_equal(sh_wire_end(&writer), 0);
}

static size_t write_two(uint8_t *buf)
{
	const struct sh_wire_ids ids = { 1, 2, 3 };
	struct sc_msg_state msg = random_state();
	struct sh_wire_writer writer;

	sh_wire_begin(&writer, buf, SH_WIRE_MAX, 1, 2);
	assert_int_equal(sh_wire_put_state(&writer, &ids, &msg), 0);
	assert_int_equal(sh_wire_put_key_ask(&writer, 7), 0);
	return sh_wire_end(&writer);
}

static int open_and_next(const uint8_t *buf, size_t length, struct sh_wire_record *record)
{
	struct sh_wire_reader reader;
	struct sh_wire_header header;
	int ret = sh_wire_open(&reader, buf, length, &header);

	return ret ? ret : sh_wire_next(&reader, record);
}

static void damaged(void **state)
{
	enum { VERSION = 4, LENGTH = 24, TYPE = HEADER_BYTES, SIZE = TYPE + 2, BODY = TYPE + 16 };
	static const struct {
		int at, byte, ret;
	} cases[] = {
		{ 0, 0, -EBADMSG },
		{ VERSION, KV_PROTOCOL - 1, -EPROTONOSUPPORT },
		{ VERSION, KV_PROTOCOL + 1, -EPROTONOSUPPORT },
		{ LENGTH, 31, -EBADMSG },
		{ LENGTH, 200, -EBADMSG },
		{ LENGTH, 40, -EBADMSG },
		{ TYPE, 0, -EBADMSG },
		{ SIZE, 15, -EBADMSG },
		{ SIZE, 37, -EBADMSG },
		{ SIZE, 32, -EBADMSG },
		{ SIZE, 252, -EBADMSG },
		{ BODY + 12, 2, -EBADMSG },
		{ BODY + 13, 2, -EBADMSG },
		{ BODY + 14, 2, -EBADMSG },
		{ BODY + 15, 4, -EBADMSG },
		{ BODY + 16, SC_REASONS, -EBADMSG },
		{ BODY + 17, 2, -EBADMSG },
		{ BODY + 40, 2, -EBADMSG },
		{ BODY + 41, SC_EXACTS, -EBADMSG },
		{ BODY + 42, 2, -EBADMSG },
		{ BODY + 43, SC_STAYS_TOLD, -EBADMSG },
		{ BODY + 55, 1, -EBADMSG },
	};
	uint8_t buf[SH_WIRE_MAX];
	struct sh_wire_record record;
	size_t length, i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		length = write_two(buf);
		buf[cases[i].at] = (uint8_t)cases[i].byte;
		assert_int_equal(open_and_next(buf, length, &record), cases[i].ret);
	}
	length = write_two(buf);
	for (i = 0; i < length; i++)
		assert_int_equal(open_and_next(buf, i, &record), -EBADMSG);
	assert_int_equal(open_and_next(buf, length + 100, &record), 1);
}

static void unknown_type_is_refused(void **state)
{
	uint8_t buf[SH_WIRE_MAX];
	size_t length = write_two(buf);
	struct sh_wire_record record;

	buf[HEADER_BYTES] = SH_WIRE_TYPES;
	assert_int_equal(open_and_next(buf, length, &record), -EBADMSG);
}

/* Records have the lengths of this version: a STATE of so many words more or less is none. */
static void other_lengths_are_refused(void **state)
{
	enum { SIZE = HEADER_BYTES + 2, END = 24, STATE_BYTES = 76 /* with its head */ };
	struct sh_wire_record record;

	for (int more = -32; more <= 32; more += 4) {
		uint8_t buf[SH_WIRE_MAX] = { 0 };
		size_t length = write_two(buf), first = HEADER_BYTES + STATE_BYTES;

		memmove(buf + first + more, buf + first, length - first);
		buf[SIZE] = (uint8_t)(STATE_BYTES + more);
		buf[END] = (uint8_t)(length + (size_t)more);
		assert_int_equal(open_and_next(buf, length + (size_t)more, &record),
				 more ? -EBADMSG : 1);
	}
}

/* Good datagrams with some bytes changed: deeper than random bytes get. The copy is exactly as
 * long as the datagram, so that the sanitizer sees a read behind it. */
static void mutated(void **state)
{
	static struct sent sent[20];
	static uint8_t buf[SH_WIRE_MAX + 200];
	uint32_t round, n, i;
	uint8_t *copy;
	size_t length;

	for (round = 0; round < MUTATIONS; round++) {
		length = write_random(buf, sent, 20, &n);
		if (!n)
			continue;
		for (i = random_below(&rng, 6); i; i--)
			buf[random_below(&rng, (uint32_t)length)] = (uint8_t)random_next(&rng);
		if (!random_below(&rng, 4))
			length = random_below(&rng, (uint32_t)length + 1);
		copy = malloc(length ? length : 1);
		assert_non_null(copy);
		memcpy(copy, buf, length);
		LLVMFuzzerTestOneInput(copy, length);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(golden),
		cmocka_unit_test(full),
		cmocka_unit_test(damaged),
		cmocka_unit_test(mutated),
		cmocka_unit_test(unknown_type_is_refused),
		cmocka_unit_test(other_lengths_are_refused),
	};

	rng = random_seed("wire_test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
