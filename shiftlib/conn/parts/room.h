/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Places in the program's completion queues for what a move lets complete there: each connection
 * takes them before it may be guarded, and a queue that has too few is made larger, or its
 * connection is not protected.
 */
#ifndef SHIFTLIB_CONN_PARTS_ROOM_H
#define SHIFTLIB_CONN_PARTS_ROOM_H

#include <stdbool.h>
#include "shiftlib/base/locked.h"

struct sh_cq;
struct sh_conn_part;
struct sh_qp;

void sh_room_add(struct sh_qp *qp) SH_LOCKED;	 /* the engine drives it */
void sh_room_remove(struct sh_qp *qp) SH_LOCKED; /* and does so no more */
/* A queue pair has come on its queues: if that makes one short, it is mended at once. */
void sh_room_mend(struct sh_qp *qp) SH_DROPS;
/* A queue could not be made larger: connections without room lose their protection. */
void sh_room_refuse(struct sh_cq *cq) SH_LOCKED;
/* The queue overran: what uses it is the program's affair alone. */
void sh_room_overran(struct sh_qp *qp) SH_LOCKED;

extern const struct sh_conn_part sh_room_part;

#endif
