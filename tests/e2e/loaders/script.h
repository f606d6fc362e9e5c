/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One use of each control verb that SHIFT hooks, for programs that come to the verbs in different
 * ways. What the hooks must have counted afterwards is in loaders.py.
 */
#ifndef TESTS_LOADERS_SCRIPT_H
#define TESTS_LOADERS_SCRIPT_H

#include <infiniband/verbs.h>

struct loader_verbs {
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init_attr);
	int (*destroy_qp)(struct ibv_qp *qp);
};

/* Exit status: 0, 1 with a line on stderr, 77 if there is no device. */
int loader_script(const struct loader_verbs *verbs);

/* Ends the program with a line on stderr unless the condition holds. */
#define LOADER_CHECK(condition) loader_check(condition, #condition, __LINE__)
void loader_check(int good, const char *what, int line);

#endif
