/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The process's view: which fabric and host it is on, and which file descriptors are NICs. The fd
 * of an opened NIC is a memory file that holds its doorbell pages, so the library's mapping and
 * ours are one memory, and ours stays when the library unmaps.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "simnic/cm/cm.h"
#include "simnic/device/device.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/fd.h"
#include "simnic/host/ctx.h"
#include "simnic/host/event_file.h"
#include "simnic/host/last_close.h"
#include "simnic/host/path.h"
#include "simnic/host/real.h"
#include "simnic/host/uverbs.h"

#define SN_MAX_FDS     65536
#define MEMFD_NAME_MAX 249 /* the kernel's limit, with the 0 */

static struct sn_fabric *fabric;
static uint32_t host_number;
static int init_result = -ENODEV;
static pthread_once_t init_once = PTHREAD_ONCE_INIT;

#define FORK_WAIT_S 1

/*
 * The table lock: guards entries, references, and the start of the device. The lock names its
 * owner, as a signal handler may fork in the middle of a verb: a kernel's driver has no lock that
 * would keep it from that. In the moment before the lock knows its owner, the end of the fork's
 * wait helps.
 */
static pthread_mutex_t table_lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static bool fork_owns; /* the fork under way does not hold the lock; guarded by table_lock */
/* The context that an fd opened, or that it is an event file of. Read unlocked as a hint only. */
static _Atomic(struct sn_ctx *) by_fd[SN_MAX_FDS];
static bool opened[SN_MAX_FDS]; /* true: the device's own file, no event file */
static bool device_started;

static void fork_child(void)
{
	static const pthread_mutex_t anew = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	table_lock = anew;
	if (!device_started)
		return;
	/* The parent's contexts stay the parent's; the child opens anew. */
	for (int fd = 0; fd < SN_MAX_FDS; fd++)
		atomic_store_explicit(&by_fd[fd], NULL, memory_order_relaxed);
	device_started = false;
	sn_device_forget_after_fork();
	sn_cm_forget_after_fork();
}

static void fork_prepare(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += FORK_WAIT_S;
	fork_owns = pthread_mutex_clocklock(&table_lock, CLOCK_MONOTONIC, &until);
}

static void fork_parent(void)
{
	if (!fork_owns)
		pthread_mutex_unlock(&table_lock);
}

static void attach_failed(const char *name, int err)
{
	if (err == -EPROTO)
		fprintf(stderr,
			"simnic: fabric '%s' was made by another version of simnic; destroy it and "
			"create it anew with simnicctl\n",
			name);
	else
		fprintf(stderr, "simnic: fabric '%s': %s; make it with simnicctl create\n", name,
			strerror(-err));
}

static void init(void)
{
	const char *name = getenv("SIMNIC_FABRIC"), *host = getenv("SIMNIC_HOST");
	int err, number;

	if (!name || !*name || !host || !*host)
		return;
	err = sn_fabric_attach(name, &fabric);
	if (err) {
		attach_failed(name, err);
		return;
	}
	number = sn_fabric_find_host(fabric, host);
	if (number < 0) {
		fprintf(stderr, "simnic: SIMNIC_HOST=%s: this fabric has h0..h%u\n", host,
			fabric->n_hosts - 1);
		return;
	}
	host_number = number;
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	init_result = 0;
}

int sn_host_init(void)
{
	pthread_once(&init_once, init);
	return init_result;
}

struct sn_fabric *sn_host_fabric(void)
{
	return fabric;
}

uint32_t sn_host_number(void)
{
	return host_number;
}

static struct sn_ctx *ctx_make(unsigned int minor)
{
	struct sn_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	pthread_mutex_init(&ctx->lock, NULL);
	ctx->refs = 1;
	ctx->nic_index = minor;
	ctx->nic = &fabric->nic[host_number][minor];
	ctx->incarnation = atomic_load(&ctx->nic->incarnation);
	return ctx;
}

/* Makes the file. Its name is the node's, where the kernel shows what a process has open. */
static int uar_file(unsigned int minor)
{
	const off_t pages =
		SN_MAX_BFREGS / SN_BFREGS_PER_UAR + SN_MAX_DYN_UARS + SN_DM_PAGES + SN_CLOCK_PAGES;
	char node[32], mapped[MEMFD_NAME_MAX];
	int fd;

	snprintf(node, sizeof(node), "/dev/infiniband/uverbs%u", minor);
	fd = memfd_create(sn_path_map(node, mapped, sizeof(mapped)), MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, pages * sn_page())) {
		sn_fd_close_own(fd);
		return -1;
	}
	return fd;
}

