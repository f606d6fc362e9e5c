/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Room in the program's completion queue. Each end shares its queue with neighbours, who may fill all places that the
 * program has counted. What the program has not counted takes other places: flushed requests that are not signaled, and
 * hidden ones. As many as shiftlib/replica/cq_room.h reserves.
 *
 * R1: no completion that the program has not counted takes a place that the program has counted.
 */
#ifndef TESTS_SIM_SIM_ROOM_H
#define TESTS_SIM_SIM_ROOM_H

struct sim_qp;
struct sim_world;

/* A completion has been written. */
void sim_room_look(struct sim_world *w, const struct sim_qp *qp);

#endif
