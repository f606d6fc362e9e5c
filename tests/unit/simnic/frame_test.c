/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Frames of Ethernet: what is read of them, checksums, and the segments of a long one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simnic/device/frame.h"

enum { ETH = 14, TAG = 4, IP4 = 20, IP6 = 40, TCP = 20, UDP = 8, ROOM = 8192 };
enum { FIN = 1, PSH = 8, ACK = 0x10, CWR = 0x80 };

static uint8_t frame[ROOM], segment[ROOM];

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint32_t get16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint8_t byte_of(uint32_t i)
{
	return (uint8_t)(i * 31 + i / 256);
}

static uint8_t *ip4(uint8_t *at, uint8_t proto, uint32_t bytes)
{
	at[0] = 0x45;
	put16(at + 2, IP4 + bytes);
	put16(at + 4, 0xfffe); /* the identification, which wraps in the second segment */
	at[8] = 64;
	at[9] = proto;
	memcpy(at + 12, (uint8_t[]){ 192, 0, 2, 1, 192, 0, 2, 2 }, 8);
	return at + IP4;
}

static uint8_t *ip6(uint8_t *at, uint8_t proto, uint32_t bytes)
{
	at[0] = 0x60;
	put16(at + 4, bytes);
	at[6] = proto;
	at[7] = 64;
	memset(at + 8, 0xfd, 16);
	memset(at + 24, 0xfe, 16);
	return at + IP6;
}

static uint8_t *tcp(uint8_t *at)
{
	put16(at, 7000);
	put16(at + 4, 0xffff); /* the sequence number, which wraps in the second segment */
	put16(at + 6, 0xff00);
	at[12] = 5 << 4;
	at[13] = FIN | PSH | ACK | CWR;
	return at + TCP;
}

/* A frame of TCP or UDP with so many bytes of data; its bytes. */
static uint32_t build(bool is_ip4, bool tagged, uint8_t proto, uint32_t bytes)
{
	uint32_t header = proto == SN_PROTO_TCP ? TCP : UDP;
	uint8_t *at = frame + 12;

	memset(frame, 0, sizeof(frame));
	if (tagged) {
		put16(at, 0x8100);
		at += TAG;
	}
	put16(at, is_ip4 ? 0x0800 : 0x86dd);
	at = is_ip4 ? ip4(at + 2, proto, header + bytes) : ip6(at + 2, proto, header + bytes);
	if (proto == SN_PROTO_UDP)
		put16(at + 4, UDP + bytes);
	else
		tcp(at);
	at += header;
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = byte_of(i);
	return (uint32_t)(at - frame) + bytes;
}

static void fill(const struct sn_frame *where)
{
	sn_frame_fill_l3(frame, where);
	sn_frame_fill_l4(frame, where);
}

static void headers_are_found(void **state)
{
	struct sn_frame where;
	uint32_t bytes = build(true, true, SN_PROTO_TCP, 7);

	assert_true(sn_frame_read(frame, bytes + 20, &where)); /* padded */
	assert_int_equal(where.l3, ETH + TAG);
	assert_int_equal(where.l4, ETH + TAG + IP4);
	assert_int_equal(where.end, bytes);
	assert_int_equal(where.version, 4);
	assert_int_equal(where.proto, SN_PROTO_TCP);
	bytes = build(false, false, SN_PROTO_UDP, 7);
	assert_true(sn_frame_read(frame, bytes, &where));
	assert_int_equal(where.version, 6);
	assert_int_equal(where.l4, ETH + IP6);
	assert_int_equal(where.proto, SN_PROTO_UDP);
}

static void extension_headers_are_passed(void **state)
{
	uint32_t bytes = build(false, false, SN_PROTO_UDP, 40);
	struct sn_frame where;
	uint8_t *next = frame + ETH + IP6;

	frame[ETH + 6] = 0; /* hop by hop: 16 bytes, and then UDP */
	memset(next, 0, 16);
	next[0] = SN_PROTO_UDP;
	next[1] = 1;
	assert_true(sn_frame_read(frame, bytes, &where));
	assert_int_equal(where.l4, ETH + IP6 + 16);
	assert_int_equal(where.proto, SN_PROTO_UDP);
}

