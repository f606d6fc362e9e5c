/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The properties of a NIC alone: its lives, its GID table, its network interface. */
#include <errno.h>
#include <string.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/nic.h"
#include "simnic/fabric/proc.h"
#include "simnic/fabric/sysfs.h"

/* First memory key index. Equal on every NIC; 0x100 itself is libmlx5's "no lkey" terminator. */
#define KEY_FIRST 0x200
#define KEY_STEP  0x10000
#define KEY_LIVES 0xff /* lives that 24 bits of key index have room for */
#define QPN_STEP  0x1357

/*
 * Begins another life. A driver that is loaded anew starts its numbers elsewhere: a peer's memory
 * of the last life is wrong.
 */
void sn_nic_incarnate(struct sn_nic *nic)
{
	uint32_t life = atomic_load(&nic->incarnation) + 1;

	atomic_store(&nic->next_qpn, SN_QPN_FIRST + life * QPN_STEP % (SN_QPN_MAX - SN_QPN_FIRST));
	atomic_store(&nic->next_key, KEY_FIRST + life % KEY_LIVES * KEY_STEP);
	atomic_store(&nic->cmd_free_ns, 0);
	atomic_store(&nic->removal.files, 0);
	atomic_store(&nic->incarnation, life);
}

void sn_nic_begin(struct sn_nic *nic)
{
	atomic_init(&nic->next_qpn, SN_QPN_FIRST);
	atomic_init(&nic->next_key, KEY_FIRST);
}

#define FILES_MAX 16 /* most files that are counted: a process may open and close for ever */

uint64_t sn_nic_turn_ns(const struct sn_nic *nic, uint32_t file)
{
	const struct sn_removal *removal = &nic->removal;
	uint32_t files = atomic_load(&removal->files);
	uint32_t before = atomic_load(&removal->backwards) ? files - 1 - file : file;

	before = before < FILES_MAX ? before : FILES_MAX;
	return atomic_load(&removal->since_ns) + atomic_load(&removal->each_ns) * (before + 1);
}

uint64_t sn_nic_removed_ns(const struct sn_nic *nic)
{
	uint32_t files = atomic_load(&nic->removal.files);
	uint64_t first, last;

	if (!files)
		return atomic_load(&nic->removal.since_ns);
	first = sn_nic_turn_ns(nic, 0);
	last = sn_nic_turn_ns(nic, files - 1);
	return first > last ? first : last;
}

bool sn_nic_leaving(const struct sn_nic *nic, uint64_t now_ns)
{
	return atomic_load(&nic->state) == SN_NIC_DISASSOCIATED &&
	       !atomic_load(&nic->removal.still) && now_ns < sn_nic_removed_ns(nic);
}

const char *sn_nic_state_name(enum sn_nic_state state)
{
	static const char *const names[] = {
		[SN_NIC_OK] = "ok",
		[SN_NIC_HANG] = "hang",
		[SN_NIC_INTERNAL_ERROR] = "internal-error",
		[SN_NIC_DISASSOCIATED] = "disassociated",
	};

	return state <= SN_NIC_DISASSOCIATED ? names[state] : "?";
}

int sn_nic_gid_index(const struct sn_nic *nic, enum sn_gid_type type)
{
	for (int i = 0; i < SN_MAX_GIDS; i++)
		if (atomic_load(&nic->gid_type[i]) == type && !sn_nic_vlan_at(nic, i))
			return i;
	return -ENOENT;
}

/* 10.rail.0.host+1, or fd00:: in front of that. */
void sn_nic_gid(struct sn_nic *nic, bool ipv6)
{
	uint8_t address[4] = { 10, nic->rail, 0, nic->host + 1 };

	memset(nic->gid, 0, sizeof(nic->gid));
	if (ipv6)
		nic->gid[0] = 0xfd;
	else
		memset(nic->gid + 10, 0xff, 2);
	memcpy(nic->gid + 12, address, sizeof(address));
}

void sn_nic_gids_changed(struct sn_fabric *fabric, struct sn_nic *nic)
{
	sn_sysfs_gids_refresh(fabric, nic);
	atomic_fetch_add(&nic->tenant.gid_gen, 1);
	atomic_fetch_add(&nic->event_gen, 1);
	sn_proc_wake_all(fabric);
}

int sn_nic_move_gid(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t index)
{
	int from = sn_nic_gid_index(nic, SN_GID_ROCE_V2);
	uint32_t there;

	if (from < 0)
		return -EOPNOTSUPP;
	if (index >= SN_MAX_GIDS)
		return -EINVAL;
	/* Twice for a moment, rather than nowhere. */
	there = atomic_exchange(&nic->gid_type[index], SN_GID_ROCE_V2);
	if ((uint32_t)from != index)
		atomic_store(&nic->gid_type[from], there);
	sn_nic_gids_changed(fabric, nic);
	return 0;
}

int sn_nic_set_gids(struct sn_fabric *fabric, struct sn_nic *nic, bool v1, bool v2, bool ipv6)
{
	if (nic->link_layer != SN_LINK_ETH)
		return -EOPNOTSUPP;
	sn_nic_gid(nic, ipv6);
	for (int i = 0; i < SN_MAX_GIDS; i++) {
		atomic_store(&nic->gid_type[i], SN_GID_NONE);
		atomic_store(&nic->tenant.gid_vlan[i], 0);
	}
	if (v2)
		atomic_store(&nic->gid_type[0], SN_GID_ROCE_V2);
	if (v1)
		atomic_store(&nic->gid_type[v2], SN_GID_ROCE_V1);
	sn_nic_gids_changed(fabric, nic);
	return 0;
}

int sn_nic_swap_names(struct sn_fabric *fabric, struct sn_nic *a, struct sn_nic *b)
{
	char name[sizeof(a->ibdev)];

	if (a == b || a->host != b->host || atomic_load(&a->state) != SN_NIC_DISASSOCIATED ||
	    atomic_load(&b->state) != SN_NIC_DISASSOCIATED)
		return -EBUSY;
	memcpy(name, a->ibdev, sizeof(name));
	memcpy(a->ibdev, b->ibdev, sizeof(name));
	memcpy(b->ibdev, name, sizeof(name));
	sn_sysfs_nic_renamed(fabric, a, b->ibdev);
	sn_sysfs_nic_renamed(fabric, b, a->ibdev);
	return 0;
}

static bool is_ifname(const char *name)
{
	size_t n = strlen(name);

	return n && n < SN_IFNAME && strcspn(name, "/ \t\n:") == n && name[0] != '.';
}

int sn_nic_set_netdev(struct sn_fabric *fabric, struct sn_nic *nic, const char *name)
{
	char old[SN_IFNAME];

	if (nic->link_layer != SN_LINK_ETH)
		return -EOPNOTSUPP;
	if (!is_ifname(name))
		return -EINVAL;
	memcpy(old, nic->netdev, sizeof(old));
	strcpy(nic->netdev, strcmp(name, "none") ? name : "");
	sn_sysfs_netdev_refresh(fabric, nic, old);
	return 0;
}
