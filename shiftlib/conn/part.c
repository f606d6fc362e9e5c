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

bool sh_parts_caps(const struct sh_qp *qp, struct ibv_qp_cap *cap)
{
	bool any = false;

	for (const struct sh_conn_part *const *part = sh_parts; *part; part++)
		if ((*part)->standby.caps)
			any |= (*part)->standby.caps(qp, cap);
	return any;
}
