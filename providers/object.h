/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The objects of an engine. Each has a pointer to its struct shift_provider, by which the shell
 * calls it (engine.h), at SP_ENGINE_AT: before that lies what the data path takes first.
 */
#ifndef SHIFT_OBJECT_H
#define SHIFT_OBJECT_H

#define SP_ENGINE_AT 8

enum { SP_ENGINES = 2 }; /* engine.c has their table */

struct sp_dev;	    /* engine state of one ibv_context */
struct sp_cq;	    /* a driven CQ */
struct sp_cq_ring;  /* one hardware CQ whose completions a driven CQ delivers */
struct sp_qp;	    /* a driven QP, as the application sees it */
struct sp_carrier;  /* a real QP and its rings */
struct sp_srq;	    /* a driven shared receive queue, as the application sees it */
struct sp_reclaim;  /* SHIFT's own QP on such a queue */
struct sp_srq_ring; /* one hardware queue that carriers of its QPs take receives from */

#endif
