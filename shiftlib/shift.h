/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The interface of SHIFT for the exported verbs (libibverbs/): all that they may know.
 *
 * Each shift_*() below is a whole verb: it calls the distribution's function through struct
 * shift_real, records what a backup needs, and follows the conventions of its verb (errno set, or a
 * positive errno returned). The hooks call them only when SHIFT is on and the calling thread is not
 * already inside one (libibverbs/hook.h); objects that SHIFT does not know are forwarded.
 */
#ifndef SHIFTLIB_SHIFT_H
#define SHIFTLIB_SHIFT_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/*
 * The distribution's functions, by dlvsym from libibverbs-distro.so.1. Never NULL but where said.
 */
struct shift_real {
	/*
	 * Marks the calling thread, one of SHIFT's own, as inside for good: all its calls go to the
	 * distribution. Called first by every thread and job of the shell.
	 */
	void (*thread_inside)(void);
	struct ibv_device **(*get_device_list)(int *num_devices);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	const char *(*event_type_str)(enum ibv_event_type event);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port,
			  struct _compat_ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
	int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access); /* may be NULL */
	int (*rereg_mr)(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	enum ibv_fork_status (*is_fork_initialized)(void); /* may be NULL */
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			    void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int nevents);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init_attr);
	int (*destroy_qp)(struct ibv_qp *qp);
	struct ibv_qp_ex *(*qp_to_qp_ex)(struct ibv_qp *qp);
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
	int (*destroy_srq)(struct ibv_srq *srq);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	int (*destroy_ah)(struct ibv_ah *ah);
};

/* True if SHIFT is on in this process. Asked before shift_init(), once. */
bool shift_wanted(void);

/*
 * Starts SHIFT, once per process: from the library's constructor or at the first verb, before any
 * thread of ours exists. Reads SHIFT_*. Starts no thread: these come with the first opened device.
 */
void shift_init(const struct shift_real *real);
/* Ends SHIFT at exit: figures are written, KV entries withdrawn, threads ended. */
void shift_uninit(void);

/*
 * Contexts. opened: after the real open; swaps context->async_fd for the facade and points the data
 * verbs at the engine where the device can be driven. A failure leaves the context as on stock.
 * close: whole verb.
 */
void shift_context_opened(struct ibv_context *context);
/*
 * Reacts to an open that has just failed. True: SHIFT gave back what may have been missing, open
 * again; else errno is as it was.
 */
bool shift_gives_way(void);
int shift_close_device(struct ibv_context *context);

/*
 * The kernel takes the asynchronous fd at each creation of a QP or CQ: the real one must be in
 * context->async_fd for the length of any forwarded call that creates one. Nests; thread safe.
 */
void shift_async_real_begin(struct ibv_context *context);
void shift_async_real_end(struct ibv_context *context);
int shift_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void shift_ack_async_event(struct ibv_async_event *event);

/*
 * Answers from the last good time, while a fault is masked. cached: copies the answer and returns
 * 0, or returns -ENOENT: ask the real one (then note() a good answer).
 */
int shift_query_port_cached(struct ibv_context *context, uint8_t port, void *attr, size_t length);
void shift_query_port_note(struct ibv_context *context, uint8_t port, const void *attr,
			   size_t length);

/* Tells that the program has made an object there, or (err: errno) could not. errno stays. */
void shift_made(struct ibv_context *context, int err);

struct ibv_pd *shift_alloc_pd(struct ibv_context *context);
int shift_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *shift_alloc_parent_domain(
	struct ibv_context *context, struct ibv_parent_domain_init_attr *attr,
	struct ibv_pd *(*alloc)(struct ibv_context *, struct ibv_parent_domain_init_attr *));

struct ibv_mr *shift_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			    unsigned int access, bool iova2);
struct ibv_mr *shift_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				   int fd, int access);
int shift_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		   int access);
int shift_dereg_mr(struct ibv_mr *mr);

/* Memory that a provider registered by itself, no verb above being hooked. */
struct shift_region {
	enum {
		SHIFT_REGION_MEMORY, /* addr, length, iova */
		SHIFT_REGION_DMABUF, /* fd, offset, length, iova */
		SHIFT_REGION_DEVICE, /* memory of the device itself */
		SHIFT_REGION_IMPORTED,
	} kind;
	void *addr;
	uint64_t offset, iova;
	size_t length;
	int fd;
	unsigned int access;
	const void *driver; /* DMABUF: the provider's addition to the command, if any */
};
/*
 * Notes the region before the provider's caller has mr; only its keys and its place are looked at.
 */
