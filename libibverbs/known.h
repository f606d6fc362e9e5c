/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Creation calls of libibverbs that this release knows; a newer library may have more. */
#ifndef LIBIBVERBS_KNOWN_H
#define LIBIBVERBS_KNOWN_H

#include <stdbool.h>

/* True if the name looks like a call that makes an object (ibv_reg_*, ibv_create_*, ...). */
bool known_creates(const char *name);
/* True if the drop-in hooks this verb, or leaves it alone on purpose. */
bool known_verb(const char *name);

/* Calls found(name) for each creation call that the library behind this dlopen() handle exports and
 * known_verb() denies. Reads its dynamic symbol table; does nothing if that has no GNU hash. */
void known_scan(void *handle, void (*found)(const char *name));

#endif
