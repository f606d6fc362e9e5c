/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The application's set-up: it makes and connects queue pairs, one after the other. SHIFT makes
 * things ahead of need only when the set-up pauses, as that would take cores and locks away from
 * it.
 */
#ifndef SHIFTLIB_SETUP_H
#define SHIFTLIB_SETUP_H

#include <stdbool.h>
#include "shiftlib/loop/loop.h"

bool sh_setup_on(void) SH_LOCKED;
/* an application's command that begins the set-up, or goes on with it */
void sh_setup_command(void) SH_LOCKED;
void sh_setup_also(void) SH_LOCKED; /* a command that goes on with a set-up, if one is on */
/* ends the set-up, as something is needed now: the background thread makes it */
void sh_setup_end(void) SH_LOCKED;

extern const struct sh_module sh_setup_module;

#endif
