/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The process's view: which fabric and host it is on, and the contexts, one for each opened
 * /dev/infiniband/uverbsN, found by file descriptor.
 *
 * Locks: the table lock (ctx.c) for the table of fds; sn_ctx.lock for everything in a context; the
 * device mutex is taken inside simnic/device/device.h. Order: sn_ctx.lock, then the device mutex.
 * Nothing sleeps for a sick or slow NIC with a lock held.
 */
#ifndef SIMNIC_HOST_CTX_H
#define SIMNIC_HOST_CTX_H

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include "simnic/device/device.h"
#include "simnic/host/event_file.h"
#include "simnic/host/object.h"

#define SN_MAX_BFREGS	512
#define SN_MAX_DYN_UARS 512 /* doorbell pages that are mapped one by one: thread domains */
#define SN_DM_PAGES	64  /* most pages of device memory in a context */
enum sn_clock_page { SN_CLOCK_REGISTER, SN_CLOCK_INFO, SN_CLOCK_PAGES };
#define SN_DM_BYTES ((uint64_t)SN_DM_PAGES * sn_page())

/*
 * The machine's pages (64 KiB on some arm64). A doorbell page is one of them, as on a NIC without
 * doorbell pages of 4 KiB.
 */
static inline size_t sn_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

struct sn_ctx {
	pthread_mutex_t lock;
	uint32_t refs;	/* guarded by the table lock: numbers of the fd, and commands in progress */
	_Atomic int fd; /* written under the table lock */
	uint32_t nic_index, incarnation;
	struct sn_nic *nic;
	struct sn_dev *dev; /* NULL until get_context */
	bool devx;	    /* the context may send commands of its own */
	uint8_t *uar;	    /* our own mapping of the doorbell pages */
	uint32_t n_uars, n_bfregs, n_low_latency;
	uint8_t *dyn_uars[SN_MAX_DYN_UARS]; /* our own mappings; NULL: not asked for */
	uint8_t *clock[SN_CLOCK_PAGES];	    /* our own mappings; NULL: nobody has asked for it */
	uint8_t dm_taken[SN_DM_PAGES];
	uint16_t bfreg_users[SN_MAX_BFREGS];
	struct sn_event_files event_files[SN_EVENT_BUCKETS]; /* by inode */
	struct sn_event_file *async;			     /* the first one */
	struct sn_obj **objs;
	uint32_t n_objs, free_below;	       /* handles below that are all taken */
	_Atomic uint32_t in_use[SN_OBJ_TYPES]; /* read by other contexts of the NIC too */
};

int sn_host_init(void); /* attaches to the fabric named in the environment; 0 = active */
struct sn_fabric *sn_host_fabric(void);
uint32_t sn_host_number(void);

int sn_host_cm_open(void);	     /* opens rdma_cm; returns the new fd or -errno */
int sn_ctx_open(unsigned int minor); /* returns the new fd or -errno */
struct sn_ctx *sn_ctx_get(int fd);   /* NULL: not ours. Takes a reference. */
void sn_ctx_put(struct sn_ctx *ctx);
/* The first descriptor from fd on that opened a NIC, with a reference to its context; -1: none. */
int sn_ctx_next(int fd, struct sn_ctx **ctx);
void *sn_ctx_mmap(struct sn_ctx *ctx, void *addr, size_t length, int prot, int flags, off_t offset);
/*
 * clock.c: the page's place in the context's file; and a mapping that tells the time from now on.
 */
off_t sn_clock_offset(enum sn_clock_page page);
int sn_clock_map(struct sn_ctx *ctx, enum sn_clock_page page);
void sn_clock_unmap(struct sn_ctx *ctx);
/*
 * Number of objects of that type that this process has on the NIC of ctx, since the NIC was last
 * probed.
 */
uint32_t sn_ctx_in_use(const struct sn_ctx *ctx, enum sn_obj_type type);

int sn_fd_register(int fd, struct sn_ctx *ctx); /* an event file of ctx; NULL forgets */
void sn_fd_close(int fd);		   /* before the real close: forgets what was behind fd */
void sn_fd_duplicated(int fd, int number); /* number is the same open file as fd */

#endif
