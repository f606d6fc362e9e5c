/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The address of a port: its state, its LID, and the GID that is used. */
#include "shiftlib/control/address.h"
#include "shiftlib/base/util.h"
#include "shiftlib/control/vlan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum gid_type { GID_TYPE_UNKNOWN, GID_TYPE_ROCE_V1, GID_TYPE_ROCE_V2 };

/* Reads the kernel's own words: libibverbs has no calls for them that all its versions share. */
static bool gid_attr_read(const struct ibv_context *context, uint8_t port, int index,
			  const char *what, char *text, size_t size)
{
	char path[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/%s/%d", context->device->ibdev_path,
		 port, what, index);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return *text;
}

static enum gid_type gid_type_read(const struct ibv_context *context, uint8_t port, int index)
{
	char text[32];

	if (!gid_attr_read(context, port, index, "types", text, sizeof(text)))
		return GID_TYPE_UNKNOWN;
	return strncmp(text, "RoCE v2", 7) ? GID_TYPE_ROCE_V1 : GID_TYPE_ROCE_V2;
}

uint16_t sh_gid_vlan(const struct ibv_context *context, uint8_t port, int index)
{
	char name[64];

	return gid_attr_read(context, port, index, "ndevs", name, sizeof(name))
		       ? sh_vlan_of("", name)
		       : 0;
}

static bool gid_is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

static bool gid_is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static uint8_t gid_kind_of(enum gid_type type, const union ibv_gid *gid)
{
	switch (type) {
	case GID_TYPE_ROCE_V2: return gid_is_ipv4(gid) ? SH_GID_V2_IPV4 : SH_GID_V2_IPV6;
	case GID_TYPE_ROCE_V1: return gid_is_ipv4(gid) ? SH_GID_V1_IPV4 : SH_GID_V1_IPV6;
	case GID_TYPE_UNKNOWN: break;
	}
	return 0;
}

uint8_t sh_gid_kind(const struct ibv_context *context, uint8_t port, int index,
		    const union ibv_gid *gid)
{
	return gid_kind_of(gid_type_read(context, port, index), gid);
}

const char *sh_gid_missing(uint8_t kind, const struct sh_address *address)
{
	if (!kind || !address->gid_kinds || address->gid_kinds & kind)
		return NULL;
	switch ((enum sh_gid_kind)kind) {
	case SH_GID_V1_IPV4:
		return "no GID of type RoCE v1 with an IPv4 address on the NIC of the standby";
	case SH_GID_V1_IPV6:
		return "no GID of type RoCE v1 with an IPv6 address on the NIC of the standby";
	case SH_GID_V2_IPV4:
		return "no GID of type RoCE v2 with an IPv4 address on the NIC of the standby";
	case SH_GID_V2_IPV6:
		return "no GID of type RoCE v2 with an IPv6 address on the NIC of the standby";
	case SH_GID_ALL: break;
	}
	return NULL;
}

#define GID_RANK_BEST 5

/*
 * Ranks a GID. RoCE v2 is routed and what clusters use; RoCE v1 works only within a segment, and
 * both ends must agree. A link-local GID may be the same host's name on several segments. 0: not
 * usable.
 */
static int gid_rank(enum gid_type type, const union ibv_gid *gid)
{
	static const union ibv_gid none;

	if (!memcmp(gid, &none, sizeof(none)))
		return 0;
	switch (type) {
	case GID_TYPE_ROCE_V2: return gid_is_ipv4(gid) ? 5 : gid_is_link_local(gid) ? 3 : 4;
	case GID_TYPE_UNKNOWN: return 2;
	case GID_TYPE_ROCE_V1: return 1;
	}
	return 0;
}

/* Chooses the GID that was used before, wherever it is now; else the one of highest rank. */
static int gid_choose(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		      int table_length, const union ibv_gid *before, struct sh_address *address)
{
	union ibv_gid gid, best_gid = { 0 };
	int index, rank, best = 0, best_index = 0;
	enum gid_type type;

	for (index = 0; index < table_length && index <= UINT8_MAX; index++) {
		if (best == GID_RANK_BEST && address->gid_kinds == SH_GID_ALL)
			break;
		if (real->query_gid(context, port, index, &gid))
			continue;
		type = gid_type_read(context, port, index);
		rank = gid_rank(type, &gid);
		if (rank)
			address->gid_kinds |= gid_kind_of(type, &gid);
		if (rank > 1 && before && !memcmp(&gid, before, sizeof(gid)))
			rank = GID_RANK_BEST;
		else if (rank == GID_RANK_BEST && before)
			rank--;
		if (rank <= best)
			continue;
		best = rank;
		best_index = index;
		best_gid = gid;
		address->gid_kind = gid_kind_of(type, &gid);
	}
	if (!best)
		return -EADDRNOTAVAIL;
	address->gid_index = (uint8_t)best_index;
	address->vlan = sh_gid_vlan(context, port, best_index);
	memcpy(address->gid, best_gid.raw, sizeof(address->gid));
	return 0;
}

