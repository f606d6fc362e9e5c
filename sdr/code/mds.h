/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The MDS code, for column.c. */
#ifndef SDR_CODE_MDS_H
#define SDR_CODE_MDS_H

#include "code.h"

void sdr_mds_matrix(uint32_t k, uint32_t n_data, uint32_t n_parity, uint8_t *matrix);
/* Fills in w as sdr_xor_recover() does; -ENODATA: too little is here. */
int sdr_mds_recover(uint32_t k, struct sdr_work *w, struct sdr_piece *data, uint32_t n_data,
		    struct sdr_piece *parity, uint32_t n_parity);

#endif
