/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* XOR as a matrix of ones: what can be recovered of each group of the code. */
#include "xor.h"

#include <errno.h>
#include <string.h>

void sdr_xor_matrix(uint32_t n_data, uint32_t n_parity, uint8_t *matrix)
{
	memset(matrix, 0, (size_t)n_data * n_parity);
	for (uint32_t i = 0; i < n_data; i++)
		matrix[(i % n_parity) * n_data + i] = 1;
}

static void init(uint32_t n_in, uint32_t n_out, const uint8_t *matrix, uint8_t *tables)
{
	memcpy(tables, matrix, (size_t)n_in * n_out);
}

static void apply(uint32_t n_in, uint32_t n_out, const uint8_t *tables, size_t len,
		  const uint8_t *const *in, uint8_t *const *out)
{
	for (uint32_t r = 0; r < n_out; r++) {
		memset(out[r], 0, len);
		for (uint32_t i = 0; i < n_in; i++)
			for (size_t b = 0; tables[r * n_in + i] && b < len; b++)
				out[r][b] ^= in[i][b];
	}
}

const struct sdr_kernel sdr_kernel_xor = { 1, init, apply };

/* The missing one of each group is the sum of the others and the parity. */
int sdr_xor_recover(struct sdr_work *w, struct sdr_piece *data, uint32_t n_data,
		    struct sdr_piece *parity, uint32_t n_parity)
{
	uint32_t at[SDR_CODE_CHUNKS], group[SDR_CODE_CHUNKS];

	w->n_in = w->n_out = 0;
	for (uint32_t i = 0; i < n_data + n_parity; i++) {
		struct sdr_piece *p = i < n_data ? &data[i] : &parity[i - n_data];
		uint32_t g = i < n_data ? i % n_parity : i - n_data;

		if (p->missing && i < n_data) {
			for (uint32_t k = 0; k < w->n_out; k++)
				if (group[k] == g)
					return -ENODATA;
			group[w->n_out] = g;
			w->out[w->n_out++] = p;
		} else if (!p->missing) {
			at[w->n_in] = g;
			w->in[w->n_in++] = p;
		}
	}
	for (uint32_t r = 0; r < w->n_out; r++) {
		if (parity[group[r]].missing)
			return -ENODATA;
		for (uint32_t i = 0; i < w->n_in; i++)
			w->matrix[r * w->n_in + i] = at[i] == group[r];
	}
	return 0;
}
