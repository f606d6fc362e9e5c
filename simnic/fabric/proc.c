/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Slots of attached processes. A process that died without a word is reaped by the next one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "simnic/fabric/check.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/fd.h"
#include "simnic/fabric/held.h"
#include "simnic/fabric/inbox.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/packet.h"
#include "simnic/fabric/proc.h"
#include "simnic/fabric/room.h"

#define LIFE_SHIFT 22 /* bits of a process id */

/* The state and the start time in clock ticks that such a file tells; 'X': it is gone. */
static char stat_read(const char *path, unsigned long long *start)
{
	char buf[512], state, *p;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 'X';
	n = read(fd, buf, sizeof(buf) - 1);
	sn_fd_close_own(fd);
	if (n <= 0)
		return 'X';
	buf[n] = '\0';
	p = strrchr(buf, ')'); /* the name may hold blanks and brackets */
	if (!p || sscanf(p + 1,
			 " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			 "%*d %*d %llu",
			 &state, start) != 2)
		return 'X';
	return state;
}

static char process_stat(int32_t pid, unsigned long long *start)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return stat_read(path, start);
}

/* 0 when the process is gone (a zombie counts as gone). */
static uint64_t process_start_time(int32_t pid)
{
	unsigned long long start;
	char state = process_stat(pid, &start);

	return state == 'Z' || state == 'X' ? 0 : start;
}

/* 0: /proc is not there, or another namespace's. */
static uint64_t own_pid_space(void)
{
	unsigned long long inode = 0;
	char link[32];
	ssize_t n = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);

	link[n < 0 ? 0 : n] = '\0';
	return sscanf(link, "pid:[%llu]", &inode) == 1 ? inode : 0;
}

void sn_proc_device_begins(struct sn_proc *proc)
{
	atomic_store(&proc->device_start, process_start_time(getpid()));
	atomic_store(&proc->device_pid, getpid());
}

int32_t sn_proc_device(const struct sn_proc *proc)
{
	int32_t pid = atomic_load(&proc->pid), device = atomic_load(&proc->device_pid);

	if (pid <= 0)
		return 0;
	return device > 0 ? device : pid;
}

static bool device_lives(const struct sn_proc *proc)
{
	int32_t device = atomic_load(&proc->device_pid);

	return device > 0 && process_start_time(device) == atomic_load(&proc->device_start);
}

uint64_t sn_proc_life(const struct sn_proc *proc)
{
	return atomic_load(&proc->start_time) << LIFE_SHIFT ^ (uint64_t)atomic_load(&proc->pid);
}

/* A program that has replaced itself (execve) has lost its device, but neither number nor age. */
bool sn_proc_lives(const struct sn_proc *proc)
{
	int32_t pid = atomic_load(&proc->pid);

	if (pid <= 0 || atomic_load(&proc->pid_space) != own_pid_space())
		return pid > 0;
	return process_start_time(pid) == atomic_load(&proc->start_time) &&
	       (atomic_load(&proc->device_pid) <= 0 || device_lives(proc));
}

bool sn_proc_runs(int32_t pid)
{
	unsigned long long start;

	return !strchr("ZXTt", process_stat(pid, &start));
}

bool sn_proc_any_thread_runs(int32_t pid)
{
	unsigned long long start;
	struct dirent *thread;
	bool runs = false;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && !runs && (thread = readdir(dir))) {
		if (thread->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", pid, thread->d_name);
		runs = !strchr("ZXTt", stat_read(path, &start));
	}
	if (dir)
		closedir(dir);
	return runs;
}

static void qpns_free(struct sn_fabric *fabric, uint32_t slot)
{
	uint16_t owner = slot + 1;

	for (uint32_t n = 0; n < fabric->n_nics; n++) {
		struct sn_nic *nic = &fabric->nic[fabric->proc[slot].host][n];

		for (uint32_t qpn = 0; qpn < SN_QPN_MAX; qpn++) {
			uint16_t expected = owner;

			if (atomic_load_explicit(&nic->qpn_owner[qpn], memory_order_relaxed) !=
			    owner)
				continue;
			atomic_fetch_add(&nic->qpn_gen[qpn], 1u << SN_GEN_SHIFT);
			atomic_compare_exchange_strong(&nic->qpn_owner[qpn], &expected, 0);
		}
	}
}

