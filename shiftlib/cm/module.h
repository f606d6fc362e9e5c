/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SHIFTLIB_CM_MODULE_H
#define SHIFTLIB_CM_MODULE_H

#include "shiftlib/loop/loop.h"

extern const struct sh_module sh_cm_module;

#endif
