/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The public structures as a program sees them: what walk.c prints of each object that the program has. */
#ifndef TESTS_E2E_FIELDS_FIELDS_H
#define TESTS_E2E_FIELDS_FIELDS_H

#include <stdint.h>

/* An object that the program has from now on, under a name of one word; of: its structure. NULL is none. */
void walk_add(const char *name, const char *of, void *object);
void walk_remove(const void *object);
/* So many events of it were acknowledged. */
void walk_acked(const void *object, uint32_t completion, uint32_t async);
/* Prints "STEP OBJECT.FIELD VALUE" for each field of each object. */
void walk(const char *step);

#endif
