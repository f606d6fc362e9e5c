/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event files as SOCK_SEQPACKET pairs, which read, poll and block like the kernel's: one event per
 * read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simnic/device/device.h"
#include "simnic/fabric/check.h"
#include "simnic/fabric/fd.h"
#include "simnic/host/ctx.h"
#include "simnic/host/event_file.h"
#include "simnic/host/real.h"
#include "simnic/host/uverbs.h"

#define SN_EVENT_BUFFER (4 << 20)

static int pair_make(struct sn_event_file *file)
{
	int pair[2], size = SN_EVENT_BUFFER;
	struct stat own;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	file->app_dup = sn_real()->fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
	if (file->app_dup < 0) {
		sn_fd_close_own(pair[0]);
		sn_fd_close_own(pair[1]);
		return -EMFILE;
	}
	if (!sn_real()->fstat(pair[0], &own)) {
		file->ino = own.st_ino;
		file->st_dev = own.st_dev;
	}
	/* A full socket would lose events; where force is not allowed, the default must do. */
	if (setsockopt(pair[1], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	file->app_fd = pair[0];
	file->numbers = 1;
	file->dev_fd = pair[1];
	return 0;
}

static void pair_close(struct sn_event_file *file)
{
	sn_fd_close_own(file->app_fd);
	sn_fd_close_own(file->app_dup);
	sn_fd_close_own(file->dev_fd);
}

static struct sn_event_files *event_file_bucket(struct sn_ctx *ctx, uint64_t ino)
{
	return &ctx->event_files[ino % SN_EVENT_BUCKETS];
}

static int event_file_make(struct sn_ctx *ctx, bool async, struct sn_event_file **out)
{
	struct sn_event_file *file = calloc(1, sizeof(*file));
	int err = file ? pair_make(file) : -ENOMEM;

	if (!err) {
		err = sn_fd_register(file->app_fd, ctx);
		if (err)
			pair_close(file);
	}
	if (err) {
		free(file);
		return err;
	}
	file->async = async;
	LIST_INSERT_HEAD(event_file_bucket(ctx, file->ino), file, link);
	*out = file;
	return 0;
}

static void event_file_free(struct sn_event_file *file)
{
	sn_fd_close_own(file->app_dup);
	sn_fd_close_own(file->dev_fd);
	free(file->lost);
	free(file);
}

/*
 * Frees an unused file, except the context's first file of asynchronous events: the device uses it
 * as long as the context lives.
 */
static void event_file_free_if_unused(struct sn_ctx *ctx, struct sn_event_file *file)
{
	if (file->users || file->numbers || file == ctx->async)
		return;
	SN_LIST_REMOVE(file, link);
	event_file_free(file);
}

void sn_event_file_put(struct sn_ctx *ctx, struct sn_event_file *file)
{
	if (!file)
		return;
	SN_ASSERT(file->users);
	file->users--;
	event_file_free_if_unused(ctx, file);
}

void sn_event_files_free(struct sn_ctx *ctx)
{
	struct sn_event_file *file;

	for (uint32_t i = 0; i < SN_EVENT_BUCKETS; i++)
		while ((file = LIST_FIRST(&ctx->event_files[i]))) {
			SN_LIST_REMOVE(file, link);
			event_file_free(file);
		}
	ctx->async = NULL;
}

/* Compares inodes, not numbers: an application may have moved its end with dup2. */
static bool is_event_file(const struct sn_event_file *file, const struct stat *want)
{
	return file->ino == want->st_ino && file->st_dev == want->st_dev;
}

/* Most objects name the context's first file. */
static struct sn_event_file *event_file_of(struct sn_ctx *ctx, int fd)
{
	struct sn_event_file *file;
	struct stat want;

	if (fd < 0 || sn_real()->fstat(fd, &want) || !S_ISSOCK(want.st_mode))
		return NULL;
	if (ctx->async && is_event_file(ctx->async, &want))
		return ctx->async;
	LIST_FOREACH (file, event_file_bucket(ctx, want.st_ino), link)
		if (is_event_file(file, &want))
			return file;
	return NULL;
}

static struct sn_event_file *event_file_find(struct sn_ctx *ctx, int fd, bool async)
{
	struct sn_event_file *file = event_file_of(ctx, fd);

	return file && file->async == async ? file : NULL;
}

void sn_event_file_duplicated(struct sn_ctx *ctx, int fd)
{
	struct sn_event_file *file = event_file_of(ctx, fd);

	if (file)
		file->numbers++;
}

void sn_event_file_closed(struct sn_ctx *ctx, int fd)
{
	struct sn_event_file *file = event_file_of(ctx, fd);

	if (!file || !file->numbers)
		return;
	file->numbers--;
	event_file_free_if_unused(ctx, file);
}

int sn_event_file_attr(const struct sn_req *req, uint16_t id, bool async,
		       struct sn_event_file **out)
{
	const struct ib_uverbs_attr *attr = sn_req_attr(req, id);

	*out = async ? req->ctx->async : NULL;
	if (!attr || attr->data_s64 < 0)
		return 0;
	*out = event_file_find(req->ctx, attr->data_s64, async);
	return *out ? 0 : -EBADF;
}

static void event_lose(struct sn_event_file *file, const uint8_t *event)
{
	uint64_t *lost = realloc(file->lost, (file->n_lost + 1) * sizeof(*lost));

	if (!lost)
		return;
	memcpy(&lost[file->n_lost++], event, sizeof(*lost));
	file->lost = lost;
}

static uint32_t lost_take_back(struct sn_event_file *file, uint64_t element)
{
	uint32_t kept = 0, n = file->n_lost;

	for (uint32_t i = 0; i < n; i++)
		if (file->lost[i] != element)
			file->lost[kept++] = file->lost[i];
	file->n_lost = kept;
	return n - kept;
}

/* The element is the first word of either kind of event. */
uint32_t sn_event_file_take_back(struct sn_event_file *file, uint64_t element)
{
	uint8_t kept[256][16], event[16];
	uint32_t n_kept = 0, purged;
	ssize_t n;

	if (!file)
		return 0;
	purged = lost_take_back(file, element);
	while (n_kept < 256 && (n = recv(file->app_dup, event, sizeof(event), MSG_DONTWAIT)) > 0) {
		if (!memcmp(event, &element, sizeof(element)))
			purged++;
		else
			memcpy(kept[n_kept++], event, sizeof(event));
	}
	for (uint32_t i = 0; i < n_kept; i++)
		if (send(file->dev_fd, kept[i], file->async ? 16 : 8, MSG_DONTWAIT | MSG_NOSIGNAL) <
		    0)
			event_lose(file, kept[i]);
	return purged;
}

int sn_async_alloc(const struct sn_req *req)
{
	struct ib_uverbs_attr *attr = sn_req_attr(req, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
	struct sn_ctx *ctx = req->ctx;
	struct sn_event_file *file;
	int err;

	if (!attr)
		return -EINVAL;
	err = event_file_make(ctx, true, &file);
	if (err)
		return err;
	if (!ctx->async) {
		ctx->async = file;
		if (ctx->dev)
			sn_dev_set_async_fd(ctx->dev, file->dev_fd);
	}
	attr->data_s64 = file->app_fd;
	return 0;
}

int sn_comp_channel_create(const struct sn_req *req)
{
	struct ib_uverbs_create_comp_channel_resp resp = { 0 };
	struct sn_event_file *file;
	int err;

	err = event_file_make(req->ctx, false, &file);
	if (err)
		return err;
	resp.fd = file->app_fd;
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}
