/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The bytes of control messages on the wire: for wire.c and wire_read.c alone. */
#ifndef SHIFTLIB_CONTROL_WIRE_FORM_H
#define SHIFTLIB_CONTROL_WIRE_FORM_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include "shiftlib/control/wire.h"

/* Packed, so that a datagram may lie at any address; all fields little-endian. */

struct wire_header {
	uint32_t magic;
	uint8_t protocol, reserved0;
	uint16_t n_records;
	uint64_t src_instance, dst_instance;
	uint32_t length; /* bytes, this header included */
	uint32_t reserved;
} __attribute__((packed));
static_assert(sizeof(struct wire_header) == 32, "wire form");

struct wire_record {
	uint16_t type;
	uint16_t length; /* bytes, this header included; a multiple of 4 */
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
	uint8_t lazy;
	uint16_t pkey, vlan;
	uint8_t beyond, reads;
	uint8_t stays, homed;
	uint8_t reserved[2];
	uint32_t order, cannot;
} __attribute__((packed));
static_assert(sizeof(struct wire_standby) == 60, "wire form");

struct wire_state {
	uint32_t epoch, seen_epoch, recv_count;
	uint8_t leaving, final, quiesced, flags;
	uint8_t reason, ask, phase, stranded;
	uint32_t switch_no, target, lost;
	uint32_t dead, cut;
	uint8_t wants, exact, exact_seen, stay;
	uint32_t wants_of, exact_of, exact_psn;
	uint32_t stay_no;
} __attribute__((packed));
static_assert(sizeof(struct wire_state) == 60, "wire form");

struct wire_home {
	uint32_t bar_no, bar_seen, used_of, wants_of, granted_of;
	uint8_t used, wants, granted, why;
	uint8_t ask, reserved[3];
} __attribute__((packed));
static_assert(sizeof(struct wire_home) == 28, "wire form");

struct wire_word {
	uint32_t carrier, rkey;
	uint64_t addr, value;
	uint8_t kind, reserved[7];
} __attribute__((packed));
static_assert(sizeof(struct wire_word) == 32, "wire form");

struct wire_log {
	uint32_t carrier, rkey;
	uint64_t addr;
	uint32_t tag, number;
	uint8_t kind, why, reserved[6];
} __attribute__((packed));
static_assert(sizeof(struct wire_log) == 32, "wire form");

struct wire_inquiry {
	uint32_t carrier;
	uint8_t kind, status, reserved[2];
} __attribute__((packed));
static_assert(sizeof(struct wire_inquiry) == 8, "wire form");

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

#define WIRE_PSN_MAX 0xffffffu
#define WIRE_FLAGS   (SC_FLAG_FATAL | SC_FLAG_CLOSED)

#endif
