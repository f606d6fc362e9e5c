/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The seam inside simnic: the calls of the command side (host/: decodes ioctls, owns handles and
 * fds) to the device side (this folder: rings, wire, timers). The other headers here are not for
 * host/.
 *
 * Locking: every function here takes the process-wide device mutex (priority inheriting), which
 * the device thread holds while it works a batch. Commands are called from application threads.
 * All return 0 or -errno. The command side applies the cost of a command, and death of a NIC,
 * before it calls here, except where said.
 */
#ifndef SIMNIC_DEVICE_H
#define SIMNIC_DEVICE_H

#include "simnic/fabric/fabric.h"

#define SN_BFREGS_PER_UAR 2 /* the kernel's numbering; libmlx5 counts 4 per page */

struct ibv_sge;
struct sn_dev; /* an opened user context on one NIC, in this process */

/* Called once per process by the preload library at first open; again in a fork's child. */
int sn_device_start(struct sn_fabric *fabric, uint32_t host);
void sn_device_forget_after_fork(void);

/* The lock of all that is in this folder, and of the guest. */
void sn_lock(void);
void sn_unlock(void);
uint64_t sn_clock_ns(void);

/*
 * A guest of the device: the host's connection manager, which runs beside the NICs and goes on with
 * them when the program is halted. The device calls it with the lock held.
 */
struct sn_device_guest {
	bool (*run)(uint64_t now_ns);		   /* true: there was work */
	uint64_t (*next_ns)(void);		   /* time of the next work; UINT64_MAX: none */
	void (*receive)(const struct sn_pkt *pkt); /* an SN_PKT_CM that has arrived */
};
/* Takes the guest in, and starts the device if nobody has. @slot: the process's in the fabric. */
int sn_device_take_guest(const struct sn_device_guest *guest, uint32_t *slot);
/*
 * Says that a read of the guest's memory by the calling thread has found nothing: the copy under
 * way, if there is one, fails. In a signal handler.
 */
void sn_copy_missed(void);
/* There is something to do earlier than the device thread knows. Lock held. */
void sn_engine_kick(void);

int sn_dev_open(uint32_t nic, struct sn_dev **out);
void sn_dev_close(struct sn_dev *dev); /* frees everything that is left in it */

/*
 * Calls for the events of a trapped device, with the device mutex held, from any thread: they must
 * not block, nor call a function from here. element: the user_handle of the CQ, QP or SRQ; 1 for
 * events of the NIC, which are those of enum ibv_event_type.
 */
struct sn_dev_events {
	void (*completion)(void *ctx, uint64_t element);
	void (*async)(void *ctx, uint64_t element, uint32_t type);
	/*
	 * Maps pages of the guest side by side: the address of the byte at an offset of the list,
	 * or 0. unmap() takes that address and the number of bytes.
	 */
	uint64_t (*map)(void *ctx, const uint64_t *page, uint32_t n, uint32_t shift,
			uint64_t offset, uint64_t bytes);
	void (*unmap)(void *ctx, uint64_t at, uint64_t bytes);
	/* True if something that was read just now, or before, was not there: it reads as zeros. */
	bool (*unread)(void *ctx);
	void *ctx;
};
/*
 * Opens a NIC whose registers trap, as those of a virtual machine do: doorbells come by
 * sn_uar_ring(), nothing is polled for them, and no file gets events. The first device of a process
 * decides where the engine runs: with this one, in a thread of the program.
 */
int sn_dev_open_trapped(uint32_t nic, const struct sn_dev_events *events, struct sn_dev **out);
/* Stops a device, or lets it go on: it takes no doorbell or packet, and touches no memory. */
void sn_dev_halt(struct sn_dev *dev, bool halt);
/* Brings all writes that the device has posted into memory. Lock held. */
void sn_dev_push(struct sn_dev *dev);
/* sn_nic_use_driver_gids() and sn_nic_set_driver_gid() for the device's NIC. */
void sn_dev_use_driver_gids(struct sn_dev *dev, bool use);
int sn_dev_set_gid(struct sn_dev *dev, uint32_t index, const uint8_t gid[16], uint32_t type,
		   uint16_t vlan);
/* sn_nic_switch_off() for the device's NIC. */
void sn_dev_switch_off(struct sn_dev *dev, bool off);
/* Obeys 8 bytes that were stored at an offset of a UAR page of a trapped device. */
void sn_uar_ring(struct sn_dev *dev, uint32_t uar, uint32_t offset, uint64_t bytes);

