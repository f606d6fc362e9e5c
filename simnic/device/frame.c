/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Frames of Ethernet as bytes (frame.h). */
#include "simnic/device/frame.h"

#include <string.h>

enum { TYPE_IP4 = 0x0800, TYPE_IP6 = 0x86dd, TYPE_VLAN = 0x8100, TYPE_STAG = 0x88a8 };
enum { IP4_BYTES = 20, IP4_LENGTH = 2, IP4_ID = 4, IP4_FRAGMENT = 6, IP4_PROTO = 9, IP4_SUM = 10 };
enum { IP4_ADDRESSES = 12, IP6_BYTES = 40, IP6_LENGTH = 4, IP6_NEXT = 6, IP6_ADDRESSES = 8 };
enum { HOP_BY_HOP = 0, ROUTING = 43, DESTINATION = 60, MAX_EXTENSIONS = 8 };
enum { TCP_BYTES = 20, TCP_SEQUENCE = 4, TCP_FLAGS = 13, TCP_SUM = 16 };
enum { UDP_BYTES = 8, UDP_LENGTH = 4, UDP_SUM = 6 };
enum { FIN = 1, PSH = 8, CWR = 0x80 };
#define IP4_IS_FRAGMENT 0x3fff /* offset, and "more fragments" */

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* ---- headers -------------------------------------------------------------------------------- */

static uint16_t type_of(const uint8_t *frame, uint32_t bytes, uint32_t *l3)
{
	uint32_t at = SN_FRAME_TYPE;
	uint16_t type = get16(frame + at);

	while ((type == TYPE_VLAN || type == TYPE_STAG) && at + SN_FRAME_VLAN + 2 <= bytes) {
		at += SN_FRAME_VLAN;
		type = get16(frame + at);
	}
	*l3 = at + 2;
	return type;
}

static bool read_ip4(const uint8_t *ip, uint32_t bytes, struct sn_frame *out)
{
	uint32_t header = (ip[0] & 0xfu) * 4, length;

	if (bytes < IP4_BYTES || ip[0] >> 4 != 4 || header < IP4_BYTES)
		return false;
	length = get16(ip + IP4_LENGTH);
	if (length < header || length > bytes)
		return false;
	out->version = 4;
	out->l4 = out->l3 + header;
	out->end = out->l3 + length;
	out->proto = get16(ip + IP4_FRAGMENT) & IP4_IS_FRAGMENT ? 0 : ip[IP4_PROTO];
	return true;
}

static bool is_extension(uint8_t next)
{
	return next == HOP_BY_HOP || next == ROUTING || next == DESTINATION;
}

static bool read_ip6(const uint8_t *ip, uint32_t bytes, struct sn_frame *out)
{
	uint32_t at = IP6_BYTES, length;
	uint8_t next;

	if (bytes < IP6_BYTES || ip[0] >> 4 != 6)
		return false;
	length = IP6_BYTES + get16(ip + IP6_LENGTH);
	if (length > bytes)
		return false;
	next = ip[IP6_NEXT];
	for (int i = 0; is_extension(next) && i < MAX_EXTENSIONS && at + 8 <= length; i++) {
		next = ip[at];
		at += 8u * (ip[at + 1] + 1u);
	}
	if (at > length)
		return false;
	out->version = 6;
	out->l4 = out->l3 + at;
	out->end = out->l3 + length;
	out->proto = next;
	return true;
}

/* A protocol whose header is not whole is another one. */
static void check_proto(struct sn_frame *out)
{
	uint32_t bytes = out->end - out->l4;

	if ((out->proto == SN_PROTO_TCP && bytes >= TCP_BYTES) ||
	    (out->proto == SN_PROTO_UDP && bytes >= UDP_BYTES))
		return;
	out->proto = 0;
}

bool sn_frame_read(const uint8_t *frame, uint32_t bytes, struct sn_frame *out)
{
	uint16_t type;
	bool is_ip;

	*out = (struct sn_frame){ 0 };
	if (bytes < SN_FRAME_HEADER)
		return false;
	type = type_of(frame, bytes, &out->l3);
	is_ip = (type == TYPE_IP4 && read_ip4(frame + out->l3, bytes - out->l3, out)) ||
		(type == TYPE_IP6 && read_ip6(frame + out->l3, bytes - out->l3, out));
	if (is_ip)
		check_proto(out);
	return is_ip;
}

/* ---- checksums ------------------------------------------------------------------------------ */

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint64_t add(const uint8_t *at, uint32_t bytes)
{
	uint64_t sum = 0;

	for (; bytes > 1; at += 2, bytes -= 2)
		sum += get16(at);
	return bytes ? sum + ((uint32_t)*at << 8) : sum;
}

