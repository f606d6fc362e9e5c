/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The command side of a NIC: what a kernel's ib_uverbs and mlx5_ib do for one opened
 * /dev/infiniband/uverbsN. Contexts are found by file descriptor; objects by handle in a context.
 *
 * Locks: the table lock (fdtable.c) for the fd table; sn_ctx.lock for everything in a context; the
 * device mutex is taken inside simnic/device/device.h. Order: sn_ctx.lock, then the device mutex. Nothing
 * sleeps for a sick or slow NIC with a lock held.
 */
#ifndef SIMNIC_HOST_UVERBS_H
#define SIMNIC_HOST_UVERBS_H

#include <infiniband/verbs.h> /* before the kernel headers: shares names with them */
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "simnic/device/device.h"

#define SN_PAGE		4096
#define SN_MAX_BFREGS	512
#define SN_MAX_DYN_UARS 512 /* doorbell pages that are asked for one by one: thread domains */
#define SN_COMP_VECTORS 4
#define SN_MAX_OBJECTS	(1 << 20)
#define SN_MAX_SRQ_SGE	15
#define SN_MAX_CQE	((1 << 22) - 1)

enum sn_obj_type {
	SN_OBJ_FREE,
	SN_OBJ_PD,
	SN_OBJ_MR,
	SN_OBJ_CQ,
	SN_OBJ_QP,
	SN_OBJ_AH,
	SN_OBJ_SRQ,
	SN_OBJ_TYPES,
};

/* A completion or asynchronous channel: the application's end of a socket pair, and ours. */
struct sn_channel {
	struct sn_channel *next; /* in sn_ctx.channels */
	bool async;
	int app_fd;  /* -1 once the application closed it */
	int app_dup; /* the same socket under a number that the application cannot reuse */
	int dev_fd;
	uint32_t users; /* CQs and QPs that send their events here */
};

