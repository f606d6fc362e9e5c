/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The mark by which the library's file tells its version to programs that do not load it, as
 * what(1).
 */
#ifndef SHIFTLIB_VERSION_H
#define SHIFTLIB_VERSION_H

#define SHIFT_VERSION_MARK "@(#)SHIFT "

/* SHIFT_VERSION_MARK, then "0.1.0 protocol 1.0": the versions of SHIFT and of its control plane. */
extern const char sh_version[];

#endif
