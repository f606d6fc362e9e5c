/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The application sets up: it makes and connects queue pairs, one after the other. What SHIFT makes ahead
 * of need waits until that pauses, as it would take cores and locks away from it. Lock held.
 */
#ifndef SHIFTLIB_SETUP_H
#define SHIFTLIB_SETUP_H

#include <stdbool.h>
#include "shiftlib/loop/loop.h"

bool sh_setup_on(void);
void sh_setup_command(void); /* a command of the application has begun it, or goes on with it */
void sh_setup_also(void);    /* it goes on with it, if it is on */
void sh_setup_end(void);     /* what waits is needed now: it is made by the background thread */

extern const struct sh_module sh_setup_module;

#endif
