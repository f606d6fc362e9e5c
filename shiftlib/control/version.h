/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The mark by which the library's file tells its version to programs that do not load it, as
 * what(1).
 */
#ifndef SHIFTLIB_VERSION_H
#define SHIFTLIB_VERSION_H

#include <stdint.h>
#include "shiftlib/base/locked.h"

#define SHIFT_VERSION_MARK "@(#)SHIFT "

/* SHIFT_VERSION_MARK, then "1.0.0 protocol 4": of SHIFT, and of what two ends tell each other. */
extern const char sh_version[];

/* Why a peer with that protocol is refused. A constant. */
const char *sh_version_refusal(uint8_t protocol) SH_LOCKED;

#endif
