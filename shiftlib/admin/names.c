/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Names for status and figures. */
#include "shiftlib/admin/names.h"
#include "shiftlib/conn/meet/intro.h"

const char *sh_nic_state_name(enum sh_nic_state state)
{
	static const char *const names[] = {
		[SH_NIC_CLOSED] = "closed",
		[SH_NIC_OPENING] = "opening",
		[SH_NIC_OPEN] = "open",
		[SH_NIC_FAILED] = "failed",
	};

	return names[state];
}

const char *sh_kv_state(void)
{
	if (!sh_intros.worker)
		return "not-used";
	return sh_intros.said ? "unreachable" : "ok";
}