/* libibverbs tells its caller no more than that a device cannot be opened. */
static void say_why(int err)
{
	if (err == -EUSERS)
		fprintf(stderr,
			"simnic: %d processes have NICs of fabric %s, and it takes no more\n",
			SN_MAX_PROCS, fabric->name);
	else if (err == -ENOSPC)
		fprintf(stderr,
			"simnic: /dev/shm has no room for another process; mount it with a larger "
			"size\n");
}

static int device_start_locked(void)
{
	int err;

	if (device_started)
		return 0;
	err = sn_device_start(fabric, host_number);
	if (err)
		say_why(err);
	device_started = !err;
	return err;
}

static void fd_set_locked(int fd, struct sn_ctx *ctx, bool is_opened)
{
	SN_ASSERT(fd >= 0 && fd < SN_MAX_FDS);
	opened[fd] = is_opened;
	atomic_store(&by_fd[fd], ctx);
}

int sn_ctx_open(unsigned int minor)
{
	struct sn_ctx *ctx = ctx_make(minor);
	int err = ctx ? 0 : -ENOMEM;

	if (err)
		return err;
	if (atomic_load(&ctx->nic->state) == SN_NIC_DISASSOCIATED)
		err = -ENODEV; /* the device node is gone */
	ctx->fd = err ? -1 : uar_file(minor);
	if (!err && (ctx->fd < 0 || ctx->fd >= SN_MAX_FDS))
		err = -EMFILE;
	pthread_mutex_lock(&table_lock);
	if (!err)
		err = device_start_locked();
	if (!err)
		fd_set_locked(ctx->fd, ctx, true);
	pthread_mutex_unlock(&table_lock);
	if (!err)
		return ctx->fd;
	if (ctx->fd >= 0)
		sn_fd_close_own(ctx->fd);
	free(ctx);
	return err;
}

int sn_host_cm_open(void)
{
	int err;

	pthread_mutex_lock(&table_lock);
	err = device_start_locked();
	pthread_mutex_unlock(&table_lock);
	return err ? err : sn_cm_open(fabric, host_number);
}

struct sn_ctx *sn_ctx_get(int fd)
{
	struct sn_ctx *ctx;

	if (fd < 0 || fd >= SN_MAX_FDS || !atomic_load_explicit(&by_fd[fd], memory_order_relaxed))
		return NULL;
	pthread_mutex_lock(&table_lock);
	ctx = atomic_load(&by_fd[fd]);
	if (ctx && !opened[fd])
		ctx = NULL;
	SN_ASSERT(!ctx || ctx->refs); /* the number of the fd has one */
	if (ctx)
		ctx->refs++;
	pthread_mutex_unlock(&table_lock);
	return ctx;
}

int sn_ctx_next(int fd, struct sn_ctx **ctx)
{
	for (; fd < SN_MAX_FDS; fd++) {
		*ctx = sn_ctx_get(fd);
		if (*ctx)
			return fd;
	}
	return -1;
}

uint32_t sn_ctx_in_use(const struct sn_ctx *ctx, enum sn_obj_type type)
{
	const struct sn_ctx *other;
	uint32_t n = 0;

	pthread_mutex_lock(&table_lock);
	for (int fd = 0; fd < SN_MAX_FDS; fd++) {
		other = atomic_load_explicit(&by_fd[fd], memory_order_relaxed);
		if (other && other->fd == fd && other->nic == ctx->nic &&
		    other->incarnation == ctx->incarnation)
			n += atomic_load(&other->in_use[type]);
	}
	pthread_mutex_unlock(&table_lock);
	return n;
}

static void obj_free(struct sn_obj *obj)
{
	sn_mr_unpin(obj);
	if (obj && obj->type == SN_OBJ_DM)
		munmap(obj->dm.map, (size_t)obj->dm.n_pages * sn_page());
	free(obj);
}

