/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The command side of a NIC: what a kernel's ib_uverbs and mlx5_ib do for one opened
 * /dev/infiniband/uverbsN. Requests, what is in them, and who handles which.
 */
#ifndef SIMNIC_HOST_UVERBS_H
#define SIMNIC_HOST_UVERBS_H

#include <infiniband/verbs.h> /* before the kernel headers: shares names with them */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sn_ctx;
struct sn_obj;
struct sn_wait;

#define SN_COMP_VECTORS 4
#define SN_MAX_SRQ_SGE	15

/* A decoded request: the attributes of an ioctl. All functions return 0 or -errno. */
struct sn_req {
	struct sn_ctx *ctx;
	struct ib_uverbs_ioctl_hdr *hdr;
};
struct ib_uverbs_attr *sn_req_attr(const struct sn_req *req, uint16_t id);
/* Copies up to size bytes, zeroes the rest; -EINVAL when absent or shorter than min. */
int sn_req_in(const struct sn_req *req, uint16_t id, void *to, size_t min, size_t size);
int sn_req_out(const struct sn_req *req, uint16_t id, const void *from, size_t size);
/* u32 in `data`: handles, fds, numbers */
int sn_req_u32(const struct sn_req *req, uint16_t id, uint32_t *value);

int sn_uverbs_ioctl(struct sn_ctx *ctx, struct ib_uverbs_ioctl_hdr *hdr);

/* Handlers, by the file that has them. The context's lock held. */
int sn_get_context(const struct sn_req *req); /* device.c */
int sn_query_device(const struct sn_req *req);
int sn_query_device_ex(const struct sn_req *req);
int sn_query_port(const struct sn_req *req);
int sn_query_port_write(const struct sn_req *req);
int sn_query_gid(const struct sn_req *req);
int sn_query_gid_table(const struct sn_req *req);
int sn_async_alloc(const struct sn_req *req); /* event_file.c */
int sn_comp_channel_create(const struct sn_req *req);
int sn_pd_alloc(const struct sn_req *req); /* mr.c */
int sn_pd_check(const struct sn_req *req); /* 0: nothing uses it */
int sn_pd_dealloc(const struct sn_req *req);
int sn_mr_reg_cmd(const struct sn_req *req);
int sn_mr_rereg_cmd(const struct sn_req *req);
int sn_mr_advise_cmd(const struct sn_req *req);
int sn_mr_reg_dmabuf(const struct sn_req *req);
int sn_mr_destroy_cmd(const struct sn_req *req);
int sn_dm_alloc(const struct sn_req *req); /* dm.c */
int sn_dm_free(const struct sn_req *req);
int sn_mr_reg_dm(const struct sn_req *req);
int sn_mw_alloc(const struct sn_req *req); /* mw.c */
int sn_mw_dealloc(const struct sn_req *req);
int sn_devx_create(const struct sn_req *req); /* devx.c */
int sn_devx_destroy(const struct sn_req *req);
int sn_devx_modify(const struct sn_req *req);
int sn_devx_other(const struct sn_req *req);
int sn_ah_create(const struct sn_req *req); /* ah.c */
int sn_ah_destroy(const struct sn_req *req);
int sn_cq_create_cmd(const struct sn_req *req); /* cq.c */
int sn_cq_resize_cmd(const struct sn_req *req);
int sn_cq_destroy_cmd(const struct sn_req *req);
int sn_qp_create_cmd(const struct sn_req *req); /* qp.c */
int sn_qp_modify_cmd(const struct sn_req *req);
int sn_qp_query_cmd(const struct sn_req *req);
int sn_qp_destroy_cmd(const struct sn_req *req);
int sn_srq_create_cmd(const struct sn_req *req); /* srq.c */
int sn_srq_modify_cmd(const struct sn_req *req);
int sn_srq_query_cmd(const struct sn_req *req);
int sn_srq_destroy_cmd(const struct sn_req *req);

/* The additional time of some commands (gate.h); no lock held. */
void sn_mr_reg_wait(const struct sn_req *req, struct sn_wait *wait);
void sn_ah_wait(const struct sn_req *req, struct sn_wait *wait);
void sn_qp_modify_wait(const struct sn_req *req, struct sn_wait *wait);

/* device.c. A doorbell page that the library asks for by mapping it; takes the context's lock. */
int sn_dyn_uar_add(struct sn_ctx *ctx, uint32_t index, off_t *offset);
bool sn_gid_index_ok(const struct sn_ctx *ctx, uint32_t index); /* there is an entry */
/* Has somebody that GID in the entry's VLAN? On Ethernet. */
bool sn_gid_known(const struct sn_ctx *ctx, const uint8_t dgid[16], uint32_t sgid_index);
/* mr.c. Unpins the memory of a region of any type that goes. */
void sn_mr_unpin(const struct sn_obj *obj);
/* mr.c. Registers the memory at cmd->start, as obj. */
int sn_mr_make(struct sn_ctx *ctx, const struct ib_uverbs_reg_mr *cmd, struct sn_obj *pd,
	       struct sn_obj *mr, uint32_t *handle);
off_t sn_dm_offset(uint32_t page); /* dm.c. Of device memory, in the context's file */

#endif