static void staging_free(struct sn_proc *proc)
{
	for (uint32_t i = 0; i < SN_BOUNCE_SLOTS; i++)
		atomic_store(&proc->bounce[i], 0);
}

/*
 * Frees the slot of a dead process. Whoever turns pid into -1 owns the slot while it cleans up.
 * The dead process's packets on the wire must not be read out of the next process's memory: before
 * that one has the slot, no packet's generation or ticket is valid any more.
 */
static void slot_reap(struct sn_fabric *fabric, uint32_t slot, uint64_t pid_space)
{
	struct sn_proc *proc = &fabric->proc[slot];
	int32_t pid = atomic_load(&proc->pid);
	uint64_t start = atomic_load(&proc->start_time);

	if (pid <= 0 || !start || atomic_load(&proc->pid_space) != pid_space)
		return; /* of a number that means nothing here, nobody knows whether it lives */
	if (process_start_time(pid) == start || device_lives(proc))
		return;
	if (!atomic_compare_exchange_strong(&proc->pid, &pid, -1))
		return;
	qpns_free(fabric, slot);
	staging_free(proc);
	sn_held_forget(fabric, slot);
	sn_cm_bind_forget(fabric, slot);
	atomic_store(&proc->device_pid, 0);
	atomic_store(&proc->start_time, 0);
	atomic_store(&proc->pid, 0);
}

void sn_proc_reap(struct sn_fabric *fabric)
{
	uint64_t own = own_pid_space();

	for (uint32_t slot = 0; slot < atomic_load(&fabric->proc_slots); slot++)
		slot_reap(fabric, slot, own);
}

static void slot_begin(struct sn_proc *proc, uint32_t host)
{
	struct sn_pkt stale;

	atomic_store(&proc->device_pid, 0);
	proc->host = host;
	while (sn_inbox_pop(proc, &stale))
		; /* drops packets to the last owner of the slot */
	atomic_store(&proc->sleeping, 0);
	atomic_store(&proc->pid_space, own_pid_space());
	atomic_store(&proc->start_time, process_start_time(getpid()));
}

int sn_proc_attach(struct sn_fabric *fabric, uint32_t host)
{
	int err;

	sn_proc_reap(fabric);
	for (uint32_t slot = 0; slot < SN_MAX_PROCS; slot++) {
		int32_t nobody = 0;

		err = sn_room_grow(fabric, &fabric->proc_slots, slot, &fabric->proc[slot],
				   sizeof(fabric->proc[slot]));
		if (err)
			return err;
		if (!atomic_compare_exchange_strong(&fabric->proc[slot].pid, &nobody, getpid()))
			continue;
		slot_begin(&fabric->proc[slot], host);
		return slot;
	}
	return -EUSERS;
}

/* ---- the device thread's sleep --------------------------------------------------------------- */

void sn_proc_wake(struct sn_fabric *fabric, uint32_t proc)
{
	struct sn_proc *to = &fabric->proc[proc];

	SN_ASSERT(proc < SN_MAX_PROCS);
	/* Sequentially consistent with the sleeper: it reads wake, sets sleeping, looks for work,
	 * sleeps on wake. Either it sees our work or the new wake, or we see it sleeping. */
	atomic_fetch_add(&to->wake, 1);
	if (atomic_load(&to->sleeping) && atomic_exchange(&to->sleeping, 0))
		syscall(SYS_futex, &to->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sn_proc_wake_all(struct sn_fabric *fabric)
{
	for (uint32_t slot = 0; slot < atomic_load(&fabric->proc_slots); slot++)
		if (atomic_load(&fabric->proc[slot].pid) > 0)
			sn_proc_wake(fabric, slot);
}

void sn_proc_sleep(struct sn_proc *proc, uint32_t seen, uint64_t timeout_ns)
{
	struct timespec ts = { timeout_ns / 1000000000ULL, timeout_ns % 1000000000ULL };

	syscall(SYS_futex, &proc->wake, FUTEX_WAIT, seen, &ts, NULL, 0);
	atomic_store(&proc->sleeping, 0);
}
