/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Inboxes: each attached process has one bounded queue of packets in the fabric, many producers,
 * one consumer (the device thread of the owner). A full inbox loses the packet, as a wire would;
 * the requester's retry timer mends it.
 */
#ifndef SIMNIC_FABRIC_INBOX_H
#define SIMNIC_FABRIC_INBOX_H

#include "simnic/fabric/proc.h"

/*
 * Copies the used part of pkt (header, then n_sge entries, or n_inline bytes when n_sge is 0)
 * into the inbox of process slot `proc` and wakes its device thread if that sleeps.
 * -ESRCH: no such process; -ENOBUFS: full, packet lost. Any thread.
 */
int sn_inbox_push(struct sn_fabric *fabric, uint32_t proc, const struct sn_pkt *pkt);

/* Takes the oldest packet; false when empty. Only the owner's device thread. */
bool sn_inbox_pop(struct sn_proc *proc, struct sn_pkt *out);
bool sn_inbox_empty(const struct sn_proc *proc);
/*
 * sn_inbox_end() is the place behind the last packet, counted from the first one ever;
 * sn_inbox_read() is true if all packets before a place were taken. Any thread.
 */
uint64_t sn_inbox_end(const struct sn_proc *proc);
bool sn_inbox_read(const struct sn_proc *proc, uint64_t place);

#endif
