/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The handler of the processor's faults. A fault in a watched range comes from the thread's own
 * load or store of guest memory, with the engine's lock held: the handler interrupts no library,
 * and no second thread is in it for the same range.
 */
#include "simnic/pci/bridge_stray.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "simnic/device/device.h"

#define PAGE	4096u
#define WATCHED 32 /* ranges at a time */

static _Atomic(struct sn_strays *) watched[WATCHED];
static struct sigaction before; /* the handler that was there before */

static struct sn_strays *range_of(const uint8_t *at)
{
	for (int i = 0; i < WATCHED; i++) {
		struct sn_strays *strays = atomic_load(&watched[i]);

		if (strays && at >= strays->base && at < strays->base + strays->bytes)
			return strays;
	}
	return NULL;
}

static bool is_write(const ucontext_t *context)
{
#if defined(__x86_64__)
	return context->uc_mcontext.gregs[REG_ERR] & 2;
#else
	return true;
#endif
}

static void note(struct sn_strays *strays, uint8_t *page, bool write)
{
	struct sn_stray *last = strays->n ? &strays->met[strays->n - 1] : NULL;

	if (!write) {
		strays->read = true;
		sn_copy_missed();
	}
	if (last && strays->n > strays->taken && last->write == write &&
	    last->at + last->bytes == page)
		last->bytes += PAGE;
	else if (strays->n < SN_STRAYS)
		strays->met[strays->n++] = (struct sn_stray){ page, PAGE, write };
}

/* The fault is somebody else's: it happens again, and is handled as it would have been. */
static void hand_on(int signal, siginfo_t *info, void *context)
{
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(signal, info, context);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(signal);
	else
		sigaction(signal, &before, NULL);
}

static void fault(int signal, siginfo_t *info, void *context)
{
	uint8_t *page = (uint8_t *)((uintptr_t)info->si_addr & -(uintptr_t)PAGE);
	struct sn_strays *strays = range_of(page);
	int kept = errno;

	if (!strays || mmap(page, PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
		hand_on(signal, info, context);
		return;
	}
	note(strays, page, is_write(context));
	strays->wake(strays->ctx);
	errno = kept;
}

/* SA_NODEFER: a handler that this one hands on to may leave by a jump, as the engine's does. */
static int install(void)
{
	const struct sigaction act = { .sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	struct sigaction now;

	if (sigaction(SIGSEGV, NULL, &now))
		return -errno;
	if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == fault)
		return 0;
	before = now;
	return sigaction(SIGSEGV, &act, NULL) ? -errno : 0;
}

int sn_strays_watch(struct sn_strays *strays)
{
	int err = install();

	for (int i = 0; i < WATCHED && !err; i++) {
		struct sn_strays *none = NULL;

		if (atomic_compare_exchange_strong(&watched[i], &none, strays))
			return 0;
	}
	return err ? err : -ENOSPC;
}

void sn_strays_forget(struct sn_strays *strays)
{
	for (int i = 0; i < WATCHED; i++) {
		struct sn_strays *this = strays;

		atomic_compare_exchange_strong(&watched[i], &this, NULL);
	}
}

bool sn_strays_take(struct sn_strays *strays, struct sn_stray *stray)
{
	if (strays->taken == strays->n) {
		strays->taken = strays->n = 0;
		strays->read = false;
		return false;
	}
	*stray = strays->met[strays->taken++];
	return true;
}
