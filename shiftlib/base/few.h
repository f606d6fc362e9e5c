/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Limits of a process so low that SHIFT takes nothing of what they count, and protects nothing. */
#ifndef SHIFTLIB_FEW_H
#define SHIFTLIB_FEW_H

#include <stdbool.h>

/*
 * True if descriptors are few. SHIFT has no say in the program's open() and socket(), so each one
 * counts then: if SHIFT cannot have its own beside those of the program, it takes none at all,
 * neither for itself nor for a facade. Tries to have one (aside.h).
 */
bool sh_few_files(void);
/*
 * True if addresses are few. SHIFT's tables, the heaps of its threads and the file of its KV are
 * some 2 GiB of addresses, nearly all without memory, which the program's mmap() would miss.
 */
bool sh_few_addresses(void);

extern const char sh_few_files_why[], sh_few_addresses_why[];

#endif
