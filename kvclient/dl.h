/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Client libraries, loaded when they are first used. */
#ifndef KVCLIENT_DL_H
#define KVCLIENT_DL_H

/*
 * kv_dl_load() - load a client library apart from the application's symbols
 * @names: NULL-terminated; the addresses go to @slots in the same order
 *
 * Returns 0, -ENOENT (no such library here) or -ENOSYS (a function is missing).
 */
int kv_dl_load(const char *soname, const char *const *names, void **slots);

/* Makes the loaded @soname visible to all, for a library that uses it without naming it. */
int kv_dl_share(const char *soname);

/*
 * Hold and release go around a call into a library that has locks of its own and does not reset
 * them at a fork (libcrypto, libc's resolver): a child that the program forks in the middle of the
 * call could not use that library. See kv_fork_before(). Not nested.
 */
void kv_fork_hold(void);
void kv_fork_release(void);

#endif
