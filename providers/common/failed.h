/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A failed queue, whose completions are made when they are polled. Under the CQ's lock. */
#ifndef SHIFT_FAILED_H
#define SHIFT_FAILED_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct sp_failed {
	bool on;
	bool first_done;
	uint32_t delivered; /* number of requests still to complete with success */
	enum ibv_wc_status first;
	uint32_t vendor_err;
	struct sp_qp *next; /* on the CQ's list: failed_queues.h */
};

#endif
