/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Interposers for calls on an opened NIC, rdma_cm or umad: ioctl, mmap, read, write, close, fcntl;
 * and for RDMA netlink.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/mlx5-abi.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "simnic/cm/cm.h"
#include "simnic/host/ctx.h"
#include "simnic/host/netlink.h"
#include "simnic/host/real.h"
#include "simnic/host/umad.h"
#include "simnic/host/uverbs.h"

#define EXPORT __attribute__((visibility("default")))

static int result(int err)
{
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	struct sn_ctx *ctx = sn_ctx_get(fd);
	va_list args;
	void *arg;
	int err;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!ctx && sn_umad_is(fd))
		return result(sn_umad_ioctl(fd, request, arg));
	if (!ctx)
		return sn_real()->ioctl(fd, request, arg);
	err = request == RDMA_VERBS_IOCTL ? sn_uverbs_ioctl(ctx, arg) : -ENOTTY;
	sn_ctx_put(ctx);
	return result(err);
}

/* Maps the clock's page, read only as a kernel has it. */
static void *clock_mmap(struct sn_ctx *ctx, void *addr, int flags, enum sn_clock_page page)
{
	int err = sn_clock_map(ctx, page);

	if (!err)
		return sn_ctx_mmap(ctx, addr, sn_page(), PROT_READ, flags, sn_clock_offset(page));
	errno = -err;
	return MAP_FAILED;
}

/*
 * mlx5's mapping offset, in pages: command << 8 | index; the number of a dynamic page goes on
 * behind the command's byte. Doorbell pages, device memory and the clock's pages are all that
 * exists.
 */
static void *nic_mmap(struct sn_ctx *ctx, void *addr, size_t length, int prot, int flags,
		      off_t offset)
{
	uint64_t page = offset / sn_page(), command = page >> 8 & 0xff, index = page & 0xff;
	off_t at;
	int err;

	if (command == MLX5_IB_MMAP_ALLOC_WC && length == sn_page()) {
		err = sn_dyn_uar_add(ctx, (uint32_t)(index | (page >> 16 & 0xff) << 8), &at);
		if (!err)
			return sn_ctx_mmap(ctx, addr, length, prot, flags, at);
		errno = -err;
		return MAP_FAILED;
	}
	if (command == MLX5_IB_MMAP_DEVICE_MEM && length <= SN_DM_BYTES)
		return sn_ctx_mmap(ctx, addr, length, prot, flags,
				   sn_dm_offset((uint32_t)(index | (page >> 16 & 0xff) << 8)));
	if (!(prot & PROT_WRITE) && length == sn_page() && !(page >> 16) && !index) {
		if (command == MLX5_IB_MMAP_CORE_CLOCK)
			return clock_mmap(ctx, addr, flags, SN_CLOCK_REGISTER);
		if (command == MLX5_IB_MMAP_CLOCK_INFO)
			return clock_mmap(ctx, addr, flags, SN_CLOCK_INFO);
	}
	if (page >> 16 ||
	    (command != MLX5_IB_MMAP_REGULAR_PAGE && command != MLX5_IB_MMAP_WC_PAGE &&
	     command != MLX5_IB_MMAP_NC_PAGE) ||
	    index >= ctx->n_uars || length != sn_page()) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	return sn_ctx_mmap(ctx, addr, length, prot, flags, index * sn_page());
}

EXPORT void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	struct sn_ctx *ctx = fd < 0 ? NULL : sn_ctx_get(fd);
	void *mem;

	if (!ctx)
		return sn_real()->mmap(addr, length, prot, flags, fd, offset);
	mem = nic_mmap(ctx, addr, length, prot, flags, offset);
	sn_ctx_put(ctx);
	return mem;
}

/* The commands of rdma_cm are written, and so are datagrams. */
EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	bool of_cm = sn_cm_is(fd);
	ssize_t ret;

	if (!of_cm && !sn_umad_is(fd))
		return sn_real()->write(fd, buf, n);
	ret = of_cm ? sn_cm_write(fd, buf, n) : sn_umad_write(fd, buf, n);
	return ret < 0 ? result((int)ret) : ret;
}

static ssize_t read_fd(int fd, void *buf, size_t n)
{
	ssize_t ret;

	if (!sn_umad_is(fd))
		return sn_real()->read(fd, buf, n);
	ret = sn_umad_read(fd, buf, n);
	return ret < 0 ? result((int)ret) : ret;
}

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	return read_fd(fd, buf, n);
}

ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	if (n > size)
		abort();
	return read_fd(fd, buf, n);
}

EXPORT int close(int fd)
{
	sn_fd_close(fd);
	sn_cm_closed(fd);
	sn_umad_closed(fd);
	return sn_real()->close(fd);
}

static void duplicated(int fd, int number)
{
	sn_fd_duplicated(fd, number);
	sn_cm_duplicated(fd, number);
}

/* A second number is a NIC, too. All other commands are passed on, whatever their argument is. */
EXPORT int fcntl(int fd, int command, ...)
{
	va_list args;
	void *arg;
	int ret;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	ret = sn_real()->fcntl(fd, command, arg);
	if (ret >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC))
		duplicated(fd, ret);
	return ret;
}

__attribute__((visibility("default"), alias("fcntl"))) int fcntl64(int fd, int command, ...);

__attribute__((visibility("default"), alias("mmap"))) void *
mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset);

/*
 * libibverbs reads sysfs only where RDMA netlink does not exist at all: an empty listing, which a
 * kernel without RDMA devices would give, ends its search. So only iproute2's `rdma` has it.
 */
EXPORT int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && !sn_host_init()) {
		if (!strcmp(program_invocation_short_name, "rdma"))
			return sn_netlink_open(type);
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return sn_real()->socket(domain, type, protocol);
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
		      socklen_t size)
{
	ssize_t ret;

	if (!sn_netlink_is(fd))
		return sn_real()->sendto(fd, buf, n, flags, to, size);
	ret = sn_netlink_send(fd, buf, n);
	return ret < 0 ? result((int)ret) : ret;
}
