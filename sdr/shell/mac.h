/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Signatures of control datagrams, where both ends were given a key. */
#ifndef SDR_SHELL_MAC_H
#define SDR_SHELL_MAC_H

#include "sdr/shell/internal.h"

/* The signature follows the datagram's bytes; where no key was given, there is none. */
uint64_t sdr_mac(const uint8_t key[SDR_MAC_KEY], const void *text, size_t n);
size_t sdr_mac_size(const struct sdr_qp *qp);
size_t sdr_mac_put(const struct sdr_qp *qp, void *datagram, size_t n); /* the new length */
/* n: in: with the signature, out: without. */
bool sdr_mac_check(const struct sdr_qp *qp, const void *datagram, size_t *n);

#endif
