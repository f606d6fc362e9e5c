/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Whose a silence is. A path leads from a NIC here to one of a peer; what other paths of both
 * answer says which of them is to blame. Called by detector.c, when a path is lost or comes back,
 * and by admin/.
 */
#ifndef SHIFTLIB_CONN_WATCH_BLAME_H
#define SHIFTLIB_CONN_WATCH_BLAME_H

#include <stdbool.h>
#include "shiftlib/loop/loop.h"

struct sh_nic;
struct sh_peer;
struct sh_peer_path;

/* Tells of a path that was lost just now: log, and an event where this host's NIC is to blame. */
void sh_blame_lost(const struct sh_peer_path *path) SH_LOCKED;
/* Tells of NICs that were to blame, and over which a peer answers again. */
void sh_blame_update(void) SH_LOCKED;
/* True if this NIC was told to be silent, and no peer has answered over it since. */
bool sh_blame_is(const struct sh_nic *nic);

/*
 * True if the peer answers on no path while another peer does: it is not this host that is cut
 * off. With one peer alone nobody can tell a program that has ended from a network that is down.
 */
bool sh_blame_peer_gone(const struct sh_peer *gone) SH_LOCKED;
extern const char sh_blame_gone[]; /* the same as a clause for people */

extern const struct sh_module sh_blame_module;

#endif
