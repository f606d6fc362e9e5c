/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The words by which a function says, behind its declaration, what it does with the lock of the
 * shell (base/lock.h). clang holds each call against them (-Wthread-safety); to gcc they are
 * nothing. Calls through pointers are not checked: what is called so, and wants the lock, says it
 * all the same.
 */
#ifndef SHIFTLIB_LOCKED_H
#define SHIFTLIB_LOCKED_H

#ifdef __clang__
#define SH_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define SH_ATTRIBUTE(attribute)
#endif

#define SH_LOCKED    SH_ATTRIBUTE(requires_capability(sh_lock_capability))
#define SH_DROPS     SH_LOCKED /* released and retaken inside: look again at what was read before */
#define SH_ACQUIRES  SH_ATTRIBUTE(acquire_capability(sh_lock_capability))
#define SH_RELEASES  SH_ATTRIBUTE(release_capability(sh_lock_capability))
#define SH_TRIES     SH_ATTRIBUTE(try_acquire_capability(true, sh_lock_capability))
#define SH_ASSERTS   SH_ATTRIBUTE(assert_capability(sh_lock_capability))
#define SH_UNCHECKED SH_ATTRIBUTE(no_thread_safety_analysis)

/* The lock's name in attributes. It has no memory. */
extern struct SH_ATTRIBUTE(capability("sh_lock")) sh_lock_capability {
	char none;
} sh_lock_capability;

#endif