static void what_is_cut_short_is_not_read(void **state)
{
	uint32_t bytes = build(true, false, SN_PROTO_TCP, 7);
	struct sn_frame where;

	for (uint32_t i = 0; i < bytes; i++)
		assert_false(sn_frame_read(frame, i, &where));
	bytes = build(false, false, SN_PROTO_TCP, 7);
	for (uint32_t i = 0; i < bytes; i++)
		assert_false(sn_frame_read(frame, i, &where));
	frame[ETH + 6] = 0; /* an extension header that says to be longer than the packet */
	memset(frame + ETH + IP6, 0xff, 2);
	assert_false(sn_frame_read(frame, bytes, &where));
}

static void a_fragment_has_no_ports(void **state)
{
	uint32_t bytes = build(true, false, SN_PROTO_UDP, 64);
	struct sn_frame where;

	put16(frame + ETH + 6, 0x2000); /* more fragments */
	assert_true(sn_frame_read(frame, bytes, &where));
	assert_int_equal(where.proto, 0);
	put16(frame + ETH + 6, 0x00b9); /* not the first */
	assert_true(sn_frame_read(frame, bytes, &where));
	assert_int_equal(where.proto, 0);
}

/* RFC 1071, 3: the example. */
static void sum_is_rfc_1071s(void **state)
{
	const uint8_t bytes[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };

	assert_int_equal(sn_frame_sum(bytes, sizeof(bytes)), 0xddf2);
	assert_int_equal(sn_frame_sum(bytes, 3), 0xf201);
}

static void a_checksum_is_right_until_a_byte_changes(void **state)
{
	static const uint8_t protos[] = { SN_PROTO_TCP, SN_PROTO_UDP };
	struct sn_frame where;

	for (int i = 0; i < 4; i++) {
		uint32_t bytes = build(i & 1, i & 2, protos[i / 2], 33);

		assert_true(sn_frame_read(frame, bytes, &where));
		fill(&where);
		assert_true(sn_frame_l3_is_right(frame, &where));
		assert_true(sn_frame_l4_is_right(frame, &where));
		frame[bytes - 1] ^= 4;
		assert_false(sn_frame_l4_is_right(frame, &where));
		frame[where.l3 + 8] ^= 1; /* the time to live, or the source */
		assert_int_equal(sn_frame_l3_is_right(frame, &where), where.version == 6);
	}
}

/* 192.0.2.1 to 192.0.2.2, UDP, worked out by hand. */
static void a_checksum_worked_out_by_hand(void **state)
{
	uint32_t bytes = build(true, false, SN_PROTO_UDP, 2);
	struct sn_frame where;

	put16(frame + ETH + 4, 0);
	put16(frame + ETH + IP4 + UDP, 0x1234);
	assert_true(sn_frame_read(frame, bytes, &where));
	fill(&where);
	/* 4500 001e 0000 0000 4011 + c000 0201 c000 0202 = 20933 -> 0935, complemented */
	assert_int_equal(get16(frame + ETH + 10), 0xf6cb);
	/* c000 0201 c000 0202 0011 000a 000a 1234 = 1965c -> 965d, complemented */
	assert_int_equal(get16(frame + where.l4 + 6), 0x69a2);
}

static void udp_without_a_checksum_is_right(void **state)
{
	uint32_t bytes = build(true, false, SN_PROTO_UDP, 9);
	struct sn_frame where;

	assert_true(sn_frame_read(frame, bytes, &where));
	assert_true(sn_frame_l4_is_right(frame, &where));
	bytes = build(false, false, SN_PROTO_UDP, 9); /* RFC 8200: not there */
	assert_true(sn_frame_read(frame, bytes, &where));
	assert_false(sn_frame_l4_is_right(frame, &where));
}

