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

/* For libraries that use another one without naming it: makes the loaded @soname seen by all. */
int kv_dl_share(const char *soname);

/*
 * Around a call into a library that has locks of its own, which its fork handlers do not mind (libcrypto, libc's
 * resolver): a child that the program forks in the middle of it could not use that library. See kv_fork_before(). Not
 * nested.
 */
void kv_fork_hold(void);
void kv_fork_release(void);

#endif
