/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Inboxes: each attached process has one bounded queue of packets in the fabric, many producers,
 * one consumer (the device thread of the owner). A full inbox loses the packet, as a wire would;
 * the requester's retry timer mends it.
 */
#ifndef SIMNIC_INBOX_H
#define SIMNIC_INBOX_H

#include "simnic/fabric.h"

/*
 * Copies the used part of pkt (header, then n_sge entries, or n_inline bytes when n_sge is 0)
 * into the inbox of process slot `proc` and wakes its device thread if that sleeps.
 * -ESRCH: no such process; -ENOBUFS: full, packet lost. Any thread.
 */
int sn_inbox_push(struct sn_fabric *fabric, uint32_t proc, const struct sn_pkt *pkt);

/* Takes the oldest packet; false when empty. Only the owner's device thread. */
bool sn_inbox_pop(struct sn_proc *proc, struct sn_pkt *out);
bool sn_inbox_empty(const struct sn_proc *proc);

/* Bumps proc.wake; if proc.sleeping was set, clears it and wakes the waiter (shared futex). */
void sn_proc_wake(struct sn_fabric *fabric, uint32_t proc);
/*
 * Sleeps until proc.wake differs from `seen` or the time-out passes. The caller sets `sleeping`,
 * reads `wake`, looks for work once more, and then calls this; it clears `sleeping` afterwards.
 */
void sn_proc_sleep(struct sn_proc *proc, uint32_t seen, uint64_t timeout_ns);

/* Wakes the device threads of all processes: something in the fabric changed. */
void sn_proc_wake_all(struct sn_fabric *fabric);

/*
 * Held packets (held.c). Kept: whether the NIC that it leaves holds this one back now.
 * sn_held_begin takes a slot to fill, payload included; NULL: the fabric keeps SN_MAX_HELD already.
 * sn_held_end makes it known. sn_held_take hands out, oldest first, what is free to go on to a
 * QP of this process; what nobody has the QP of is lost on the way. After use: sn_held_free.
 */
bool sn_held_wanted(const struct sn_nic *nic, const struct sn_pkt *pkt);
struct sn_held *sn_held_begin(struct sn_fabric *fabric, uint32_t proc);
void sn_held_end(struct sn_fabric *fabric, struct sn_held *held);
struct sn_held *sn_held_take(struct sn_fabric *fabric, uint32_t proc);
void sn_held_free(struct sn_held *held);
void sn_held_forget(struct sn_fabric *fabric, uint32_t proc); /* it died */

/* Takes a slot for this process (reaping slots of dead ones); returns its number or -EUSERS. */
int sn_proc_attach(struct sn_fabric *fabric, uint32_t host);
void sn_proc_detach(struct sn_fabric *fabric, uint32_t proc);
/* False: it is gone, or stopped, for as long as that takes. */
bool sn_proc_runs(int32_t pid);
/* Frees slots, QPNs included, whose process is gone. Cheap enough for once a second. */
void sn_proc_reap(struct sn_fabric *fabric);

#endif
