/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The wire form of a record. What is read here was written by anyone who can reach the store. */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "kvclient/check.h"
#include "kvclient/kv.h"

#define KV_MTU_MAX 5
#define KV_QPN_MIN 2u	     /* 0 and 1 are for management */
#define KV_QPN_MAX 0xfffffeu /* 0xffffff is for multicast */
#define KV_LID_MAX 0xbfffu   /* higher ones are for multicast */

/* The first byte stays where it is in each version, as it says what the others mean. */
struct kv_wire_head {
	uint8_t protocol;
	uint8_t reserved0;
	uint8_t head_len;
	uint8_t addr_len;
	uint8_t len[2];
	uint8_t n_addr;
	uint8_t n_backup;
	uint8_t instance[8];
	uint8_t conn_id[4];
	uint8_t nonce[4];
	uint8_t qpn[4];
	uint8_t remote_qpn[4];
	uint8_t default_nic;
	uint8_t reserved[3];
	uint8_t caps[4];
	uint8_t backup[KV_MAX_NICS];
};

struct kv_wire_addr {
	uint8_t nic;
	uint8_t link_layer;
	uint8_t gid_index_hint;
	uint8_t mtu;
	uint8_t lid[2];
	uint8_t reserved[2];
	uint8_t ctrl_qpn[4];
	uint8_t qkey[4];
	uint8_t revision[4];
	uint8_t gid[16];
};

static_assert(sizeof(struct kv_wire_head) == KV_RECORD_HEAD_LEN, "wire size of the head");
static_assert(sizeof(struct kv_wire_addr) == KV_RECORD_ADDR_LEN, "wire size of an address");
static_assert(KV_RECORD_MAX_LEN <= KV_VALUE_MAX, "a record fits a value");

static void put16(uint8_t *to, uint16_t v)
{
	v = htole16(v);
	memcpy(to, &v, sizeof(v));
}

static void put32(uint8_t *to, uint32_t v)
{
	v = htole32(v);
	memcpy(to, &v, sizeof(v));
}

static void put64(uint8_t *to, uint64_t v)
{
	v = htole64(v);
	memcpy(to, &v, sizeof(v));
}

static uint16_t get16(const uint8_t *from)
{
	uint16_t v;

	memcpy(&v, from, sizeof(v));
	return le16toh(v);
}

static uint32_t get32(const uint8_t *from)
{
	uint32_t v;

	memcpy(&v, from, sizeof(v));
	return le32toh(v);
}

static uint64_t get64(const uint8_t *from)
{
	uint64_t v;

	memcpy(&v, from, sizeof(v));
	return le64toh(v);
}

static const struct kv_addr *kv_record_addr(const struct kv_record *rec, uint8_t nic)
{
	for (unsigned i = 0; i < rec->n_addr; i++)
		if (rec->addr[i].nic == nic)
			return &rec->addr[i];
	return NULL;
}

bool kv_qpn_valid(uint32_t qpn)
{
	return qpn >= KV_QPN_MIN && qpn <= KV_QPN_MAX;
}

static bool kv_all_zero(const uint8_t *at, size_t n)
{
	while (n && !*at)
		at++, n--;
	return !n;
}

/* True for one host's address on a fabric: not none, not many, not the sender itself. */
bool kv_gid_valid(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	uint8_t first = gid[12];

	if (kv_all_zero(gid, 15) && gid[15] <= 1)
		return false; /* :: and ::1 */
	if (gid[0] == 0xff)
		return false;
	if (memcmp(gid, mapped, sizeof(mapped)))
		return true;
	return first != 0 && first != 127 &&
	       first < 224; /* IPv4: no loopback, multicast, class E */
}

bool kv_lid_valid(uint16_t lid)
{
	return lid && lid <= KV_LID_MAX;
}

/* Where no control QP is open there is no address that could be right or wrong. */
static bool kv_addr_reachable(const struct kv_addr *addr)
{
	if (!addr->ctrl_qpn)
		return true;
	if (!kv_qpn_valid(addr->ctrl_qpn))
		return false;
	if (addr->link_layer == KV_LINK_ETHERNET)
		return kv_gid_valid(addr->gid);
	return kv_lid_valid(addr->lid);
}

static bool kv_addr_valid(const struct kv_record *rec, const struct kv_addr *addr)
{
	if (addr->link_layer != KV_LINK_INFINIBAND && addr->link_layer != KV_LINK_ETHERNET)
		return false;
	if (addr->mtu > KV_MTU_MAX || !kv_addr_reachable(addr))
		return false;
	return kv_record_addr(rec, addr->nic) == addr;
}

static bool kv_backup_valid(const struct kv_record *rec, unsigned i)
{
	if (rec->backup[i] == rec->default_nic || !kv_record_addr(rec, rec->backup[i]))
		return false;
	for (unsigned j = 0; j < i; j++)
		if (rec->backup[j] == rec->backup[i])
			return false;
	return true;
}

/*
 * Checks a record by one set of rules for both directions, so that nothing is written that peers
 * would refuse.
 */