/*
 * UAR pages. The page is plain memory, mapped by the command side where the library mmaps it; the
 * device thread polls its doorbell registers (offset 0x800 and on, bf_reg_size 512 -> two
 * 256-byte halves per register) for stores until the context is closed. Doorbell records alone move
 * nothing.
 */
int sn_uar_add(struct sn_dev *dev, uint32_t index, void *page);

struct sn_cq_attr {
	uint64_t buf, db;     /* user addresses: ring and doorbell record */
	uint32_t cqes;	      /* ring entries, power of two */
	uint32_t cqe_size;    /* 64 or 128 */
	int channel_fd;	      /* device end of the completion channel's socket pair, or -1 */
	int async_fd;	      /* device end of the file of asynchronous events */
	uint64_t user_handle; /* element of completion and asynchronous events */
	uint32_t vector;      /* completion vector; tests ask for it */
};
struct sn_cq;
int sn_cq_create(struct sn_dev *dev, const struct sn_cq_attr *attr, uint32_t *cqn,
		 struct sn_cq **out);
int sn_cq_resize(struct sn_cq *cq, uint64_t buf, uint32_t cqes, uint32_t cqe_size);
struct sn_cq_state {
	uint32_t produced, consumed; /* number of CQEs, modulo 2^24 */
	bool armed, overrun;
};
void sn_cq_query(struct sn_cq *cq, struct sn_cq_state *state);
/* Events written to the channel so far: the command side subtracts those not yet read. */
int sn_cq_destroy(struct sn_cq *cq, uint32_t *comp_events, uint32_t *async_events);

int sn_mr_reg(struct sn_dev *dev, uint32_t pdn, uint64_t addr, uint64_t length, uint64_t iova,
	      uint32_t access, uint32_t *lkey, uint32_t *rkey);
/* Deregisters what has a key of this index, whatever the key's lowest eight bits are now. */
int sn_mr_dereg_index(struct sn_dev *dev, uint32_t index);
/* sn_mr_reg() for a key whose lowest eight bits the caller chooses. */
int sn_mr_reg_as(struct sn_dev *dev, uint8_t variant, uint32_t pdn, uint64_t addr, uint64_t length,
		 uint64_t iova, uint32_t access, uint32_t *key);
int sn_mr_dereg(struct sn_dev *dev, uint32_t lkey);
/* Gives a region another protection domain and other rights; the key stays. */
int sn_mr_change(struct sn_dev *dev, uint32_t lkey, uint32_t pdn, uint32_t access);
/*
 * Checks what a program wants prefetched, as Linux' driver does. -ENOENT: no such key, or the
 * region is pinned; -EPERM: of another protection domain, or @writes and it is read-only; -EFAULT:
 * beyond the region.
 */
int sn_mr_prefetch(struct sn_dev *dev, uint32_t pdn, const struct ibv_sge *sge, bool writes);
/* The null key: the same on every NIC, and no region's. Writes by it go nowhere. */
#define SN_NULL_KEY    0x00001700u
#define SN_MAX_ENTRIES (1u << 16) /* longest list of an indirect key */

/* A key that stands for a part of another; length 0: for nothing yet. */
struct sn_indirect {
	uint32_t pdn, variant; /* the key's lowest eight bits */
	uint32_t n_entries;    /* length of the list that requests fill; 0: no list */
	bool remote_end;       /* a remote end may make it free */
	uint64_t iova, length;
	uint32_t access, of_key;
	uint64_t of_va;
};
int sn_mr_reg_indirect(struct sn_dev *dev, const struct sn_indirect *want, uint32_t *key);

/* A free key over a list of pages, which requests fill. A trapped device has them. */
struct sn_paged {
	uint8_t variant; /* the key's lowest eight bits */
	uint32_t pdn, access;
	uint32_t entries; /* length of the list */
	bool remote_end;  /* a remote end may make it free */
};
int sn_mr_reg_paged(struct sn_dev *dev, const struct sn_paged *want, uint32_t *key);

/*
 * A memory window, not bound to anything yet, whose key ends with the variant. Each bind changes
 * the key; sn_window_free() takes any of its keys.
 */
int sn_window_alloc(struct sn_dev *dev, uint32_t pdn, uint8_t variant, bool type2, uint32_t *rkey);
int sn_window_free(struct sn_dev *dev, uint32_t rkey);

/* A shared receive queue. Its doorbell record moves it: there is no register. */
struct sn_srq_attr {
	uint32_t pdn;
	uint64_t buf, db;   /* user addresses */
	uint32_t wqe_cnt;   /* power of two */
	uint32_t wqe_shift; /* log2 of a WQE's bytes: the link, then data segments */
	uint64_t user_handle;
	int async_fd;
};
struct sn_srq;
int sn_srq_create(struct sn_dev *dev, const struct sn_srq_attr *attr, uint32_t *srqn,
		  struct sn_srq **out);
