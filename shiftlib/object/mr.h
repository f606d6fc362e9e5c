/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions: what mr.c (made, changed) and mr_end.c share. */
#ifndef SHIFTLIB_OBJECT_MR_H
#define SHIFTLIB_OBJECT_MR_H

#include <infiniband/verbs.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/replica/memory.h"

/*
 * Returns what the region was registered with, to be recorded anew; with a file descriptor of its
 * own.
 */
struct sh_mr sh_mr_request(const struct sh_mr *mr) SH_LOCKED;
/* Records a region. The record keeps the request's descriptor. Lock not held. */
void sh_mr_record(struct ibv_pd *real_pd, struct ibv_mr *real, const struct sh_mr *request);
void sh_mr_fd_close(const struct sh_mr *mr);
void sh_mr_free(struct sh_mr *mr);

#endif