static bool gid_still_there(const struct shift_real *real, struct ibv_context *context,
			    uint8_t port, uint8_t kind, uint16_t vlan,
			    const struct sh_gid_place *place)
{
	union ibv_gid gid;

	return place->kind && (!kind || place->kind == kind) && place->vlan == vlan &&
	       !real->query_gid(context, port, place->index, &gid) &&
	       !memcmp(gid.raw, place->gid, sizeof(place->gid)) &&
	       sh_gid_kind(context, port, place->index, &gid) == place->kind &&
	       sh_gid_vlan(context, port, place->index) == vlan;
}

int sh_gid_on_vlan(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		   uint8_t kind, uint16_t vlan, struct sh_gid_place *place)
{
	struct ibv_port_attr attr;
	enum gid_type type;
	union ibv_gid gid;
	int index, rank, best = 0;

	if (gid_still_there(real, context, port, kind, vlan, place))
		return 0;
	if (sh_port_query(real, context, port, &attr))
		return -EADDRNOTAVAIL;
	for (index = 0; index < attr.gid_tbl_len && index <= UINT8_MAX; index++) {
		if (real->query_gid(context, port, index, &gid))
			continue;
		type = gid_type_read(context, port, index);
		rank = gid_rank(type, &gid);
		if (rank <= best || (kind && gid_kind_of(type, &gid) != kind) ||
		    sh_gid_vlan(context, port, index) != vlan)
			continue;
		best = rank;
		*place = (struct sh_gid_place){ .index = (uint8_t)index,
						.kind = gid_kind_of(type, &gid),
						.vlan = vlan };
		memcpy(place->gid, gid.raw, sizeof(place->gid));
	}
	return best ? 0 : -EADDRNOTAVAIL;
}

/* Uses the provider's own call if there is one: only that tells the flags. */
int sh_port_query(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		  struct ibv_port_attr *attr)
{
	struct verbs_context *verbs = verbs_get_ctx_op(context, query_port);
	int ret;

	memset(attr, 0, sizeof(*attr));
	if (verbs)
		ret = verbs->query_port(context, port, attr, sizeof(*attr));
	else
		ret = real->query_port(context, port, (struct _compat_ibv_port_attr *)attr);
	return ret < 0 ? sh_errno_or(EIO) : -ret;
}

static int address_query_gid(const struct shift_real *real, struct ibv_context *context,
			     uint8_t port, const struct ibv_port_attr *attr,
			     const struct sh_address *before, struct sh_address *address)
{
	union ibv_gid gid;

	if (address->link_layer == IBV_LINK_LAYER_ETHERNET) {
		if (before)
			memcpy(gid.raw, before->gid, sizeof(gid.raw));
		return gid_choose(real, context, port, attr->gid_tbl_len, before ? &gid : NULL,
				  address);
	}
	if (real->query_gid(context, port, 0, &gid))
		return sh_errno_or(EIO);
	memcpy(address->gid, gid.raw, sizeof(address->gid));
	address->gid_index = 0;
	return 0;
}

static uint8_t link_layer_of(const struct ibv_port_attr *attr)
{
	return attr->link_layer == IBV_LINK_LAYER_UNSPECIFIED ? IBV_LINK_LAYER_INFINIBAND
							      : attr->link_layer;
}

/* Decodes LinkSpeedActive and LinkWidthActive of IBA PortInfo: one bit of each is set. */
static uint32_t address_speed(const struct ibv_port_attr *attr)
{
	static const uint32_t lanes_mbps[] = {
		2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000
	};
	static const uint32_t lanes[] = { 1, 4, 8, 12, 2 };
	int speed = __builtin_ffs(attr->active_speed), width = __builtin_ffs(attr->active_width);

	if (speed < 1 || width < 1 || width > 5)
		return 0;
	return lanes_mbps[speed - 1] * lanes[width - 1];
}

int sh_address_query(const struct shift_real *real, struct ibv_context *context, uint8_t port,
		     const struct sh_address *before, struct sh_address *address,
		     bool *grh_required)
{
	struct ibv_port_attr attr;
	int ret = sh_port_query(real, context, port, &attr);

	if (ret)
		return ret;
	memset(address, 0, sizeof(*address));
	address->lid = attr.lid;
	address->link_layer = link_layer_of(&attr);
	address->mtu = (uint8_t)attr.active_mtu;
	address->active = attr.state == IBV_PORT_ACTIVE || attr.state == IBV_PORT_ACTIVE_DEFER;
	address->speed = address->active ? address_speed(&attr) : 0;
	*grh_required = attr.flags & IBV_QPF_GRH_REQUIRED;
	return address_query_gid(real, context, port, &attr, before, address);
}

static size_t mtu_bytes(uint8_t mtu)
{
	if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
		return 256;
	return (size_t)128 << mtu;
}

size_t sh_address_payload_max(const struct sh_address *local, const struct sh_address *peer)
{
	return mtu_bytes(local->mtu < peer->mtu ? local->mtu : peer->mtu);
}
