/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of the parts of a connection. */
#include <stddef.h>
#include "shiftlib/conn/part.h"

static const struct sh_conn_part *const no_parts[] = { NULL };

const struct sh_conn_part *const *sh_parts = no_parts;

void sh_parts_register(const struct sh_conn_part *const *parts)
{
	sh_parts = parts;
}
