/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames of Ethernet as bytes: what a NIC reads of them, the checksums that it fills in and
 * verifies, and the segments that it cuts a long one into. Pure.
 */
#ifndef SIMNIC_DEVICE_FRAME_H
#define SIMNIC_DEVICE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

enum { SN_FRAME_HEADER = 14, SN_FRAME_VLAN = 4, SN_FRAME_TYPE = 12 };
enum { SN_PROTO_TCP = 6, SN_PROTO_UDP = 17 };

/* Where the headers of a frame lie. */
struct sn_frame {
	uint32_t l3, l4; /* first byte of the IP header, and of what it carries */
	uint32_t end;	 /* behind the IP packet: padding of a short frame may follow */
	uint8_t version; /* of IP: 4 or 6; 0: something else, and the rest says nothing */
	uint8_t proto;	 /* SN_PROTO_*; 0: another one, or a fragment */
};
/* False: it is no whole frame with an IP packet in it. */
bool sn_frame_read(const uint8_t *frame, uint32_t bytes, struct sn_frame *out);

/* Sum of RFC 1071, folded to 16 bits and not complemented. */
uint16_t sn_frame_sum(const uint8_t *at, uint32_t bytes);
/* Writes the checksum of an IPv4 header; of TCP or UDP. */
void sn_frame_fill_l3(uint8_t *frame, const struct sn_frame *where);
void sn_frame_fill_l4(uint8_t *frame, const struct sn_frame *where);
/* True if the checksum is right, or there is none. */
bool sn_frame_l3_is_right(const uint8_t *frame, const struct sn_frame *where);
bool sn_frame_l4_is_right(const uint8_t *frame, const struct sn_frame *where);

/* A long frame of TCP or UDP, cut into frames of mss bytes behind its headers. */
struct sn_frame_long {
	const uint8_t *frame;
	uint32_t bytes, headers, mss;
};
/* Number of the segments; 0: it cannot be cut. */
uint32_t sn_frame_segments(const struct sn_frame_long *whole);
/* Makes a segment, with its checksums; its bytes. out: room for headers and mss. */
uint32_t sn_frame_segment(const struct sn_frame_long *whole, uint32_t index, uint8_t *out);

#endif
