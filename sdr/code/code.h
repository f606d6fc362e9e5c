/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Erasure codes over chunks in memory: k of data, m of parity, fewer of each where a submessage is
 * shorter.
 *
 * XOR: parity i is the sum of the data whose place modulo the number of parities is i. MDS: a
 * Cauchy matrix over GF(256), polynomial 0x11d, entry 1 / ((k + i) ^ j); any m chunks may be
 * missing. With ISA-L or without, the bytes are the same.
 */
#ifndef SDR_CODE_CODE_H
#define SDR_CODE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SDR_CODE_CHUNKS = 255, SDR_COLUMN = 4096 };

/*
 * How sums are made: out[r] = the sum over i of matrix[r * n_in + i] * in[i], for len bytes each.
 * init() turns the matrix into tables, of entry bytes for each entry of the matrix.
 */
struct sdr_kernel {
	size_t entry;
	void (*init)(uint32_t n_in, uint32_t n_out, const uint8_t *matrix, uint8_t *tables);
	void (*apply)(uint32_t n_in, uint32_t n_out, const uint8_t *tables, size_t len,
		      const uint8_t *const *in, uint8_t *const *out);
};

extern const struct sdr_kernel sdr_kernel_plain; /* gf.c */
extern const struct sdr_kernel sdr_kernel_xor;	 /* xor.c: entries are 0 or 1 */
extern const struct sdr_kernel sdr_kernel_mds;	 /* mds.c: ISA-L's, where it is built with it */

uint8_t sdr_gf_mul(uint8_t a, uint8_t b);
uint8_t sdr_gf_inverse(uint8_t a); /* of 0: 0 */
/* n x n, in place of inverse; false: there is none. */
bool sdr_gf_invert(uint8_t *matrix, uint8_t *inverse, uint32_t n);

struct sdr_code {
	bool is_xor;
	uint32_t k, m;
	const struct sdr_kernel *kernel;
};

/* -EINVAL: k + m is above 255, or one of them is 0. */
int sdr_code_init(struct sdr_code *c, bool is_xor, uint32_t k, uint32_t m);
/* The matrix of n_data columns and n_parity rows. */
void sdr_code_matrix(const struct sdr_code *c, uint32_t n_data, uint32_t n_parity, uint8_t *matrix);

/* A chunk. The last one of a message may be shorter than the others; zeros are taken to follow. */
struct sdr_piece {
	uint8_t *at;
	size_t len;
	bool missing;
};

/* scratch: SDR_COLUMN bytes for each of data and parity, aligned to 64. -ENOMEM. */
int sdr_code_encode(const struct sdr_code *c, struct sdr_piece *data, uint32_t n_data,
		    struct sdr_piece *parity, uint32_t n_parity, uint8_t *scratch);
/* Fills in the data that is missing; -ENODATA: too much is. */
int sdr_code_decode(const struct sdr_code *c, struct sdr_piece *data, uint32_t n_data,
		    struct sdr_piece *parity, uint32_t n_parity, uint8_t *scratch);
/* Encodes where the pieces lie, without scratch: all pieces have the same length. -ENOMEM. */
int sdr_code_encode_in_place(const struct sdr_code *c, struct sdr_piece *data, uint32_t n_data,
			     struct sdr_piece *parity, uint32_t n_parity);

/* Work on chunks: inputs in order, outputs, and the matrix between them. */
struct sdr_work {
	uint32_t n_in, n_out;
	struct sdr_piece *in[SDR_CODE_CHUNKS], *out[SDR_CODE_CHUNKS];
	uint8_t *matrix; /* n_out x n_in */
};

#endif
