/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/tenant.h"
#include "shiftlib/control/address.h"
#include "shiftlib/control/pkeys.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"

#define TENANT_PORT 1

static const char tenant_no_pkey[] = "the NIC of the standby lacks its P_Key";
static const char tenant_no_vlan[] = "no GID on its VLAN on the NIC of the standby";

static uint16_t tenant_pkey(const struct sh_nic *nic, uint16_t index)
{
	return index < nic->tenant.pkeys.n ? nic->tenant.pkeys.value[index] : 0;
}

struct sh_tenant sh_tenant_of(const struct sh_qp *qp)
{
	uint16_t index = qp->app.attr.pkey_index;

	return (struct sh_tenant){ .pkey = tenant_pkey(qp->ctx->nic, index),
				   .pkey_index = index,
				   .vlan = qp->gid.vlan,
				   .gid_kind = qp->gid.kind };
}

/* Tables that cannot be read leave index 0, which is the default partition's as a rule. */
static const char *tenant_find_pkey(const struct sh_tenant *tenant, const struct sh_nic *nic,
				    struct sh_tenant_place *place)
{
	int index = sh_pkeys_find(&nic->tenant.pkeys, tenant->pkey);

	if (!nic->tenant.pkeys.n && !tenant->pkey && !tenant->pkey_index)
		return NULL;
	if (index < 0)
		return tenant_no_pkey;
	place->pkey_index = (uint16_t)index;
	place->pkey = nic->tenant.pkeys.value[index];
	return NULL;
}

const char *sh_tenant_find(const struct sh_tenant *tenant, struct sh_nic *nic,
			   const struct sh_address *own, struct sh_tenant_place *place)
{
	*place = (struct sh_tenant_place){ .gid_index = own->gid_index, .vlan = own->vlan };
	memcpy(place->gid, own->gid, sizeof(place->gid));
	if (own->link_layer != IBV_LINK_LAYER_ETHERNET)
		return tenant_find_pkey(tenant, nic, place);
	if (tenant->vlan == own->vlan || sh.config.any_vlan)
		return NULL;
	if (sh_gid_on_vlan(sh.real, nic->ctx, TENANT_PORT, tenant->gid_kind, tenant->vlan,
			   &nic->tenant.vlan_gid))
		return tenant_no_vlan;
	place->gid_index = nic->tenant.vlan_gid.index;
	place->vlan = tenant->vlan;
	memcpy(place->gid, nic->tenant.vlan_gid.gid, sizeof(place->gid));
	return NULL;
}

/* A peer that cannot read its table of partition keys tells none: it takes the first entry. */
const char *sh_tenant_differ(const struct sc_address *own, const struct sc_address *peer)
{
	uint16_t pkey = peer->pkey ? peer->pkey : SH_PKEY_DEFAULT;

	if (own->pkey && !sh_pkeys_same(own->pkey, pkey))
		return "its peer's standby is in another partition";
	if (own->pkey && !sh_pkeys_speak(own->pkey, pkey))
		return "the NICs of the standby are both limited members of its partition";
	if (own->vlan != peer->vlan && !sh.config.any_vlan)
		return "its peer's standby is on another VLAN";
	return NULL;
}

const char *sh_tenant_doubt(const struct sh_qp *qp, const struct sh_nic *nic)
{
	struct sh_tenant tenant = sh_tenant_of(qp);
	struct sh_tenant_place place;

	if (nic->address.link_layer == IBV_LINK_LAYER_ETHERNET)
		return tenant.vlan == nic->address.vlan || sh.config.any_vlan ? NULL
									      : tenant_no_vlan;
	return tenant_find_pkey(&tenant, nic, &place);
}

bool sh_tenant_left(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	struct sh_tenant tenant = sh_tenant_of(qp);

	if (!carrier->qp || !carrier->epoch || !carrier->address.pkey)
		return false;
	return tenant_pkey(carrier->nic, carrier->pkey_index) != carrier->address.pkey ||
	       !sh_pkeys_same(tenant.pkey, carrier->address.pkey);
}
