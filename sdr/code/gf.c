/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* GF(256) in plain C. */
#include "code.h"

#include <string.h>

enum { POLYNOMIAL = 0x1d }; /* without x^8 */

uint8_t sdr_gf_mul(uint8_t a, uint8_t b)
{
	uint8_t product = 0;

	for (; b; b >>= 1) {
		if (b & 1)
			product ^= a;
		a = (uint8_t)(a << 1 ^ (a & 0x80 ? POLYNOMIAL : 0));
	}
	return product;
}

uint8_t sdr_gf_inverse(uint8_t a)
{
	uint8_t power = a, result = 1;

	/* a^254: 254 = 2 + 4 + ... + 128 */
	for (int i = 0; i < 7; i++) {
		power = sdr_gf_mul(power, power);
		result = sdr_gf_mul(result, power);
	}
	return a ? result : 0;
}

static void swap_rows(uint8_t *m, uint32_t n, uint32_t a, uint32_t b)
{
	uint8_t row[SDR_CODE_CHUNKS];

	memcpy(row, m + a * n, n);
	memcpy(m + a * n, m + b * n, n);
	memcpy(m + b * n, row, n);
}

static void scale_row(uint8_t *row, uint32_t n, uint8_t by)
{
	for (uint32_t i = 0; i < n; i++)
		row[i] = sdr_gf_mul(row[i], by);
}

static void add_row(uint8_t *row, const uint8_t *other, uint32_t n, uint8_t by)
{
	for (uint32_t i = 0; i < n; i++)
		row[i] ^= sdr_gf_mul(other[i], by);
}

bool sdr_gf_invert(uint8_t *m, uint8_t *inverse, uint32_t n)
{
	uint32_t pivot;
	uint8_t by;

	memset(inverse, 0, (size_t)n * n);
	for (uint32_t i = 0; i < n; i++)
		inverse[i * n + i] = 1;
	for (uint32_t i = 0; i < n; i++) {
		for (pivot = i; pivot < n && !m[pivot * n + i];)
			pivot++;
		if (pivot == n)
			return false;
		if (pivot != i) {
			swap_rows(m, n, i, pivot);
			swap_rows(inverse, n, i, pivot);
		}
		by = sdr_gf_inverse(m[i * n + i]);
		scale_row(m + i * n, n, by);
		scale_row(inverse + i * n, n, by);
		for (uint32_t r = 0; r < n; r++) {
			by = m[r * n + i];
			if (r == i || !by)
				continue;
			add_row(m + r * n, m + i * n, n, by);
			add_row(inverse + r * n, inverse + i * n, n, by);
		}
	}
	return true;
}

/* The 256 products of each entry. */
static void init(uint32_t n_in, uint32_t n_out, const uint8_t *matrix, uint8_t *tables)
{
	for (size_t i = 0; i < (size_t)n_in * n_out; i++)
		for (unsigned int v = 0; v < 256; v++)
			tables[i * 256 + v] = sdr_gf_mul((uint8_t)v, matrix[i]);
}

static void apply(uint32_t n_in, uint32_t n_out, const uint8_t *tables, size_t len,
		  const uint8_t *const *in, uint8_t *const *out)
{
	for (uint32_t r = 0; r < n_out; r++) {
		memset(out[r], 0, len);
		for (uint32_t i = 0; i < n_in; i++, tables += 256)
			for (size_t b = 0; b < len; b++)
				out[r][b] ^= tables[in[i][b]];
	}
}

const struct sdr_kernel sdr_kernel_plain = { 256, init, apply };
