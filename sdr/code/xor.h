/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The XOR code, for column.c. */
#ifndef SDR_CODE_XOR_H
#define SDR_CODE_XOR_H

#include "code.h"

void sdr_xor_matrix(uint32_t n_data, uint32_t n_parity, uint8_t *matrix);
/* Inputs, outputs and the matrix between them; -ENODATA: a group misses two. */
int sdr_xor_recover(struct sdr_work *w, struct sdr_piece *data, uint32_t n_data,
		    struct sdr_piece *parity, uint32_t n_parity);

#endif
