/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Client libraries, loaded when they are first used. */
#ifndef KVCLIENT_DL_H
#define KVCLIENT_DL_H

#include <stddef.h>

/*
 * kv_dl_load() - load a client library of the system apart from the application's symbols
 * @sonames: NULL-terminated; the first one that is here and has all functions is taken
 * @names: NULL-terminated; the addresses go to @slots in the same order
 *
 * Returns 0, -ENOENT (no such library here), -EMFILE (no descriptor was left to open it) or
 * -ENOSYS (a function is missing).
 */
int kv_dl_load(const char *const *sonames, const char *const *names, void **slots);

/* Why a library that is there was not loaded: -EMFILE of kv_dl_load(). */
extern const char kv_dl_no_files[];

/*
 * kv_dl_own() - a symbol of a library that SHIFT brings along
 * @library: file name; searched by the run path, then near the file of this code: it may have
 *	been loaded by a link in another folder, or dlopen() may be wrapped by a tool, for which
 *	the loader takes the tool's run path
 * @why: receives the loader's words when the call fails, @n bytes at most
 */
const void *kv_dl_own(const char *library, const char *name, char *why, size_t n);

/*
 * Hold and release go around a call into a library that has locks of its own and does not reset
 * them at a fork (libcrypto, libc's resolver): a child that the program forks in the middle of the
 * call could not use that library. See kv_fork_before(). Not nested.
 */
void kv_fork_hold(void);
void kv_fork_release(void);

#endif
