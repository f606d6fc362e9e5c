/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Encoding and decoding by columns. Chunks lie a power of two apart, so that the same offset of all
 * of them meets in few sets of the cache: 4 KiB of each are copied to a scratch, side by side, and
 * worked on there.
 */
#include "mds.h"
#include "xor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef SDR_HAVE_ISAL
#define MDS_KERNEL (&sdr_kernel_mds)
#else
#define MDS_KERNEL (&sdr_kernel_plain)
#endif

int sdr_code_init(struct sdr_code *c, bool is_xor, uint32_t k, uint32_t m)
{
	if (!k || !m || k > SDR_CODE_CHUNKS || m > SDR_CODE_CHUNKS || k + m > SDR_CODE_CHUNKS)
		return -EINVAL;
	*c = (struct sdr_code){ .is_xor = is_xor, .k = k, .m = m };
	c->kernel = is_xor ? &sdr_kernel_xor : MDS_KERNEL;
	return 0;
}

void sdr_code_matrix(const struct sdr_code *c, uint32_t n_data, uint32_t n_parity, uint8_t *matrix)
{
	if (c->is_xor)
		sdr_xor_matrix(n_data, n_parity, matrix);
	else
		sdr_mds_matrix(c->k, n_data, n_parity, matrix);
}

static size_t part(const struct sdr_piece *p, size_t at, size_t len)
{
	if (at >= p->len)
		return 0;
	return p->len - at < len ? p->len - at : len;
}

static void columns(const struct sdr_code *c, const struct sdr_work *w, const uint8_t *tables,
		    size_t len, uint8_t *scratch)
{
	const uint8_t *in[SDR_CODE_CHUNKS];
	uint8_t *out[SDR_CODE_CHUNKS];
	size_t n, now;

	for (uint32_t i = 0; i < w->n_in; i++)
		in[i] = scratch + (size_t)i * SDR_COLUMN;
	for (uint32_t r = 0; r < w->n_out; r++)
		out[r] = scratch + (size_t)(w->n_in + r) * SDR_COLUMN;
	for (size_t at = 0; at < len; at += SDR_COLUMN) {
		now = len - at < SDR_COLUMN ? len - at : SDR_COLUMN;
		for (uint32_t i = 0; i < w->n_in; i++) {
			n = part(w->in[i], at, now);
			memcpy(scratch + (size_t)i * SDR_COLUMN, w->in[i]->at + at, n);
			memset(scratch + (size_t)i * SDR_COLUMN + n, 0, now - n);
		}
		c->kernel->apply(w->n_in, w->n_out, tables, now, in, out);
		for (uint32_t r = 0; r < w->n_out; r++)
			memcpy(w->out[r]->at + at, out[r], part(w->out[r], at, now));
	}
}

static size_t longest(const struct sdr_piece *p, uint32_t n)
{
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++)
		if (p[i].len > len)
			len = p[i].len;
	return len;
}

/* Works on the pieces where they lie; all have the same length. */
static void in_place(const struct sdr_code *c, const struct sdr_work *w, const uint8_t *tables,
		     size_t len)
{
	const uint8_t *in[SDR_CODE_CHUNKS];
	uint8_t *out[SDR_CODE_CHUNKS];

	for (uint32_t i = 0; i < w->n_in; i++)
		in[i] = w->in[i]->at;
	for (uint32_t r = 0; r < w->n_out; r++)
		out[r] = w->out[r]->at;
	c->kernel->apply(w->n_in, w->n_out, tables, len, in, out);
}

/* Room for a matrix and its tables. */
static uint8_t *room(const struct sdr_code *c, size_t n_in, size_t n_out)
{
	return malloc(n_in * n_out * (1 + c->kernel->entry));
}

static int encode(const struct sdr_code *c, struct sdr_piece *data, uint32_t n_data,
		  struct sdr_piece *parity, uint32_t n_parity, uint8_t *scratch)
{
	struct sdr_work w = { .n_in = n_data, .n_out = n_parity };
	uint8_t *tables;

	w.matrix = room(c, n_data, n_parity);
	if (!w.matrix)
		return -ENOMEM;
	tables = w.matrix + (size_t)n_data * n_parity;
	for (uint32_t i = 0; i < n_data; i++)
		w.in[i] = &data[i];
	for (uint32_t r = 0; r < n_parity; r++)
		w.out[r] = &parity[r];
	sdr_code_matrix(c, n_data, n_parity, w.matrix);
	c->kernel->init(n_data, n_parity, w.matrix, tables);
	if (scratch)
		columns(c, &w, tables, longest(parity, n_parity), scratch);
	else
		in_place(c, &w, tables, longest(parity, n_parity));
	free(w.matrix);
	return 0;
}

int sdr_code_encode(const struct sdr_code *c, struct sdr_piece *data, uint32_t n_data,
		    struct sdr_piece *parity, uint32_t n_parity, uint8_t *scratch)
{
	return encode(c, data, n_data, parity, n_parity, scratch);
}

int sdr_code_encode_in_place(const struct sdr_code *c, struct sdr_piece *data, uint32_t n_data,
			     struct sdr_piece *parity, uint32_t n_parity)
{
	return encode(c, data, n_data, parity, n_parity, NULL);
}

int sdr_code_decode(const struct sdr_code *c, struct sdr_piece *data, uint32_t n_data,
		    struct sdr_piece *parity, uint32_t n_parity, uint8_t *scratch)
{
	/* outputs are at most the data, or the parity that makes up for it */
	uint32_t n_out = n_data < n_parity ? n_data : n_parity;
	struct sdr_work w = { 0 };
	uint8_t *tables;
	int ret;

	w.matrix = room(c, n_data + n_parity, n_out);
	if (!w.matrix)
		return -ENOMEM;
	tables = w.matrix + (size_t)(n_data + n_parity) * n_out;
	ret = c->is_xor ? sdr_xor_recover(&w, data, n_data, parity, n_parity)
			: sdr_mds_recover(c->k, &w, data, n_data, parity, n_parity);
	if (!ret && w.n_out) {
		c->kernel->init(w.n_in, w.n_out, w.matrix, tables);
		columns(c, &w, tables, longest(data, n_data), scratch);
	}
	free(w.matrix);
	return ret;
}