void shift_mr_made(struct ibv_pd *pd, struct ibv_mr *mr, const struct shift_region *region);
/*
 * Tells that a command to the kernel's driver has succeeded, which may have made or destroyed a
 * memory key. NULL: an unreadable one.
 */
struct ib_uverbs_ioctl_hdr;
void shift_command_done(struct ibv_context *context, const struct ib_uverbs_ioctl_hdr *command);

/*
 * Completion channels are facades (shiftlib/facade/comp_channel.c): the struct and the fd are
 * SHIFT's.
 */
struct ibv_comp_channel *shift_create_comp_channel(struct ibv_context *context);
int shift_destroy_comp_channel(struct ibv_comp_channel *channel);
/* The real channel of a facade (creation calls that bypass the exported verbs); else channel. */
struct ibv_comp_channel *shift_channel_real(struct ibv_comp_channel *channel);
int shift_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void shift_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

struct ibv_cq *shift_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			       struct ibv_comp_channel *channel, int comp_vector);
/* real: the saved verbs_context->create_cq_ex of this context. */
struct ibv_cq_ex *shift_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
				     struct ibv_cq_ex *(*real)(struct ibv_context *,
							       struct ibv_cq_init_attr_ex *));
int shift_resize_cq(struct ibv_cq *cq, int cqe);
/*
 * Called inside shift_resize_cq(), from the provider: the kernel has resized the queue, the
 * provider not yet.
 */
void shift_cq_resized(struct ibv_cq *cq);
int shift_destroy_cq(struct ibv_cq *cq);

struct ibv_srq *shift_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
/*
 * Creation calls that name a completion queue. real: the saved verbs_context->create_srq_ex,
 * create_wq of this context.
 */
struct ibv_srq *shift_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr,
				    struct ibv_srq *(*real)(struct ibv_context *,
							    struct ibv_srq_init_attr_ex *));
struct ibv_wq *shift_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr,
			       struct ibv_wq *(*real)(struct ibv_context *,
						      struct ibv_wq_init_attr *));
int shift_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int shift_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int shift_destroy_srq(struct ibv_srq *srq);

struct ibv_qp *shift_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
/* real: the saved verbs_context->create_qp_ex of this context. */
struct ibv_qp *shift_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				  struct ibv_qp *(*real)(struct ibv_context *,
							 struct ibv_qp_init_attr_ex *));
int shift_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int shift_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		   struct ibv_qp_init_attr *init_attr);
int shift_destroy_qp(struct ibv_qp *qp);

/*
 * librdmacm's functions, by their names without rdma_. Its events come through SHIFT: the program
 * calls these, or librdmacm itself, and verbs that librdmacm calls meanwhile are the program's.
 */
struct rdma_cm_event;
struct rdma_cm_id;
struct rdma_event_channel;
struct sockaddr;
struct shift_cm_real {
	int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);
	int (*disconnect)(struct rdma_cm_id *id);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*migrate_id)(struct rdma_cm_id *id, struct rdma_event_channel *channel);
	int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			 int port_space);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
			    int timeout_ms);
};
int shift_cm_get_event(const struct shift_cm_real *real, struct rdma_event_channel *channel,
		       struct rdma_cm_event **event);
int shift_cm_ack_event(const struct shift_cm_real *real, struct rdma_cm_event *event);
/*
 * Called before the real disconnect. True: that would fail, as the kernel knows the id no more; its
 * QP goes to ERR.
 */
bool shift_cm_disconnects(struct rdma_cm_id *id);
int shift_cm_destroy_id(const struct shift_cm_real *real, struct rdma_cm_id *id);
int shift_cm_migrate_id(const struct shift_cm_real *real, struct rdma_cm_id *id,
			struct rdma_event_channel *channel);

/*
 * Drains a NIC: traffic of this process leaves it, in order, and comes back when it is no longer
 * drained (on: false). Returns at once: the connections move in the background. 0 or -ENODEV.
 */
int shift_drain_device(const char *device, bool on);

/*
 * Tells that the library found creation calls in the distribution that it does not know: logged
 * once.
 */
void shift_note_unknown_verb(const char *name);

#endif
