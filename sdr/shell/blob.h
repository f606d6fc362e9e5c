/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The introduction that an end tells the other before they are connected. */
#ifndef SDR_SHELL_BLOB_H
#define SDR_SHELL_BLOB_H

#include "sdr/shell/internal.h"

struct sdr_blob {
	uint32_t connection, packet, max_msgs, chunk, channels, generations, qkey, n_nics;
	uint64_t max_msg_size;
	uint8_t id_bits, offset_bits, mtu, is_signed;
	uint8_t chunk_by_default; /* the other end's word counts, or the larger default */
	/* The mtu of all is the blob's. */
	struct sdr_peer nics[SDR_NICS_MAX]; /* channel i: NIC i mod n_nics */
	uint32_t control_qpn[SDR_RAILS_MAX], qpn[SDR_CHANNELS_MAX];
	uint32_t psn; /* 0 */
};

int sdr_blob_write(const struct sdr_blob *b, void *buf, size_t *len);
int sdr_blob_read(struct sdr_blob *b, const void *buf, size_t len);

#endif
