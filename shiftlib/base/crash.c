/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include "shiftlib/base/crash.h"
#include "shiftlib/base/log.h"

#define CRASH_THREADS 64
/* The stack of a handler, for a thread that has used up its own. */
#define CRASH_STACK 65536
#define CRASH_LINE  512

static const int crash_signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };

#define CRASH_SIGNALS (sizeof(crash_signals) / sizeof(crash_signals[0]))

/* Read by the handler, which may come at any time in any thread. */
static struct {
	_Atomic bool installed;
	struct sigaction before[CRASH_SIGNALS]; /* written before installed */
	_Atomic bool passed[CRASH_SIGNALS];	/* ours is off again */
	struct {
		_Atomic pid_t tid; /* 0: free */
		void *stack;	   /* of its owner */
	} threads[CRASH_THREADS];
	uintptr_t code, code_end; /* of this library */
} crash;

/* ---- the line: async-signal-safe ------------------------------------------------------------ */

struct crash_line {
	char text[CRASH_LINE];
	size_t n;
};

static void line_text(struct crash_line *line, const char *text)
{
	while (*text && line->n < sizeof(line->text) - 1)
		line->text[line->n++] = *text++;
	line->text[line->n] = 0;
}

static void line_number(struct crash_line *line, uintptr_t value, unsigned int base)
{
	char digits[24], *at = digits + sizeof(digits) - 1;

	*at = 0;
	do {
		*--at = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	line_text(line, at);
}

static const char *crash_signal_name(int number)
{
	switch (number) {
	case SIGSEGV: return "SIGSEGV";
	case SIGBUS: return "SIGBUS";
	case SIGILL: return "SIGILL";
	case SIGFPE: return "SIGFPE";
	default: return "SIGABRT";
	}
}

static uintptr_t crash_pc(const void *context)
{
	const ucontext_t *uc = context;

#if defined(__x86_64__)
	return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)uc->uc_mcontext.pc;
#else
	(void)uc;
	return 0;
#endif
}

static bool crash_in_code(uintptr_t pc)
{
	return pc >= crash.code && pc < crash.code_end;
}

static void line_where(struct crash_line *line, const siginfo_t *info, uintptr_t pc)
{
	line_text(line, " at 0x");
	line_number(line, pc, 16);
	if (crash_in_code(pc)) {
		line_text(line, " (SHIFT's libibverbs.so.1+0x");
		line_number(line, pc - crash.code, 16);
		line_text(line, " of its code)");
	}
	if (info->si_signo == SIGSEGV || info->si_signo == SIGBUS) {
		line_text(line, ", address 0x");
		line_number(line, (uintptr_t)info->si_addr, 16);
	}
}

static void crash_say(const siginfo_t *info, uintptr_t pc, pid_t tid, bool own)
{
	struct crash_line line = { .n = 0 };
	char name[17] = "";

	prctl(PR_GET_NAME, name);
	line_text(&line, crash_signal_name(info->si_signo));
	line_text(&line, own ? " in SHIFT's thread " : " in SHIFT's code, called by the thread ");
	line_text(&line, name);
	line_text(&line, " (");
	line_number(&line, (uintptr_t)tid, 10);
	line_text(&line, ")");
	line_where(&line, info, pc);
	line_text(&line, own ? ": not the application's fault; "
			     : ": the fault of SHIFT or of an argument; ");
	line_text(&line, "please report it with the core dump. SHIFT_DISABLE=1 runs without SHIFT");
	sh_log_crash(line.text);
}

/* ---- the handler ---------------------------------------------------------------------------- */

static bool crash_own(pid_t tid)
{
	int i;

	for (i = 0; i < CRASH_THREADS; i++)
		if (atomic_load_explicit(&crash.threads[i].tid, memory_order_relaxed) == tid)
			return true;
	return false;
}

static void crash_handle(int number, siginfo_t *info, void *context);

static int crash_place(int number)
{
	int i = 0;

	while (crash_signals[i] != number)
		i++;
	return i;
}

/*
 * Puts back the disposition that was before us. If somebody has taken our place, and calls us as
 * what he found there, then his is not ours to take away: the handler that we had found is called
 * for him, as far as it can be.
 */
