/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The introduction that an end tells the other before they are connected: magic, version, numbers;
 * little endian, each in 4 or 8 bytes.
 */
#include "sdr/shell/blob.h"

#include <endian.h>
#include <string.h>

enum { MAGIC = 0x31524453, VERSION = 5, WORDS = 14, HEAD = 4 * WORDS + 8, NIC = 4 + 16 };

enum { SIGNED = 1, CHUNK_BY_DEFAULT = 2 };

static void put32(uint8_t **at, uint32_t v)
{
	v = htole32(v);
	memcpy(*at, &v, sizeof(v));
	*at += sizeof(v);
}

static uint32_t get32(const uint8_t **at)
{
	uint32_t v;

	memcpy(&v, *at, sizeof(v));
	*at += sizeof(v);
	return le32toh(v);
}

static uint32_t queue_pairs(const struct sdr_blob *b)
{
	return b->channels * b->generations;
}

static size_t size_of(const struct sdr_blob *b)
{
	return HEAD + NIC * b->n_nics + 4 * (b->channels + queue_pairs(b));
}

static void put_nic(uint8_t **at, const struct sdr_peer *nic)
{
	put32(at, nic->lid);
	memcpy(*at, nic->gid.raw, sizeof(nic->gid.raw));
	*at += sizeof(nic->gid.raw);
}

static void get_nic(const uint8_t **at, struct sdr_peer *nic)
{
	nic->lid = (uint16_t)get32(at);
	memcpy(nic->gid.raw, *at, sizeof(nic->gid.raw));
	*at += sizeof(nic->gid.raw);
}

int sdr_blob_write(const struct sdr_blob *b, void *buf, size_t *len)
{
	uint64_t size = htole64(b->max_msg_size);
	size_t need = size_of(b);
	uint8_t *at = buf;

	if (*len < need)
		return -ENOSPC;
	put32(&at, MAGIC);
	put32(&at, VERSION);
	put32(&at, b->connection);
	put32(&at, b->packet);
	put32(&at, b->max_msgs);
	put32(&at, b->chunk);
	put32(&at, b->channels);
	put32(&at, b->generations);
	put32(&at, b->n_nics);
	put32(&at, b->qkey);
	put32(&at, b->id_bits);
	put32(&at, b->offset_bits);
	put32(&at, b->mtu);
	put32(&at, (b->is_signed ? SIGNED : 0) | (b->chunk_by_default ? CHUNK_BY_DEFAULT : 0));
	memcpy(at, &size, sizeof(size));
	at += sizeof(size);
	for (uint32_t i = 0; i < b->n_nics; i++)
		put_nic(&at, &b->nics[i]);
	for (uint32_t i = 0; i < b->channels; i++)
		put32(&at, b->control_qpn[i]);
	for (uint32_t i = 0; i < queue_pairs(b); i++)
		put32(&at, b->qpn[i]);
	*len = need;
	return 0;
}

static bool makes_sense(const struct sdr_blob *b)
{
	return b->channels && b->channels <= SDR_RAILS_MAX && b->generations &&
	       b->generations <= SDR_GENERATIONS_MAX && b->n_nics && b->n_nics <= SDR_NICS_MAX &&
	       b->n_nics <= b->channels && b->mtu >= IBV_MTU_256 && b->mtu <= IBV_MTU_4096;
}

int sdr_blob_read(struct sdr_blob *b, const void *buf, size_t len)
{
	const uint8_t *at = buf;
	uint32_t flags;

	memset(b, 0, sizeof(*b));
	if (len < 8 || get32(&at) != MAGIC)
		return -EBADMSG;
	if (get32(&at) != VERSION)
		return -EPROTONOSUPPORT;
	if (len < HEAD)
		return -EBADMSG;
	b->connection = get32(&at);
	b->packet = get32(&at);
	b->max_msgs = get32(&at);
	b->chunk = get32(&at);
	b->channels = get32(&at);
	b->generations = get32(&at);
	b->n_nics = get32(&at);
	b->qkey = get32(&at);
	b->id_bits = (uint8_t)get32(&at);
	b->offset_bits = (uint8_t)get32(&at);
	b->mtu = (uint8_t)get32(&at);
	flags = get32(&at);
	b->is_signed = (flags & SIGNED) != 0;
	b->chunk_by_default = (flags & CHUNK_BY_DEFAULT) != 0;
	memcpy(&b->max_msg_size, at, 8);
	b->max_msg_size = le64toh(b->max_msg_size);
	at += 8;
	if (!makes_sense(b) || len != size_of(b))
		return -EBADMSG;
	for (uint32_t i = 0; i < b->n_nics; i++)
		get_nic(&at, &b->nics[i]);
	for (uint32_t i = 0; i < b->channels; i++)
		b->control_qpn[i] = get32(&at);
	for (uint32_t i = 0; i < queue_pairs(b); i++)
		b->qpn[i] = get32(&at);
	return 0;
}
