/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control QP: one UD QP per NIC on SHIFT's own context. It needs no connection per peer, does
 * not break when a path breaks, and takes no receive of the application.
 *
 * Datagrams may be lost; the core sends again. Threads that may call:
 *	open, close, path_open, path_close: the NIC's worker, as these verbs may block
 *	poll: one thread at a time (the background thread)
 *	send, mark_dead, the questions: any thread; none of them blocks
 *
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

#define SH_CONTROL_RECEIVES 512 /* at most */
#define SH_CONTROL_SENDS    128
/* Until sh_control_widen(): receives, and bytes of datagrams that are being sent. */
#define SH_CONTROL_RECEIVES_FIRST   64
#define SH_CONTROL_SEND_BYTES_FIRST (128u << 10)
#define SH_CONTROL_SEND_BYTES	    (384u << 10) /* from then on */
#define SH_CONTROL_MTU_MAX	    4096	 /* bytes of payload; the GRH comes on top */

struct sh_control;
struct sh_path;

/*
 * Opens the control QP. context: opened through real->open_device, so that its ops are the
 * provider's own. 0, or -errno of the step that failed (logged). The port need not be ACTIVE.
 */
int sh_control_open(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		    struct sh_control **out);
/*
 * Closes the control QP, whose paths were closed. Works on a dead NIC too: the kernel keeps objects
 * that cannot be destroyed there.
 */
void sh_control_close(struct sh_control *control);

/* Returns the UD QP, which the provider posts to: it may share a doorbell register with others. */
struct ibv_qp *sh_control_qp(const struct sh_control *control);

/* Returns the port's table of when it was opened. */
const struct sh_pkeys *sh_control_pkeys(const struct sh_control *control);

/*
 * Returns an fd that is readable when sh_control_poll() has something to do. Non-blocking; for
 * epoll.
 */
int sh_control_fd(const struct sh_control *control);
void sh_control_address(const struct sh_control *control, struct sh_address *out);
/*
 * Asks the port again (may block: on the worker). 0: *out is the present address; a GID that moved
 * to another index was found again. use: the GID to use from now on, of RoCE v2; NULL: the one so
 * far. -errno: the NIC does not answer.
 */
int sh_control_refresh(struct sh_control *control, const struct sh_gid_place *use,
		       struct sh_address *out);

/*
 * Opens the path from this NIC to a peer's. 0, -EPROTOTYPE: other link layer, or -errno of
 * create_ah.
 */
int sh_control_path_open(struct sh_control *control, const struct sh_address *peer,
			 struct sh_path **out);
void sh_control_path_close(struct sh_path *path);
/* Returns the largest length for send on this path: the smaller of both ports' MTUs. */
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
 * Takes completions of sends. Returns the start (sh_now_ns clock) of the time in which sends are
 * under way and none completes; 0: none is under way, or the NIC is dead. NULL: the NIC was given
 * up (nic/open.c), so none is under way.
 */
uint64_t sh_control_waiting_since(struct sh_control *control);

/*
 * Takes completions of sends. Returns the time when some sent datagram was posted, or a little
 * earlier; 0: none was sent.
 */
uint64_t sh_control_proven_at(struct sh_control *control);

/*
 * A control QP opens with room for few datagrams at once. tight: true if more came or left at once
 * than half of that, until it is wide. widen: blocks, on the NIC's worker; adds registered memory
 * for SH_CONTROL_RECEIVES. 0: it is wide, until its rest; -errno: all is as before.
 */
bool sh_control_tight(const struct sh_control *control);
bool sh_control_wide(const struct sh_control *control);
int sh_control_widen(struct sh_control *control);

/*
 * A rest without buffers, if memory that may be locked is short: nothing is sent (-EAGAIN) or
 * received, and the address stays. begin: in the thread of sh_control_poll(); then rest, which
 * blocks. wake: blocks; -errno: the rest goes on.
 */
void sh_control_rest_begin(struct sh_control *control);
void sh_control_rest(struct sh_control *control);
int sh_control_wake(struct sh_control *control);

/*
 * True if the partition of SHIFT's own datagrams has another place in the port's table than when
 * the control QP was made. repartition: blocks, and wants a rest that has begun; it ends with the
 * rest, or, with -errno, the rest goes on.
 */
bool sh_control_astray(struct sh_control *control, const struct sh_pkeys *pkeys);
int sh_control_repartition(struct sh_control *control, const struct sh_pkeys *pkeys);

/* Marks the NIC as gone, by an asynchronous event: nothing is posted or polled any more. */
void sh_control_mark_dead(struct sh_control *control);
bool sh_control_dead(const struct sh_control *control);

#endif