static void crash_pass_on(int number, siginfo_t *info, void *context)
{
	const struct sigaction *before = &crash.before[crash_place(number)];
	bool handler = before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN;
	struct sigaction now;

	sigaction(number, NULL, &now);
	if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == crash_handle) {
		sigaction(number, before, NULL);
	} else if (handler) {
		if (before->sa_flags & SA_SIGINFO)
			before->sa_sigaction(number, info, context);
		else
			before->sa_handler(number);
		return;
	} else {
		sigaction(number, before, NULL);
	}
	/*
	 * A fault happens again by itself; a signal that was sent, and abort()'s, has to be sent
	 * again.
	 */
	if (info->si_code <= 0)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info);
}

static void crash_handle(int number, siginfo_t *info, void *context)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);
	uintptr_t pc = crash_pc(context);
	int saved = errno;
	bool own = crash_own(tid), sent = info->si_code <= 0 && number != SIGABRT;

	/* kill(1) may choose any thread: that is nobody's fault */
	if (!sent && (own || crash_in_code(pc)) &&
	    !atomic_exchange(&crash.passed[crash_place(number)], true))
		crash_say(info, pc, tid, own);
	crash_pass_on(number, info, context);
	errno = saved;
}

/* ---- set up --------------------------------------------------------------------------------- */

static int crash_find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t us = (uintptr_t)&crash_handle;
	int i;

	(void)size;
	(void)arg;
	for (i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type != PT_LOAD || us < begin ||
		    us >= begin + info->dlpi_phdr[i].p_memsz)
			continue;
		crash.code = begin;
		crash.code_end = begin + info->dlpi_phdr[i].p_memsz;
		return 1;
	}
	return 0;
}

/*
 * Installs the handler. A signal that is ignored keeps its disposition, and so does one set to
 * the default by SA_RESETHAND and the like.
 */
void sh_crash_install(bool wanted)
{
	struct sigaction action = { .sa_sigaction = crash_handle,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };
	size_t i;

	if (!wanted || atomic_load(&crash.installed))
		return;
	dl_iterate_phdr(crash_find_code, NULL);
	sigemptyset(&action.sa_mask);
	for (i = 0; i < CRASH_SIGNALS; i++) {
		sigaction(crash_signals[i], NULL, &crash.before[i]);
		if (crash.before[i].sa_handler != SIG_IGN)
			sigaction(crash_signals[i], &action, NULL);
	}
	atomic_store(&crash.installed, true);
}

static void crash_unblock(void)
{
	sigset_t faults;
	size_t i;

	sigemptyset(&faults);
	for (i = 0; i < CRASH_SIGNALS; i++)
		sigaddset(&faults, crash_signals[i]);
	pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

/*
 * Takes a place in the table. A thread without a place works all the same, and only its crash is
 * not known for ours.
 */
void sh_crash_thread_begin(void)
{
	pid_t tid = (pid_t)syscall(SYS_gettid), none;
	stack_t stack = { .ss_size = CRASH_STACK };
	int i;

	if (!atomic_load(&crash.installed))
		return;
	for (i = 0; i < CRASH_THREADS; i++) {
		none = 0;
		if (atomic_compare_exchange_strong(&crash.threads[i].tid, &none, tid))
			break;
	}
	if (i == CRASH_THREADS)
		return;
	stack.ss_sp = crash.threads[i].stack = malloc(CRASH_STACK);
	if (stack.ss_sp)
		sigaltstack(&stack, NULL);
	crash_unblock();
}

void sh_crash_thread_end(void)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);
	stack_t none = { .ss_flags = SS_DISABLE };
	int i;

	for (i = 0; i < CRASH_THREADS; i++) {
		if (atomic_load(&crash.threads[i].tid) != tid)
			continue;
		sigaltstack(&none, NULL);
		free(crash.threads[i].stack);
		crash.threads[i].stack = NULL;
		atomic_store(&crash.threads[i].tid, 0);
	}
}

void sh_crash_after_fork(void)
{
	int i;

	for (i = 0; i < CRASH_THREADS; i++) {
		free(crash.threads[i].stack);
		crash.threads[i].stack = NULL;
		atomic_store(&crash.threads[i].tid, 0);
	}
}
