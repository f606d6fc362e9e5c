/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The identity of the memory at an address: it shows that the process has mapped other memory
 * there.
 */
#ifndef SHIFTLIB_MAPPED_H
#define SHIFTLIB_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns a number for what is mapped in that range: of shared mappings file and offset, of
 * private ones no more than that they are private. It does not change when the kernel splits or
 * merges mappings, or when their rights change. 0: not known. Any thread; system calls, some
 * microseconds; before Linux 6.11 it reads all mappings if the range begins or ends in shared
 * ones, else none.
 */
uint64_t sh_mapped_identity(const void *addr, size_t length);

/*
 * Returns the identity, and whether the memory is elsewhere (below), with fewer system calls than
 * both take alone: one, since Linux 6.11, for private memory without a file.
 */
uint64_t sh_mapped_told(const void *addr, size_t length, bool *elsewhere);

/* Called in the child of a fork: what is kept open names the parent's memory. */
void sh_mapped_forget(void);

/*
 * readable: true if the process can read it. elsewhere: true if the process cannot: a GPU's memory,
 * say, that only devices reach. Both are false where the kernel does not let the process look.
 * Any thread; one system call.
 */
bool sh_mapped_readable(const void *addr, size_t length);
bool sh_mapped_elsewhere(const void *addr, size_t length);

/* The same without the call of Linux 6.11, for tests. */
uint64_t sh_mapped_identity_by_text(const void *addr, size_t length);

#endif
