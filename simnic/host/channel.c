/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion and asynchronous channels. A SOCK_SEQPACKET pair reads, polls and blocks like the
 * kernel's event files: one event per read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simnic/host/real.h"
#include "simnic/host/uverbs.h"

#define SN_EVENT_BUFFER (4 << 20)

static int pair_make(struct sn_channel *channel)
{
	int pair[2], size = SN_EVENT_BUFFER;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	channel->app_dup = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
	if (channel->app_dup < 0) {
		sn_real()->close(pair[0]);
		sn_real()->close(pair[1]);
		return -EMFILE;
	}
	/* A full socket would lose events; where force is not allowed, the default must do. */
	if (setsockopt(pair[1], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	channel->app_fd = pair[0];
	channel->dev_fd = pair[1];
	return 0;
}

static void pair_close(struct sn_channel *channel)
{
	sn_real()->close(channel->app_fd);
	sn_real()->close(channel->app_dup);
	sn_real()->close(channel->dev_fd);
}

int sn_channel_make(struct sn_ctx *ctx, bool async, struct sn_channel **out)
{
	struct sn_channel *channel = calloc(1, sizeof(*channel));
	int err = channel ? pair_make(channel) : -ENOMEM;

	if (!err) {
		err = sn_fd_register(channel->app_fd, ctx);
		if (err)
			pair_close(channel);
	}
	if (err) {
		free(channel);
		return err;
	}
	channel->async = async;
	channel->next = ctx->channels;
	ctx->channels = channel;
	*out = channel;
	return 0;
}

static void channel_free(struct sn_channel *channel)
{
	sn_real()->close(channel->app_dup);
	sn_real()->close(channel->dev_fd);
	free(channel);
}

/* The context's first asynchronous channel lives as long as the context: the device uses it. */
static void channel_free_if_unused(struct sn_ctx *ctx, struct sn_channel *channel)
{
	struct sn_channel **link = &ctx->channels;

	if (channel->users || channel->app_fd >= 0 || channel == ctx->async)
		return;
	while (*link != channel)
		link = &(*link)->next;
	*link = channel->next;
	channel_free(channel);
}

void sn_channel_put(struct sn_ctx *ctx, struct sn_channel *channel)
{
	if (!channel)
		return;
	channel->users--;
	channel_free_if_unused(ctx, channel);
}

bool sn_channel_closed(struct sn_ctx *ctx, int fd)
{
	for (struct sn_channel *channel = ctx->channels; channel; channel = channel->next) {
		if (channel->app_fd != fd)
			continue;
		channel->app_fd = -1;
		channel_free_if_unused(ctx, channel);
		return true;
	}
	return false;
}

void sn_channels_free(struct sn_ctx *ctx)
{
	struct sn_channel *channel, *next;

	for (channel = ctx->channels; channel; channel = next) {
		next = channel->next;
		channel_free(channel);
	}
	ctx->channels = ctx->async = NULL;
}

/* By inode, not by number: an application may have moved its end with dup2. */
struct sn_channel *sn_channel_find(struct sn_ctx *ctx, int fd, bool async)
{
	struct stat want, have;

	if (fd < 0 || sn_real()->fstat(fd, &want) || !S_ISSOCK(want.st_mode))
		return NULL;
	for (struct sn_channel *channel = ctx->channels; channel; channel = channel->next)
		if (channel->async == async && !sn_real()->fstat(channel->app_dup, &have) &&
		    have.st_ino == want.st_ino && have.st_dev == want.st_dev)
			return channel;
	return NULL;
}

int sn_channel_attr(const struct sn_req *req, uint16_t id, bool async, struct sn_channel **out)
{
	const struct ib_uverbs_attr *attr = sn_req_attr(req, id);

	*out = async ? req->ctx->async : NULL;
	if (!attr || attr->data_s64 < 0)
		return 0;
	*out = sn_channel_find(req->ctx, attr->data_s64, async);
	return *out ? 0 : -EBADF;
}

/* The element is the first word of either kind of event. */
uint32_t sn_channel_purge(struct sn_channel *channel, uint64_t element)
{
	uint8_t kept[256][16], event[16];
	uint32_t n_kept = 0, purged = 0;
	ssize_t n;

	if (!channel)
		return 0;
	while (n_kept < 256 &&
	       (n = recv(channel->app_dup, event, sizeof(event), MSG_DONTWAIT)) > 0) {
		if (!memcmp(event, &element, sizeof(element)))
			purged++;
		else
			memcpy(kept[n_kept++], event, sizeof(event));
	}
	for (uint32_t i = 0; i < n_kept; i++)
		send(channel->dev_fd, kept[i], channel->async ? 16 : 8,
		     MSG_DONTWAIT | MSG_NOSIGNAL);
	return purged;
}

int sn_async_alloc(const struct sn_req *req)
{
	struct ib_uverbs_attr *attr = sn_req_attr(req, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
	struct sn_ctx *ctx = req->ctx;
	struct sn_channel *channel;
	int err;

	if (!attr)
		return -EINVAL;
	err = sn_channel_make(ctx, true, &channel);
	if (err)
		return err;
	if (!ctx->async) {
		ctx->async = channel;
		if (ctx->dev)
			sn_dev_set_async_fd(ctx->dev, channel->dev_fd);
	}
	attr->data_s64 = channel->app_fd;
	return 0;
}

int sn_comp_channel_create(const struct sn_req *req)
{
	struct ib_uverbs_create_comp_channel_resp resp = { 0 };
	struct sn_channel *channel;
	int err;

	err = sn_channel_make(req->ctx, false, &channel);
	if (err)
		return err;
	resp.fd = channel->app_fd;
	return sn_req_out(req, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}
