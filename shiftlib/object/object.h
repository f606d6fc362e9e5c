/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Of what the application made, between the files of this folder. */
#ifndef SHIFTLIB_OBJECT_H
#define SHIFTLIB_OBJECT_H

#include "shiftlib/conn/qp.h"

void sh_parents_forget(struct sh_pd *pd); /* lock held */
int sh_parent_destroy(
	struct ibv_pd *real); /* as ibv_dealloc_pd(); of any that memory.c does not know */

#endif
