/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>

#include "simnic/fabric/counters.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/mad.h"
#include "simnic/pci/bridge_count.h"
#include "simnic/pci/bridge_own.h"

uint64_t sn_bridge_counter(const struct sn_bridge *bridge, const char *file)
{
	int number = sn_counter_find(file);

	return number < 0 ? 0 : sn_counter_read(bridge->fabric, bridge->nic, (uint32_t)number);
}

bool sn_bridge_mad(const struct sn_bridge *bridge, uint8_t mad[256])
{
	uint8_t whole[SN_MAD_ANSWER_BYTES] = { 0 };

	memcpy(whole, mad, SN_MAD_BYTES);
	if (!sn_mad_answer(bridge->fabric, bridge->nic, bridge->nic->lid, whole))
		return false;
	memcpy(mad, whole, SN_MAD_BYTES);
	return true;
}