static void ctx_free(struct sn_ctx *ctx)
{
	sn_last_close(ctx);
	if (ctx->dev)
		sn_dev_close(ctx->dev);
	sn_event_files_free(ctx);
	if (ctx->uar)
		munmap(ctx->uar, (size_t)ctx->n_uars * sn_page());
	for (uint32_t i = 0; i < SN_MAX_DYN_UARS; i++)
		if (ctx->dyn_uars[i])
			munmap(ctx->dyn_uars[i], sn_page());
	sn_clock_unmap(ctx);
	for (uint32_t i = 0; i < ctx->n_objs; i++)
		obj_free(ctx->objs[i]);
	free(ctx->objs);
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}

void sn_ctx_put(struct sn_ctx *ctx)
{
	bool last;

	pthread_mutex_lock(&table_lock);
	SN_ASSERT(ctx->refs);
	last = !--ctx->refs;
	pthread_mutex_unlock(&table_lock);
	if (last)
		ctx_free(ctx);
}

int sn_fd_register(int fd, struct sn_ctx *ctx)
{
	if (fd < 0 || fd >= SN_MAX_FDS)
		return -EMFILE;
	pthread_mutex_lock(&table_lock);
	fd_set_locked(fd, ctx, false);
	pthread_mutex_unlock(&table_lock);
	return 0;
}

/* Takes a reference. is_opened: it is no event file. */
static struct sn_ctx *ctx_behind(int fd, bool *is_opened)
{
	struct sn_ctx *ctx;

	if (fd < 0 || fd >= SN_MAX_FDS || !atomic_load_explicit(&by_fd[fd], memory_order_relaxed))
		return NULL;
	pthread_mutex_lock(&table_lock);
	ctx = atomic_load(&by_fd[fd]);
	*is_opened = opened[fd];
	if (ctx)
		ctx->refs++;
	pthread_mutex_unlock(&table_lock);
	return ctx;
}

void sn_fd_duplicated(int fd, int number)
{
	bool is_opened;
	struct sn_ctx *ctx = number < SN_MAX_FDS ? ctx_behind(fd, &is_opened) : NULL;

	if (!ctx)
		return;
	pthread_mutex_lock(&table_lock);
	ctx->refs += is_opened; /* goes with the number */
	fd_set_locked(number, ctx, is_opened);
	pthread_mutex_unlock(&table_lock);
	if (!is_opened) {
		pthread_mutex_lock(&ctx->lock);
		sn_event_file_duplicated(ctx, fd);
		pthread_mutex_unlock(&ctx->lock);
	}
	sn_ctx_put(ctx);
}

/*
 * Closes a number of the context's own fd. Another number stands for the context from now on. If
 * there is none, the numbers of its event files mean nothing to us any more.
 */
static void opened_closed_locked(struct sn_ctx *ctx)
{
	int another = -1;

	for (int fd = 0; fd < SN_MAX_FDS && another < 0; fd++)
		if (atomic_load_explicit(&by_fd[fd], memory_order_relaxed) == ctx && opened[fd])
			another = fd;
	if (another >= 0) {
		atomic_store(&ctx->fd, another);
		return;
	}
	for (int fd = 0; fd < SN_MAX_FDS; fd++)
		if (atomic_load_explicit(&by_fd[fd], memory_order_relaxed) == ctx)
			atomic_store(&by_fd[fd], NULL);
}

void sn_fd_close(int fd)
{
	bool is_opened, ours;
	struct sn_ctx *ctx = ctx_behind(fd, &is_opened);

	if (!ctx)
		return;
	pthread_mutex_lock(&table_lock);
	ours = atomic_exchange(&by_fd[fd], NULL) == ctx; /* no other thread closes it, too */
	if (ours && is_opened)
		opened_closed_locked(ctx);
	pthread_mutex_unlock(&table_lock);
	if (!ours) {
		sn_ctx_put(ctx);
		return;
	}
	if (is_opened) {
		sn_ctx_put(ctx); /* the reference of the number */
	} else {
		pthread_mutex_lock(&ctx->lock);
		sn_event_file_closed(ctx, fd);
		pthread_mutex_unlock(&ctx->lock);
	}
	sn_ctx_put(ctx);
}

void *sn_ctx_mmap(struct sn_ctx *ctx, void *addr, size_t length, int prot, int flags, off_t offset)
{
	return sn_real()->mmap(addr, length, prot, flags, ctx->fd, offset);
}
