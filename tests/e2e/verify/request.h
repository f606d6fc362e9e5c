/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What is posted, and what completes. */
#ifndef VERIFY_REQUEST_H
#define VERIFY_REQUEST_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAX_SGE = 4, EXPECT_RING = 256 };

/* One posted request, kept until its completion is known. */
struct expect {
	uint64_t wr_id;
	uint64_t seq;
	uint32_t len;
	uint8_t kind;
	bool signaled;
	uint64_t result;
	enum ibv_wc_opcode opcode;
};

/* What a request is for the messages of its QP. */
enum kind { KIND_PART, KIND_DATA, KIND_GRANT, KIND_LAST };

struct fifo {
	struct expect ring[EXPECT_RING];
	uint64_t head;
	uint64_t tail;
	uint64_t posted;
	uint64_t done;
	uint64_t errors;
	uint64_t signaled;
};

/* A completion as both poll styles deliver it. */
struct completion {
	uint64_t wr_id;
	uint32_t qp_num;
	uint32_t byte_len;
	uint32_t imm;
	uint32_t vendor_err;
	unsigned int flags;
	enum ibv_wc_opcode opcode;
	enum ibv_wc_status status;
};

struct request {
	struct expect expect;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint32_t imm;
	int nsge;
	struct ibv_sge sge[MAX_SGE];
	uint64_t raddr;
	uint64_t compare_add;
	uint64_t swap;
};

#endif