/* Arms the limit event; 0 disarms it. Raised at once if fewer are posted now. */
int sn_srq_set_limit(struct sn_srq *srq, uint32_t limit);
uint32_t sn_srq_limit(struct sn_srq *srq); /* 0: not armed, or raised since */
int sn_srq_destroy(struct sn_srq *srq, uint32_t *async_events);

struct sn_qp_attr {
	uint8_t type; /* enum ib_qp_type of rdma/ib_user_verbs.h: RC, UC, UD */
	uint32_t pdn;
	struct sn_cq *scq, *rcq;
	struct sn_srq *srq;  /* instead of a receive ring; or NULL */
	uint64_t buf, db;    /* user addresses */
	uint32_t sq_wqe_cnt; /* WQEBBs (64 bytes) */
	uint32_t rq_wqe_cnt, rq_wqe_shift;
	uint32_t uidx;
	uint32_t bfreg_index; /* doorbell register: uar index * 2 + 0 or 1; ~0: unknown */
	/* UD: a number that peers know it by, too (1: of the general services); 0: none */
	uint32_t alias;
	bool changes_all;    /* its requests change keys of any protection domain */
	uint32_t source_qpn; /* UD: the number that its datagrams come from; 0: its own */
	bool sig_all;
	bool scatter_to_cqe; /* create flags: requester (READ) and responder (receive) */
	bool scatter_to_cqe_send;
	uint64_t user_handle;
	int async_fd;
};
struct sn_qp;
int sn_qp_create(struct sn_dev *dev, const struct sn_qp_attr *attr, uint32_t *qpn,
		 struct sn_qp **out);
struct ib_uverbs_modify_qp; /* rdma/ib_user_verbs.h */
struct ib_uverbs_query_qp_resp;
int sn_qp_modify(struct sn_qp *qp, const struct ib_uverbs_modify_qp *cmd);
/* Changes the state of a QP on a NIC with an internal error, and flushes nothing. */
int sn_qp_modify_dead(struct sn_qp *qp, uint32_t state);
int sn_qp_query(struct sn_qp *qp, struct ib_uverbs_query_qp_resp *resp);
/* WQEBBs and receive WQEs that the NIC has taken from the QP's rings, modulo 2^16. */
void sn_qp_counters(struct sn_qp *qp, uint16_t *sq, uint16_t *rq);
int sn_qp_destroy(struct sn_qp *qp, uint32_t *async_events);

/*
 * Rings of a trapped device's network interface, for raw frames (ether.h). The doorbell record has
 * the receive counter, then the send counter, as a queue pair's. Frames that arrive go into one
 * ring alone, or get lost; so does a frame for which the next receive is too short.
 */
struct sn_ether_ring_attr {
	uint32_t pdn;
	struct sn_cq *cq;
	uint64_t buf, db;    /* user addresses */
	uint32_t entries;    /* WQEBBs of a send ring, WQEs of a receive ring; a power of two */
	uint32_t log_stride; /* receive: log2 of a WQE's bytes */
	bool keeps_vlan;     /* receive: VLAN tags stay in the frames */
};
struct sn_ether_sq;
struct sn_ether_rq;
int sn_ether_sq_create(struct sn_dev *dev, const struct sn_ether_ring_attr *attr, uint32_t *number,
		       struct sn_ether_sq **out);
/* A ring that becomes ready begins with its first entry. */
void sn_ether_sq_set_ready(struct sn_ether_sq *sq, bool ready);
bool sn_ether_sq_has_failed(struct sn_ether_sq *sq); /* by a request; until it is made ready */
void sn_ether_sq_destroy(struct sn_ether_sq *sq);
int sn_ether_rq_create(struct sn_dev *dev, const struct sn_ether_ring_attr *attr, uint32_t *number,
		       struct sn_ether_rq **out);
void sn_ether_rq_set_ready(struct sn_ether_rq *rq, bool ready);
void sn_ether_rq_destroy(struct sn_ether_rq *rq);
void sn_ether_receive_into(struct sn_dev *dev, struct sn_ether_rq *rq); /* NULL: into none */

/* Where a context's asynchronous events go: 16 bytes each {u64 element; u32 type; u32 0}. */
/* Pages that tell the time from now on; NULL: no other one than before. */
void sn_dev_clock_show(struct sn_dev *dev, void *reg, void *info);
int sn_dev_set_async_fd(struct sn_dev *dev, int async_fd);

#endif
