/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control QP: one UD QP per NIC on SHIFT's own context. It needs no connection per peer,
 * does not break when a path breaks, and takes no receive of the application.
 *
 * Datagrams may be lost; the core sends again. Which thread may call what:
 *	open, close, path_open, path_close: verbs that may block; on the NIC's worker
 *	poll: one thread at a time (the background thread)
 *	send, mark_dead, the questions: any thread; none of them blocks
 * close() only when no other call is running or will come.
 */
#ifndef SHIFTLIB_CONTROL_H
#define SHIFTLIB_CONTROL_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shiftlib/control/address.h"
#include "shiftlib/control/pkeys.h"
#include "shiftlib/shift.h"

#define SH_CONTROL_RECEIVES 512
#define SH_CONTROL_SENDS    128
#define SH_CONTROL_MTU_MAX  4096 /* bytes of payload; the GRH comes on top */

struct sh_control;
struct sh_path;

/*
 * context: opened through real->open_device, so that its ops are the provider's own. 0, or -errno
 * of the step that failed (logged). The port need not be ACTIVE.
 */
int sh_control_open(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		    struct sh_control **out);
/* All paths were closed. On a dead NIC too: what cannot be destroyed there is left to the kernel.
 */
void sh_control_close(struct sh_control *control);

/* Its UD QP, which the provider posts to: it may share a doorbell register with others. */
struct ibv_qp *sh_control_qp(const struct sh_control *control);

/* The port's table when it was opened. */
const struct sh_pkeys *sh_control_pkeys(const struct sh_control *control);

/* Readable when sh_control_poll() has something to do. Non-blocking; for epoll. */
int sh_control_fd(const struct sh_control *control);
void sh_control_address(const struct sh_control *control, struct sh_address *out);
/*
 * Asks the port again (may block: on the worker). 0: *out is the present address; a GID that moved
 * to another index was found again. use: that one from now on, if it is of RoCE v2; NULL: the one so far. -errno: the NIC does not answer.
 */
int sh_control_refresh(struct sh_control *control, const struct sh_gid_place *use,
		       struct sh_address *out);

/* The way from this NIC to a peer's. 0, -EPROTOTYPE: other link layer, or -errno of create_ah. */
int sh_control_path_open(struct sh_control *control, const struct sh_address *peer,
			 struct sh_path **out);
void sh_control_path_close(struct sh_path *path);
/* Largest length for send on this path: the smaller of both ports' MTUs. */
size_t sh_path_payload_max(const struct sh_path *path);

/*
 * Copies and posts. 0: on its way. -EAGAIN: the send ring is full, dropped. -EMSGSIZE. -EIO: the
 * NIC is dead.
 */
int sh_control_send(struct sh_path *path, const void *buf, size_t length);

/*
 * Hands each datagram to receive() (buf lives until it returns; it may send and open no path),
 * posts the receives again and arms the channel, so that a datagram which comes later makes the fd
 * readable. Number of datagrams, or -EIO: the NIC is dead (said once by whoever calls; each later
 * call says it too, without touching the NIC). No more than SH_CONTROL_RECEIVES per call: when it
 * returns that many, call again, as the channel is not armed yet.
 */
int sh_control_poll(struct sh_control *control,
		    void (*receive)(void *arg, const void *buf, size_t length), void *arg);

/*
 * Takes the completions of what was sent. Since when (sh_now_ns clock) nothing completes although
 * something is under way; 0: nothing is, or the NIC is dead.
 */
uint64_t sh_control_waiting_since(struct sh_control *control);

/* Likewise. It has sent a datagram that was posted at that time, or a little later; 0: none. */
uint64_t sh_control_proven_at(struct sh_control *control);

/*
 * Without its buffers, where memory that may be locked is short: nothing is sent (-EAGAIN) or received, and the address stays.
 * begin: where sh_control_poll() is called; then rest, which blocks. wake: blocks; -errno: it rests on.
 */
void sh_control_rest_begin(struct sh_control *control);
void sh_control_rest(struct sh_control *control);
int sh_control_wake(struct sh_control *control);

/* An asynchronous event said that the NIC is gone: nothing is posted or polled any more. */
void sh_control_mark_dead(struct sh_control *control);
bool sh_control_dead(const struct sh_control *control);

#endif
