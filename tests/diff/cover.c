/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the cases have reached: a run of random cases that misses a kind of them must say so. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/diff/diff.h"

enum {
	COVER_UNITS = 64, /* 16-byte units of a WQE */
	COVER_INLINE = 1024,
	COVER_FEW = 1000000, /* a run of fewer cases need not reach all */
};

static struct {
	uint64_t opcodes[256];	     /* of WQEs */
	uint64_t wraps[COVER_UNITS]; /* by units before the ring's end */
	uint64_t sizes[COVER_UNITS]; /* by units */
	uint64_t inline_lens[COVER_INLINE];
	uint64_t full_sends, full_receives, refused, refused_later;
	uint64_t syndromes[256];
} cover;

void diff_cover_wqe(const struct mlx5dv_qp *dv, uint32_t post, const struct mlx5_wqe_ctrl_seg *ctrl)
{
	uint32_t units = be32toh(ctrl->qpn_ds) & 0x3f;
	uint32_t room = (dv->sq.wqe_cnt - (post & (dv->sq.wqe_cnt - 1))) * 4;

	cover.opcodes[be32toh(ctrl->opmod_idx_opcode) & 0xff]++;
	cover.sizes[units]++;
	if (units > room)
		cover.wraps[room]++;
}

void diff_cover_inline(uint32_t len)
{
	if (len < COVER_INLINE)
		cover.inline_lens[len]++;
}

void diff_cover_refused(bool full, bool later, bool send)
{
	cover.refused++;
	cover.refused_later += later;
	if (send)
		cover.full_sends += full;
	else
		cover.full_receives += full;
}

void diff_cover_syndrome(uint8_t syndrome)
{
	cover.syndromes[syndrome]++;
}

static unsigned reached(const uint64_t *counts, unsigned from, unsigned to, unsigned step)
{
	unsigned n = 0;

	for (; from < to; from += step)
		n += counts[from] != 0;
	return n;
}

static bool need(const char *what, uint64_t n, uint64_t of)
{
	if (n < of)
		printf("NOT REACHED: %s: %llu of %llu\n", what, (unsigned long long)n,
		       (unsigned long long)of);
	return n >= of;
}

/* False: some kind of case did not come up. */
bool diff_cover_report(uint64_t cases)
{
	static const uint8_t rc[] = {
		MLX5_OPCODE_SEND,	MLX5_OPCODE_SEND_IMM,	    MLX5_OPCODE_SEND_INVAL,
		MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_RDMA_READ,
		MLX5_OPCODE_ATOMIC_CS,	MLX5_OPCODE_ATOMIC_FA,	    MLX5_OPCODE_UMR,
	};
	unsigned opcodes = 0, top = COVER_UNITS - 1;
	bool ok;

	for (unsigned i = 0; i < sizeof(rc); i++)
		opcodes += cover.opcodes[rc[i]] != 0;
	while (top && !cover.sizes[top])
		top--;
	printf("reached: %u opcodes, %u sizes of WQE (up to %u units), wrap at %u offsets, %u "
	       "inline lengths, %u error syndromes; refused %llu (%llu inside a list, send queue "
	       "full %llu, receive queue full %llu)\n",
	       opcodes, reached(cover.sizes, 0, COVER_UNITS, 1), top,
	       reached(cover.wraps, 4, COVER_UNITS, 4),
	       reached(cover.inline_lens, 0, COVER_INLINE, 1), reached(cover.syndromes, 0, 256, 1),
	       (unsigned long long)cover.refused, (unsigned long long)cover.refused_later,
	       (unsigned long long)cover.full_sends, (unsigned long long)cover.full_receives);
	if (cases < COVER_FEW)
		return true;
	ok = need("opcodes", opcodes, sizeof(rc));
	/* WQEs start at multiples of 4 units; longer ones come up in long runs only */
	ok &= need("wrap at offsets 4, 8 .. 28", reached(cover.wraps, 4, 29, 4), 7);
	ok &= need("inline lengths to 256", reached(cover.inline_lens, 0, 257, 1), 257);
	ok &= need("error syndromes", reached(cover.syndromes, 0, 256, 1), 256);
	ok &= need("refusals inside a list", cover.refused_later, 100);
	ok &= need("send queue full", cover.full_sends, 100);
	ok &= need("receive queue full", cover.full_receives, 100);
	return ok;
}

/* The file's name has the version: libmlx5.so.1.<minor>.<rdma-core's>. */
void diff_print_version(void)
{
	char path[4096];
	Dl_info info;

	if (dladdr((void *)mlx5dv_init_obj, &info) && realpath(info.dli_fname, path))
		printf("compared with %s\n", path);
}