struct sn_obj {
	enum sn_obj_type type;
	uint32_t users; /* objects that refer to this one */
	uint64_t user_handle;
	struct sn_channel *comp, *async;
	union {
		struct {
			uint32_t pdn;
		} pd;
		struct {
			uint32_t lkey, rkey;
			struct ib_uverbs_reg_mr cmd; /* as it is registered */
			void *map; /* of a dma-buf; NULL: the program's own memory */
			size_t map_length;
			struct sn_obj *pd;
		} mr;
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

struct sn_ctx {
	pthread_mutex_t lock;
	uint32_t refs; /* guarded by the table lock: the fd, and commands in progress */
	int fd;
	uint32_t nic_index, incarnation;
	struct sn_nic *nic;
	struct sn_dev *dev; /* NULL until get_context */
	uint8_t *uar;	    /* our own mapping of the doorbell pages */
	uint32_t n_uars, n_bfregs, n_low_latency;
	uint8_t *dyn_uars[SN_MAX_DYN_UARS]; /* our own mappings; NULL: not asked for */
	uint16_t bfreg_users[SN_MAX_BFREGS];
	struct sn_channel *channels, *async;
	struct sn_obj **objs;
	uint32_t n_objs, free_below;	       /* handles below that are all taken */
	_Atomic uint32_t in_use[SN_OBJ_TYPES]; /* read by other contexts of the NIC too */
};

/* fdtable.c */
int sn_host_init(void); /* attaches to the fabric named in the environment; 0 = active */
struct sn_fabric *sn_host_fabric(void);
uint32_t sn_host_number(void);
int sn_ctx_open(unsigned int minor); /* returns the new fd or -errno */
struct sn_ctx *sn_ctx_get(int fd);   /* NULL: not ours. Takes a reference. */
void sn_ctx_put(struct sn_ctx *ctx);
int sn_fd_register(int fd, struct sn_ctx *ctx); /* a channel of ctx; NULL forgets */
void sn_fd_close(int fd); /* before the real close: forgets what was behind fd */
void *sn_ctx_mmap(struct sn_ctx *ctx, void *addr, size_t length, int prot, int flags, off_t offset);

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
int sn_uverbs_write(const struct sn_req *req); /* INVOKE_WRITE */

/* gate.c: what a command goes through before it acts. */
enum sn_gate {
	SN_GATE_FREE, /* no firmware asked: file descriptors, address handles */
	SN_GATE_COMMAND,
	SN_GATE_DESTROY, /* "succeeds" on a NIC with an internal error */
	SN_GATE_MODIFY,	 /* likewise for 2ERR and 2RST; the handler looks itself */
};
int sn_gate_pass(struct sn_ctx *ctx, enum sn_gate gate);
bool sn_gate_internal_error(const struct sn_ctx *ctx);

/* What this process has of that type on the NIC of ctx, as it is since it was last probed. */
uint32_t sn_ctx_in_use(const struct sn_ctx *ctx, enum sn_obj_type type);

/* object.c; lock held, but for sn_obj_make, which needs none. -ENOMEM: also if the NIC has no more. */
int sn_obj_add(struct sn_ctx *ctx, struct sn_obj *obj, uint32_t *handle);
struct sn_obj *sn_obj_find(struct sn_ctx *ctx, uint32_t handle, enum sn_obj_type type);
void sn_obj_drop(struct sn_ctx *ctx, uint32_t handle); /* frees it */
struct sn_obj *sn_obj_make(enum sn_obj_type type);
void sn_mr_unpin(const struct sn_obj *obj); /* mr.c; of any type, when it goes */

/* The object that a handle attribute names, or NULL. */
struct sn_obj *sn_obj_attr(const struct sn_req *req, uint16_t id, enum sn_obj_type type);

/* channel.c; lock held */
int sn_channel_make(struct sn_ctx *ctx, bool async, struct sn_channel **out);
struct sn_channel *sn_channel_find(struct sn_ctx *ctx, int fd, bool async);
/* An object's optional channel: the context's own, or none, when the attribute is absent. */
int sn_channel_attr(const struct sn_req *req, uint16_t id, bool async, struct sn_channel **out);
void sn_channel_put(struct sn_ctx *ctx, struct sn_channel *channel);
bool sn_channel_closed(struct sn_ctx *ctx, int fd); /* the application closes its end */
void sn_channels_free(struct sn_ctx *ctx);
/* Takes an object's unread events back; how many there were. */
uint32_t sn_channel_purge(struct sn_channel *channel, uint64_t element);

/* Handlers, by the file that has them. Lock held. */
int sn_get_context(const struct sn_req *req); /* device.c */
/* A doorbell page that the library asks for by mapping it. Takes the context's lock. */
int sn_dyn_uar_add(struct sn_ctx *ctx, uint32_t index, off_t *offset);
int sn_query_device(const struct sn_req *req);
int sn_query_device_ex(const struct sn_req *req);
int sn_query_port(const struct sn_req *req);
int sn_query_port_write(const struct sn_req *req);
int sn_query_gid(const struct sn_req *req);
int sn_query_gid_table(const struct sn_req *req);
bool sn_gid_index_ok(const struct sn_ctx *ctx, uint32_t index); /* there is an entry */
int sn_async_alloc(const struct sn_req *req);			/* channel.c */
int sn_comp_channel_create(const struct sn_req *req);
int sn_pd_alloc(const struct sn_req *req); /* mr.c */
int sn_pd_dealloc(const struct sn_req *req);
int sn_mr_reg_cmd(const struct sn_req *req);
int sn_mr_rereg_cmd(const struct sn_req *req);
int sn_mr_reg_dmabuf(const struct sn_req *req);
int sn_mr_destroy_cmd(const struct sn_req *req);
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
/* qpstate.c: the IBA 10.3.1 table: which modify is legal, with which attributes */
int sn_qp_check_modify(uint8_t qp_type, uint32_t current, const struct ib_uverbs_modify_qp *cmd);

#endif
