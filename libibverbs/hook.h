/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The beginning of every exported verb: is this call the application's, and is SHIFT on?
 *
 * The distribution's library calls its own exported functions through the PLT (ibv_reg_mr calls
 * ibv_reg_mr_iova2), and so do its providers: those calls come back here. A thread-local mark
 * tells them apart from the application's.
 */
#ifndef LIBIBVERBS_HOOK_H
#define LIBIBVERBS_HOOK_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "libibverbs/real.h"
#include "shiftlib/shift.h"

#define HOOK_EXPORT __attribute__((visibility("default")))

/* Initial-exec: no allocation at a thread's first use, also in a library that was dlopened. */
extern __thread bool hook_inside __attribute__((tls_model("initial-exec")));
/* The thread's cancel state before the verb that it is in. */
extern __thread int hook_cancel_state __attribute__((tls_model("initial-exec")));
/* Set once, after shift_init(); false for ever with SHIFT_DISABLE=1. */
extern atomic_bool hook_on;

/* First open of a device: resolves, reads SHIFT_DISABLE, starts SHIFT. True if SHIFT is on. */
bool hook_start(void);

/* True if the call is the application's and SHIFT handles it. */
static inline bool hook_wanted(void)
{
	return !hook_inside && atomic_load_explicit(&hook_on, memory_order_acquire);
}

/*
 * Returns hook_wanted(). If true, sets the mark: end with hook_leave(). In between, the thread
 * cannot be cancelled, as the verb may wait or log while it holds SHIFT's lock. The mark is set
 * first and taken back last, as a signal handler may call verbs, too.
 */
static inline bool hook_enter(void)
{
	if (!hook_wanted())
		return false;
	hook_inside = true;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &hook_cancel_state);
	return true;
}

static inline void hook_leave(void)
{
	pthread_setcancelstate(hook_cancel_state, NULL);
	hook_inside = false;
}

/* The whole body of most hooks: the shell's form of the verb, or the real one. */
#define HOOK_CALL(shift_call, real_call)                                                           \
	({                                                                                         \
		__typeof__(real_call) hook_result_;                                                \
		if (hook_enter()) {                                                                \
			hook_result_ = (shift_call);                                               \
			hook_leave();                                                              \
		} else {                                                                           \
			hook_result_ = (real_call);                                                \
		}                                                                                  \
		hook_result_;                                                                      \
	})

/* HOOK_CALL for a verb that makes an object. */
#define HOOK_MAKE(context, shift_call, real_call)                                                  \
	HOOK_CALL(({                                                                               \
			  __typeof__(real_call) hook_made_ = (shift_call);                         \
			  shift_made(context, hook_made_ ? 0 : errno);                             \
			  hook_made_;                                                              \
		  }),                                                                              \
		  real_call)

#endif