static void check_segments(bool is_ip4, bool tagged, uint8_t proto, uint32_t data, uint32_t mss)
{
	struct sn_frame_long whole = { .frame = frame, .mss = mss };
	uint32_t n, seen = 0;
	struct sn_frame where;

	whole.bytes = build(is_ip4, tagged, proto, data);
	whole.headers = whole.bytes - data;
	n = sn_frame_segments(&whole);
	assert_int_equal(n, (data + mss - 1) / mss);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t bytes = sn_frame_segment(&whole, i, segment);

		assert_true(sn_frame_read(segment, bytes, &where));
		assert_int_equal(where.end, bytes);
		assert_true(sn_frame_l3_is_right(segment, &where));
		assert_true(sn_frame_l4_is_right(segment, &where));
		if (is_ip4)
			assert_int_equal(get16(segment + where.l3 + 4), (0xfffe + i) & 0xffff);
		if (proto == SN_PROTO_TCP) {
			uint32_t flags = ACK | (i ? 0 : CWR) | (i + 1 < n ? 0 : FIN | PSH);

			assert_int_equal(get16(segment + where.l4 + 4) << 16 |
						 get16(segment + where.l4 + 6),
					 0xffffff00 + seen);
			assert_int_equal(segment[where.l4 + 13], flags);
		} else {
			assert_int_equal(get16(segment + where.l4 + 4), bytes - where.l4);
		}
		for (uint32_t at = whole.headers; at < bytes; at++)
			assert_int_equal(segment[at], byte_of(seen++));
	}
	assert_int_equal(seen, data);
}

static void segments_are_the_whole(void **state)
{
	check_segments(true, false, SN_PROTO_TCP, 4001, 1448);
	check_segments(true, true, SN_PROTO_TCP, 1449, 1448);
	check_segments(false, false, SN_PROTO_TCP, 2896, 1448);
	check_segments(true, false, SN_PROTO_UDP, 3000, 1472);
	check_segments(false, true, SN_PROTO_UDP, 17, 5);
}

static void what_cannot_be_cut_has_no_segments(void **state)
{
	struct sn_frame_long whole = { .frame = frame, .mss = 100 };

	whole.bytes = build(true, false, SN_PROTO_TCP, 500);
	whole.headers = ETH + IP4 + TCP;
	assert_int_equal(sn_frame_segments(&whole), 5);
	whole.headers = ETH + IP4 + TCP - 1;
	assert_int_equal(sn_frame_segments(&whole), 0);
	whole.headers = whole.bytes;
	assert_int_equal(sn_frame_segments(&whole), 0);
	whole.headers = ETH + IP4 + TCP;
	whole.mss = 0;
	assert_int_equal(sn_frame_segments(&whole), 0);
	whole.mss = 100;
	put16(frame + 12, 0x0806); /* ARP */
	assert_int_equal(sn_frame_segments(&whole), 0);
}

/* Whatever comes off the wire is read within its bounds: run with AddressSanitizer. */
static void noise_is_read_within_its_bounds(void **state)
{
	struct sn_frame where;

	srand(7);
	for (int i = 0; i < 20000; i++) {
		uint32_t bytes = (uint32_t)rand() % 128;
		uint8_t *noise = malloc(bytes + !bytes);

		assert_non_null(noise);
		for (uint32_t at = 0; at < bytes; at++)
			noise[at] = (uint8_t)rand();
		if (bytes > ETH) {
			put16(noise + 12, i & 1 ? 0x0800 : 0x86dd);
			noise[ETH] = i & 1 ? 0x45 : 0x60;
		}
		if (sn_frame_read(noise, bytes, &where)) {
			assert_true(where.l3 < where.l4 && where.l4 <= where.end &&
				    where.end <= bytes);
			sn_frame_l3_is_right(noise, &where);
			sn_frame_l4_is_right(noise, &where);
		}
		free(noise);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_are_found),
		cmocka_unit_test(extension_headers_are_passed),
		cmocka_unit_test(what_is_cut_short_is_not_read),
		cmocka_unit_test(a_fragment_has_no_ports),
		cmocka_unit_test(sum_is_rfc_1071s),
		cmocka_unit_test(a_checksum_is_right_until_a_byte_changes),
		cmocka_unit_test(a_checksum_worked_out_by_hand),
		cmocka_unit_test(udp_without_a_checksum_is_right),
		cmocka_unit_test(segments_are_the_whole),
		cmocka_unit_test(what_cannot_be_cut_has_no_segments),
		cmocka_unit_test(noise_is_read_within_its_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
