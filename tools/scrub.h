/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Cuts passwords out of text that leaves this machine: those of addresses
 * (scheme://USER:PASSWORD@HOST), wherever they stand, and those that were learnt from an address
 * before. One thread.
 */
#ifndef TOOLS_SCRUB_H
#define TOOLS_SCRUB_H

#include <stddef.h>

/* Learns the password of an address of a key-value store; several have commas between them. */
void scrub_learn(const char *url);

/*
 * Learns a whole text that is no address: it may hold a password anywhere. Others may show its
 * beginning.
 */
void scrub_learn_all(const char *text);

/* Returns the text without them, "***" in their place. The caller's to free; NULL: no memory. */
char *scrub(const char *text);

/* Forgets what it has learnt. */
void scrub_forget(void);

#endif
