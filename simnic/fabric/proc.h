/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The slots of attached processes, and the sleep of their device threads. */
#ifndef SIMNIC_FABRIC_PROC_H
#define SIMNIC_FABRIC_PROC_H

#include "simnic/fabric/packet.h"

struct sn_fabric;

/* An attached process. Its own device thread alone lands anything in its memory. */
struct sn_proc {
	_Atomic int32_t pid;	     /* 0: free */
	_Atomic uint64_t pid_space;  /* inode of the pid namespace that pid is of */
	_Atomic uint64_t start_time; /* field 22 of /proc/pid/stat: tells a reused pid apart */
	/*
	 * The process that its device runs in: the process itself (0), or one beside it, which
	 * outlives it by microseconds.
	 */
	_Atomic int32_t device_pid;
	_Atomic uint64_t device_start;
	_Atomic uint32_t wake;	   /* futex word of the device thread */
	_Atomic uint32_t sleeping; /* device thread waits on wake without a short time-out */
	uint32_t host;
	/* Staging slots in that process's memory: 0 = free; the receiver frees what it has read. */
	_Atomic uint64_t bounce[SN_BOUNCE_SLOTS];
	/*
	 * The staging slots of datagrams, whose payload is in the fabric itself: nobody sends a
	 * datagram again, so it arrives even if its sender is gone by then.
	 */
	_Atomic uint64_t datagram[SN_BOUNCE_SLOTS];
	uint8_t datagram_payload[SN_BOUNCE_SLOTS][SN_UD_MTU];
	_Atomic uint64_t head; /* inbox: next to write (producers) */
	_Atomic uint64_t tail; /* inbox: next to read */
	struct sn_pkt inbox[SN_INBOX_SLOTS];
};

/*
 * Takes a slot for this process (reaping slots of dead ones); returns its number. -EUSERS: all are
 * taken. -ENOSPC: /dev/shm has no room.
 */
int sn_proc_attach(struct sn_fabric *fabric, uint32_t host);
/* Makes the calling process the one in which the slot's device runs from now on. */
void sn_proc_device_begins(struct sn_proc *proc);
/* The process that a slot's device runs in. 0: there is none. */
int32_t sn_proc_device(const struct sn_proc *proc);
/* False if the process is gone, or stopped, for as long as that takes. */
bool sn_proc_runs(int32_t pid);
/*
 * sn_proc_runs() for all its threads: a thread in a system call stops at the end of that, maybe
 * behind the others.
 */
bool sn_proc_any_thread_runs(int32_t pid);
/* Tells a process from others that had or will have its slot. */
uint64_t sn_proc_life(const struct sn_proc *proc);
/*
 * False if nobody has the slot, or the process that had it is gone. Reads /proc, and takes a
 * process of another PID namespace for living.
 */
bool sn_proc_lives(const struct sn_proc *proc);
/*
 * Frees slots, QPNs included, whose process is gone. Cheap enough for once a second. Of processes
 * in other PID namespaces nothing is known here: their slots are freed by processes of their own.
 */
void sn_proc_reap(struct sn_fabric *fabric);

/* Bumps proc.wake; if proc.sleeping was set, clears it and wakes the waiter (shared futex). */
void sn_proc_wake(struct sn_fabric *fabric, uint32_t proc);
/* Wakes the device threads of all processes: something in the fabric changed. */
void sn_proc_wake_all(struct sn_fabric *fabric);
/*
 * Sleeps until proc.wake differs from `seen` or the time-out passes. The caller reads `wake`, sets
 * `sleeping`, looks for work once more, and then calls this; it clears `sleeping` afterwards.
 */
void sn_proc_sleep(struct sn_proc *proc, uint32_t seen, uint64_t timeout_ns);

#endif
