/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/control/version.h"
#include "shiftlib/control/wire.h"

#define TEXT_OF(number) #number
#define TEXT(number)	TEXT_OF(number)

const char sh_version[] =
	SHIFT_VERSION_MARK SHIFT_VERSION " protocol " TEXT(SH_WIRE_MAJOR) "." TEXT(SH_WIRE_MINOR);
