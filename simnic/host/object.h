/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The objects of a context, found by handle: one number space for all types. */
#ifndef SIMNIC_HOST_OBJECT_H
#define SIMNIC_HOST_OBJECT_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct sn_cq;
struct sn_ctx;
struct sn_event_file;
struct sn_qp;
struct sn_req;
struct sn_srq;

#define SN_MAX_OBJECTS (1 << 20)

enum sn_obj_type {
	SN_OBJ_FREE,
	SN_OBJ_PD,
	SN_OBJ_MR,
	SN_OBJ_CQ,
	SN_OBJ_QP,
	SN_OBJ_AH,
	SN_OBJ_SRQ,
	SN_OBJ_DM,
	SN_OBJ_DEVX,
	SN_OBJ_MW,
	SN_OBJ_TYPES,
};

struct sn_obj {
	enum sn_obj_type type;
	uint32_t users; /* objects that refer to this one */
	uint64_t user_handle;
	struct sn_event_file *comp, *async; /* for completions; for asynchronous events */
	union {
		struct {
			uint32_t pdn;
		} pd;
		struct {
			uint32_t lkey, rkey;
			struct ib_uverbs_reg_mr cmd; /* the registration as it is now */
			void *map; /* map of a dma-buf; NULL: the program's own memory */
			size_t map_length;
			struct sn_obj *pd, *dm; /* dm: for device memory */
		} mr;
		struct {
			void *map;
			uint64_t length;
			uint32_t page, n_pages;
		} dm;
		struct {
			uint32_t key;
		} devx;
		struct {
			uint32_t rkey;
			struct sn_obj *pd;
		} mw;
		struct {
			struct sn_cq *dev;
			uint32_t cqes, cqe_size;
		} cq;
		struct {
			struct sn_qp *dev;
			struct sn_obj *pd, *scq, *rcq, *srq;
			struct ib_uverbs_qp_cap cap;
			uint32_t bfreg; /* dynamic ones behind n_bfregs */
			uint8_t type;
			bool sig_all;
		} qp;
		struct {
			struct sn_srq *dev;
			struct sn_obj *pd;
			uint32_t wqe_cnt, max_sge;
		} srq;
		struct {
			struct sn_obj *pd;
		} ah;
	};
};

/* The context's lock held, but for sn_obj_make, which needs none. */
struct sn_obj *sn_obj_make(enum sn_obj_type type);
int sn_obj_add(struct sn_ctx *ctx, struct sn_obj *obj, uint32_t *handle); /* -ENOMEM: or no more */
struct sn_obj *sn_obj_find(struct sn_ctx *ctx, uint32_t handle, enum sn_obj_type type);
void sn_obj_unref(struct sn_obj *obj);		       /* one of its users is gone */
void sn_obj_drop(struct sn_ctx *ctx, uint32_t handle); /* frees it */
/* The object that a handle attribute names, or NULL. */
struct sn_obj *sn_obj_attr(const struct sn_req *req, uint16_t id, enum sn_obj_type type);

#endif