uint16_t sn_frame_sum(const uint8_t *at, uint32_t bytes)
{
	return fold(add(at, bytes));
}

/* Of TCP or UDP, the pseudo-header included. */
static uint16_t sum_l4(const uint8_t *frame, const struct sn_frame *where)
{
	const uint8_t *ip = frame + where->l3;
	uint32_t bytes = where->end - where->l4;
	uint64_t sum = add(frame + where->l4, bytes) + bytes + where->proto;

	return fold(sum + (where->version == 4 ? add(ip + IP4_ADDRESSES, 8)
					       : add(ip + IP6_ADDRESSES, 32)));
}

static uint8_t *l4_sum_at(uint8_t *frame, const struct sn_frame *where)
{
	return frame + where->l4 + (where->proto == SN_PROTO_TCP ? TCP_SUM : UDP_SUM);
}

void sn_frame_fill_l3(uint8_t *frame, const struct sn_frame *where)
{
	uint8_t *ip = frame + where->l3;

	if (where->version != 4)
		return;
	put16(ip + IP4_SUM, 0);
	put16(ip + IP4_SUM, (uint16_t)~sn_frame_sum(ip, where->l4 - where->l3));
}

void sn_frame_fill_l4(uint8_t *frame, const struct sn_frame *where)
{
	uint8_t *at = l4_sum_at(frame, where);
	uint16_t sum;

	if (!where->proto)
		return;
	put16(at, 0);
	sum = (uint16_t)~sum_l4(frame, where);
	/* RFC 768: zero means that there is none */
	put16(at, sum || where->proto == SN_PROTO_TCP ? sum : 0xffff);
}

bool sn_frame_l3_is_right(const uint8_t *frame, const struct sn_frame *where)
{
	return where->version != 4 ||
	       sn_frame_sum(frame + where->l3, where->l4 - where->l3) == 0xffff;
}

bool sn_frame_l4_is_right(const uint8_t *frame, const struct sn_frame *where)
{
	if (!where->proto)
		return true;
	if (where->proto == SN_PROTO_UDP && where->version == 4 &&
	    !get16(frame + where->l4 + UDP_SUM))
		return true;
	return sum_l4(frame, where) == 0xffff;
}

/* ---- segments ------------------------------------------------------------------------------- */

uint32_t sn_frame_segments(const struct sn_frame_long *whole)
{
	struct sn_frame where;

	if (!whole->mss || whole->bytes <= whole->headers)
		return 0;
	if (!sn_frame_read(whole->frame, whole->bytes, &where) || !where.proto ||
	    where.l4 + (where.proto == SN_PROTO_TCP ? TCP_BYTES : UDP_BYTES) > whole->headers)
		return 0;
	return (whole->bytes - whole->headers + whole->mss - 1) / whole->mss;
}

static void set_ip(uint8_t *ip, struct sn_frame *where, uint32_t index, uint32_t bytes)
{
	where->end = bytes;
	if (where->version == 4) {
		put16(ip + IP4_LENGTH, bytes - where->l3);
		put16(ip + IP4_ID, get16(ip + IP4_ID) + index);
	} else {
		put16(ip + IP6_LENGTH, bytes - where->l3 - IP6_BYTES);
	}
}

static void set_tcp(uint8_t *tcp, uint32_t offset, bool first, bool last)
{
	uint32_t sequence =
		(uint32_t)get16(tcp + TCP_SEQUENCE) << 16 | get16(tcp + TCP_SEQUENCE + 2);

	sequence += offset;
	put16(tcp + TCP_SEQUENCE, sequence >> 16);
	put16(tcp + TCP_SEQUENCE + 2, sequence);
	if (!first)
		tcp[TCP_FLAGS] &= (uint8_t)~CWR;
	if (!last)
		tcp[TCP_FLAGS] &= (uint8_t) ~(FIN | PSH);
}

uint32_t sn_frame_segment(const struct sn_frame_long *whole, uint32_t index, uint8_t *out)
{
	uint32_t offset = index * whole->mss, left = whole->bytes - whole->headers - offset;
	uint32_t bytes = whole->headers + (left < whole->mss ? left : whole->mss);
	struct sn_frame where;

	sn_frame_read(whole->frame, whole->bytes, &where);
	memcpy(out, whole->frame, whole->headers);
	memcpy(out + whole->headers, whole->frame + whole->headers + offset,
	       bytes - whole->headers);
	set_ip(out + where.l3, &where, index, bytes);
	if (where.proto == SN_PROTO_TCP)
		set_tcp(out + where.l4, offset, !index, left <= whole->mss);
	else
		put16(out + where.l4 + UDP_LENGTH, bytes - where.l4);
	sn_frame_fill_l3(out, &where);
	sn_frame_fill_l4(out, &where);
	return bytes;
}
