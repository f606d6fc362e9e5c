/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <unistd.h>

#include "shiftlib/base/aside.h"
#include "shiftlib/base/util.h"
#include "shiftlib/facade/async_hand.h"

int sh_hand_open(struct sh_async_hand *hand)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	sh_aside_one(&fds[1]);
	sh_aside_shown((int *[]){ &fds[0] }, 1);
	*hand = (struct sh_async_hand){ .out = fds[0], .in = fds[1] };
	return 0;
}

void sh_hand_close(struct sh_async_hand *hand)
{
	close(hand->out);
	close(hand->in);
}

/* The pipe holds one byte while it is shown to be readable. */
void sh_hand_show(struct sh_async_hand *hand, bool readable)
{
	char token = 0;

	if (readable == hand->readable)
		return;
	hand->readable = readable;
	if ((readable ? write(hand->in, &token, 1) : read(hand->out, &token, 1)) != 1)
		abort();
}

static int hand_pass(struct sh_async_hand *hand, const struct ib_uverbs_async_event_desc *desc,
		     struct ibv_context *context,
		     int (*get)(struct ibv_context *, struct ibv_async_event *),
		     struct ibv_async_event *event)
{
	int facade = context->async_fd, ret = 0;

	if (write(hand->in, desc, sizeof(*desc)) != sizeof(*desc))
		abort(); /* the pipe is empty, and has room for a page */
	context->async_fd = hand->out;
	errno = 0;
	if (get(context, event))
		ret = sh_errno_or(EIO); /* a short read sets none */
	context->async_fd = facade;
	return ret;
}

int sh_hand_read(struct sh_async_hand *hand, struct ibv_context *context, int real_fd,
		 int (*get)(struct ibv_context *context, struct ibv_async_event *event),
		 struct ibv_async_event *event)
{
	struct ib_uverbs_async_event_desc desc;
	ssize_t n = read(real_fd, &desc, sizeof(desc));
	bool readable = hand->readable;
	int ret;

	if (n != sizeof(desc))
		return n < 0 ? -errno : -EIO;
	sh_hand_show(hand, false);
	ret = hand_pass(hand, &desc, context, get, event);
	sh_hand_show(hand, readable);
	return ret;
}
