/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How far a QP is protected. */
#ifndef SHIFTLIB_LEVEL_H
#define SHIFTLIB_LEVEL_H

enum sh_level { SH_FOREIGN, SH_DRIVEN, SH_PROTECTED };

#endif
