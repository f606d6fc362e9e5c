/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The MDS code: a Cauchy matrix, and what recovers from it. The one file that knows ISA-L. */
#include "mds.h"

#include <errno.h>

#ifdef SDR_HAVE_ISAL
#include <isa-l.h>

enum { ENTRY = 32 };

/* Neither matrix nor inputs are written to; the library lacks the const. */
static void init(uint32_t n_in, uint32_t n_out, const uint8_t *matrix, uint8_t *tables)
{
	ec_init_tables((int)n_in, (int)n_out, (unsigned char *)matrix, tables);
}

static void apply(uint32_t n_in, uint32_t n_out, const uint8_t *tables, size_t len,
		  const uint8_t *const *in, uint8_t *const *out)
{
	ec_encode_data((int)len, (int)n_in, (int)n_out, (unsigned char *)tables,
		       (unsigned char **)in, (unsigned char **)out);
}

const struct sdr_kernel sdr_kernel_mds = { ENTRY, init, apply };
#endif

void sdr_mds_matrix(uint32_t k, uint32_t n_data, uint32_t n_parity, uint8_t *matrix)
{
	for (uint32_t r = 0; r < n_parity; r++)
		for (uint32_t i = 0; i < n_data; i++)
			matrix[r * n_data + i] = sdr_gf_inverse((uint8_t)((k + r) ^ i));
}

/* The entries of the matrix where what is missing meets the parities that are here. */
static bool solve(uint32_t k, const uint32_t *missing, const uint32_t *rows, uint32_t n,
		  uint8_t *inverse)
{
	uint8_t square[SDR_CODE_CHUNKS * SDR_CODE_CHUNKS / 4 + 1];

	for (uint32_t r = 0; r < n; r++)
		for (uint32_t i = 0; i < n; i++)
			square[r * n + i] = sdr_gf_inverse((uint8_t)((k + rows[r]) ^ missing[i]));
	return sdr_gf_invert(square, inverse, n);
}

/* How the missing one t comes out of data i: through every parity that is used. */
static uint8_t through(uint32_t k, const uint8_t *inverse, const uint32_t *rows, uint32_t n,
		       uint32_t t, uint32_t i)
{
	uint8_t sum = 0;

	for (uint32_t r = 0; r < n; r++)
		sum ^= sdr_gf_mul(inverse[t * n + r], sdr_gf_inverse((uint8_t)((k + rows[r]) ^ i)));
	return sum;
}

int sdr_mds_recover(uint32_t k, struct sdr_work *w, struct sdr_piece *data, uint32_t n_data,
		    struct sdr_piece *parity, uint32_t n_parity)
{
	uint8_t inverse[SDR_CODE_CHUNKS * SDR_CODE_CHUNKS / 4 + 1];
	uint32_t missing[SDR_CODE_CHUNKS], rows[SDR_CODE_CHUNKS], here[SDR_CODE_CHUNKS], n = 0;

	w->n_in = w->n_out = 0;
	for (uint32_t i = 0; i < n_data; i++) {
		if (data[i].missing) {
			missing[w->n_out] = i;
			w->out[w->n_out++] = &data[i];
		} else {
			here[w->n_in] = i;
			w->in[w->n_in++] = &data[i];
		}
	}
	for (uint32_t r = 0; r < n_parity && n < w->n_out; r++)
		if (!parity[r].missing) {
			rows[n++] = r;
			w->in[w->n_in++] = &parity[r];
		}
	if (n < w->n_out || !solve(k, missing, rows, n, inverse))
		return -ENODATA;
	for (uint32_t t = 0; t < n; t++)
		for (uint32_t i = 0; i < w->n_in; i++)
			w->matrix[t * w->n_in + i] =
				i < w->n_in - n ? through(k, inverse, rows, n, t, here[i])
						: inverse[t * n + i - (w->n_in - n)];
	return 0;
}