static bool kv_record_valid(const struct kv_record *rec)
{
	if (rec->n_addr == 0 || rec->n_addr > KV_MAX_NICS || rec->n_backup > KV_MAX_NICS)
		return false;
	if (!kv_qpn_valid(rec->qpn) || !kv_qpn_valid(rec->remote_qpn) || !rec->instance)
		return false;
	if (!kv_record_addr(rec, rec->default_nic))
		return false;
	for (unsigned i = 0; i < rec->n_addr; i++)
		if (!kv_addr_valid(rec, &rec->addr[i]))
			return false;
	for (unsigned i = 0; i < rec->n_backup; i++)
		if (!kv_backup_valid(rec, i))
			return false;
	return true;
}

static void kv_addr_encode(const struct kv_addr *addr, struct kv_wire_addr *wire)
{
	memset(wire, 0, sizeof(*wire));
	wire->nic = addr->nic;
	wire->link_layer = addr->link_layer;
	wire->gid_index_hint = addr->gid_index_hint;
	wire->mtu = addr->mtu;
	put16(wire->lid, addr->lid);
	put32(wire->ctrl_qpn, addr->ctrl_qpn);
	put32(wire->qkey, addr->qkey);
	put32(wire->revision, addr->revision);
	memcpy(wire->gid, addr->gid, sizeof(wire->gid));
}

static void kv_addr_decode(struct kv_addr *addr, const struct kv_wire_addr *wire)
{
	addr->nic = wire->nic;
	addr->link_layer = wire->link_layer;
	addr->gid_index_hint = wire->gid_index_hint;
	addr->mtu = wire->mtu;
	addr->lid = get16(wire->lid);
	addr->ctrl_qpn = get32(wire->ctrl_qpn);
	addr->qkey = get32(wire->qkey);
	addr->revision = get32(wire->revision);
	memcpy(addr->gid, wire->gid, sizeof(addr->gid));
}

int kv_record_encode(const struct kv_record *rec, void *buf, size_t cap, size_t *len)
{
	struct kv_wire_head head = {
		.protocol = KV_PROTOCOL,
		.head_len = sizeof(head),
		.addr_len = sizeof(struct kv_wire_addr),
	};
	struct kv_wire_addr wire;
	uint8_t *to = buf;
	size_t total;

	if (!kv_record_valid(rec))
		return -EINVAL;
	total = sizeof(head) + rec->n_addr * sizeof(wire);
	if (cap < total)
		return -ENOSPC;
	head.n_addr = rec->n_addr;
	head.n_backup = rec->n_backup;
	head.default_nic = rec->default_nic;
	put32(head.caps, rec->caps);
	put16(head.len, (uint16_t)total);
	put64(head.instance, rec->instance);
	put32(head.conn_id, rec->conn_id);
	put32(head.nonce, rec->nonce);
	put32(head.qpn, rec->qpn);
	put32(head.remote_qpn, rec->remote_qpn);
	memcpy(head.backup, rec->backup, rec->n_backup);
	memcpy(to, &head, sizeof(head));
	for (unsigned i = 0; i < rec->n_addr; i++) {
		kv_addr_encode(&rec->addr[i], &wire);
		memcpy(to + sizeof(head) + i * sizeof(wire), &wire, sizeof(wire));
	}
	KV_ASSERT(total <= KV_RECORD_MAX_LEN);
	*len = total;
	return 0;
}

/* Every length before anything is read by it. */
static int kv_head_check(const struct kv_wire_head *head, size_t len)
{
	if (head->n_addr > KV_MAX_NICS || head->n_backup > KV_MAX_NICS)
		return -EBADMSG;
	if (head->head_len != sizeof(*head) || head->addr_len != sizeof(struct kv_wire_addr))
		return -EBADMSG;
	if (get16(head->len) != len ||
	    len != sizeof(*head) + head->n_addr * sizeof(struct kv_wire_addr))
		return -EBADMSG;
	return 0;
}

static void kv_head_decode(struct kv_record *rec, const struct kv_wire_head *head)
{
	rec->protocol = head->protocol;
	rec->caps = get32(head->caps);
	rec->n_addr = head->n_addr;
	rec->n_backup = head->n_backup;
	rec->default_nic = head->default_nic;
	rec->instance = get64(head->instance);
	rec->conn_id = get32(head->conn_id);
	rec->nonce = get32(head->nonce);
	rec->qpn = get32(head->qpn);
	rec->remote_qpn = get32(head->remote_qpn);
	memcpy(rec->backup, head->backup, head->n_backup);
}

int kv_record_decode(struct kv_record *rec, const void *buf, size_t len)
{
	struct kv_record got = { 0 };
	struct kv_wire_head head;
	struct kv_wire_addr wire;
	const uint8_t *from = buf;
	int rc;

	if (len && from[0] != KV_PROTOCOL) {
		rec->protocol = from[0];
		return -EPROTONOSUPPORT;
	}
	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, from, sizeof(head));
	rc = kv_head_check(&head, len);
	if (rc)
		return rc;
	kv_head_decode(&got, &head);
	for (unsigned i = 0; i < got.n_addr; i++) {
		memcpy(&wire, from + sizeof(head) + i * sizeof(wire), sizeof(wire));
		kv_addr_decode(&got.addr[i], &wire);
	}
	if (!kv_record_valid(&got))
		return -EBADMSG;
	*rec = got;
	return 0;
}
