/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* GIDs as people know them. Any thread. */
#ifndef SHIFTLIB_GID_H
#define SHIFTLIB_GID_H

#include <stdint.h>

#define SH_GID_TEXT 46 /* bytes of the longest one */

/* Writes "10.0.0.2" where the GID stands for that, else "fe80::2". */
void sh_gid_text(const uint8_t gid[16], char out[SH_GID_TEXT]);

#endif
