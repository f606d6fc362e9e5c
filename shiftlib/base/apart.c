/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "shiftlib/base/apart.h"
#include "shiftlib/base/clone.h"
#include "shiftlib/base/util.h"

/* After a command that returned so soon, the device is trusted for as long. */
#define APART_TRUST_NS (100 * SH_NS_PER_MS)

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif

static bool apart_is_off;
static _Thread_local bool apart_has_room;

void sh_apart_thread(void)
{
	apart_has_room = true;
}

void sh_apart_off(void)
{
	apart_is_off = true;
}

struct apart {
	int device;
	void (*fn)(void *arg);
	void *arg;
	bool begun, over; /* fn */
};

/* Leaves the process a table of descriptors of its own, with that of the device alone. */
static bool apart_files(unsigned int device)
{
	return !syscall(SYS_close_range, device + 1, ~0u, CLOSE_RANGE_UNSHARE) &&
	       (!device || !syscall(SYS_close_range, 0, device - 1, 0));
}

static int apart_process(void *arg)
{
	struct apart *apart = arg;

	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (apart_files((unsigned int)apart->device)) {
		apart->begun = true;
		apart->fn(apart->arg);
		apart->over = true;
	}
	syscall(SYS_exit, 0);
	return 0;
}

/*
 * True for a device of the kernel's. It is the kernel that is asked: what stands in for it in this
 * process, as simnic does, answers by descriptors that a process apart has not.
 */
static bool apart_is_device(int fd)
{
	struct statx status;

	return fd >= 0 && !syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &status) &&
	       S_ISCHR(status.stx_mode);
}

/* Sanitizers know no thread whose stack changes under it. */
static bool apart_possible(int device)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return false;
#else
	return apart_has_room && !apart_is_off && apart_is_device(device) && sh_clone_known();
#endif
}

static void apart_run(struct apart *apart)
{
	_Alignas(16) char stack[SH_APART_STACK];

	if (sh_clone_wait(apart_process, stack + sizeof(stack), CLONE_FILES, apart) ||
	    !apart->begun)
		apart->fn(apart->arg);
	else if (!apart->over)
		raise(SIGKILL); /* as a signal that ends a thread ends its program */
}

/* The thread's last command. */
static _Thread_local struct {
	int device;
	uint64_t returned_ns, took_ns;
} apart_last;

static bool apart_trusts(int device)
{
	return apart_last.returned_ns && apart_last.device == device &&
	       sh_now_ns() - apart_last.returned_ns < APART_TRUST_NS &&
	       apart_last.took_ns < APART_TRUST_NS;
}

static void apart_command(int device, void (*fn)(void *arg), void *arg, bool trusts)
{
	struct apart apart = { .device = device, .fn = fn, .arg = arg };
	uint64_t now = sh_now_ns();

	if (trusts || !apart_possible(device))
		fn(arg);
	else
		apart_run(&apart);
	apart_last.device = device;
	apart_last.returned_ns = sh_now_ns();
	apart_last.took_ns = apart_last.returned_ns - now;
}

void sh_apart(int device, void (*fn)(void *arg), void *arg)
{
	apart_command(device, fn, arg, false);
}

void sh_apart_next(int device, void (*fn)(void *arg), void *arg)
{
	apart_command(device, fn, arg, apart_trusts(device));
}
