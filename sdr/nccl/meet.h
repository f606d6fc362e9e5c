/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How two ends become a connection. The receiver listens, and NCCL carries its handle to the
 * sender, which connects by TCP. The sender says what it can (HELLO), the receiver what both do
 * (TERMS), and the sender how its path is reached (INFO). No function blocks.
 */
#ifndef SDR_NCCL_MEET_H
#define SDR_NCCL_MEET_H

#include "comm.h"

struct plug_listener;

/* 0 or -errno. handle: NCCL_HANDLE_MAX bytes. */
int plug_listen(const struct plug_settings *s, int device, void *handle,
		struct plug_listener **listener);
/*
 * Goes on with the connection of a handle, in which its state is kept between calls. 0: *comm is
 * there, or NULL as long as the call is to be made again; or -errno.
 */
int plug_connect(const struct plug_settings *s, int device, void *handle, struct plug_comm **comm);
int plug_accept(struct plug_listener *listener, struct plug_comm **comm);
void plug_listener_close(struct plug_listener *listener);

#endif
