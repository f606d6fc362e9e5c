/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel that is played here, named by its release: programs ask for it, as drivers differ
 * between releases. The answers of a dead NIC are those since Linux 5.17; see also struct
 * sn_removal.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "simnic/fabric/fabric.h"
#include "simnic/host/ctx.h"
#include "simnic/host/real.h"

#define RELEASE	    "6.8.0-simnic"
#define RELEASE_OLD "5.4.0-simnic"

static bool is_old(const struct sn_fabric *fabric, uint32_t host)
{
	for (uint32_t i = 0; i < fabric->n_nics; i++)
		if (atomic_load(&fabric->nic[host][i].removal.fatal_first))
			return true;
	return false;
}

__attribute__((visibility("default"))) int uname(struct utsname *name)
{
	int ret = sn_real()->uname(name);

	if (ret || sn_host_init())
		return ret;
	snprintf(name->release, sizeof(name->release), "%s",
		 is_old(sn_host_fabric(), sn_host_number()) ? RELEASE_OLD : RELEASE);
	return 0;
}
