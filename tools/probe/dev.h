/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The NIC, its port, and the memory that all checks use. */
#ifndef PROBE_DEV_H
#define PROBE_DEV_H

#include <infiniband/verbs.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define PR_ARENA (2u << 20)
#define PR_OUT	 (1u << 20) /* offset of the half that a side sends from */

struct pr_dev {
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *mem;
	char name[64];
	int gid_index; /* -1: by LID */
	union ibv_gid gid;
	const char *gid_type;
	bool rings; /* libmlx5 gives them away */
};

/* @name NULL: the only device there is. @gid_index -1: RoCE v2, or on InfiniBand none. */
int pr_dev_open(struct pr_dev *dev, const char *name, int gid_index);
void pr_dev_close(struct pr_dev *dev);
bool pr_dev_ethernet(const struct pr_dev *dev);
/* A host's description for the report: no names, no addresses. */
json_t *pr_dev_describe(const struct pr_dev *dev);

/* Bytes that no other seed has at the same place. */
void pr_pattern_fill(uint8_t *at, uint32_t len, uint32_t seed);
bool pr_pattern_is(const uint8_t *at, uint32_t len, uint32_t seed);

#endif
