/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shiftlib/backup/nic.h"

#define BACKUP_NIC_PORT "ports/1"

static void backup_nic_file(const char *root, const char *name, const char *file, char *text,
			    size_t len)
{
	char path[PATH_MAX];
	FILE *f;

	text[0] = '\0';
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/%s", root, name, file);
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(text, (int)len, f))
		text[0] = '\0';
	fclose(f);
	text[strcspn(text, "\n")] = '\0';
}

static uint8_t backup_nic_link_layer(const char *root, const char *name)
{
	char text[32];

	backup_nic_file(root, name, BACKUP_NIC_PORT "/link_layer", text, sizeof(text));
	if (!strncmp(text, "Ethernet", 8))
		return IBV_LINK_LAYER_ETHERNET;
	return strncmp(text, "InfiniBand", 10) ? 0 : IBV_LINK_LAYER_INFINIBAND;
}

/* The class link leads to .../devices/pci0000:10/0000:10:00.0/0000:11:00.0/infiniband/mlx5_0. */
static void backup_nic_pci(const char *root, const char *name, char *pci, size_t len)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *begin, *end;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s", root, name);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	begin = strstr(target, "/pci");
	end = begin ? strstr(begin, "/infiniband/") : NULL;
	pci[0] = '\0';
	if (end && (size_t)(end - begin) <= len)
		snprintf(pci, len, "%.*s", (int)(end - begin - 1), begin + 1);
}

static int backup_nic_numa(const char *root, const char *name)
{
	char text[16], *end;
	long node;

	backup_nic_file(root, name, "device/numa_node", text, sizeof(text));
	node = strtol(text, &end, 10);
	return end == text || node < 0 || node > INT_MAX ? -1 : (int)node;
}

/* Some virtual functions have none, which is told as zeros. */
static void backup_nic_guid(const char *root, const char *name, const char *file, char *text,
			    size_t len)
{
	backup_nic_file(root, name, file, text, len);
	if (!strcmp(text, "0000:0000:0000:0000"))
		text[0] = '\0';
}

void backup_place_read(const char *root, const char *name, struct backup_place *place)
{
	backup_nic_pci(root, name, place->pci, sizeof(place->pci));
	backup_nic_guid(root, name, "node_guid", place->guid, sizeof(place->guid));
}

static bool backup_same(const char *a, const char *b)
{
	return *a && !strcmp(a, b);
}

int backup_place_find(const struct backup_place *known, int n, const struct backup_place *place)
{
	int by_pci = -1, by_guid = -1, i;

	for (i = 0; i < n; i++) {
		if (backup_same(place->pci, known[i].pci))
			by_pci = i;
		if (backup_same(place->guid, known[i].guid))
			by_guid = i;
		if (by_pci == i && by_guid == i)
			return i;
	}
	return by_pci < 0 || by_guid < 0 ? by_pci + by_guid + 1 : -1;
}

/* Soft-RoCE alone says on which interface it is. */
static bool backup_nic_is_rxe(const char *root, const char *name)
{
	char parent[32];

	backup_nic_file(root, name, "parent", parent, sizeof(parent));
	return *parent;
}

void backup_nic_is_mlx5(struct backup_nic *nic)
{
	snprintf(nic->vendor, sizeof(nic->vendor), "mlx5");
	nic->tried = true;
}

void backup_nic_read(const char *root, const char *name, struct backup_nic *nic)
{
	*nic = (struct backup_nic){ .name = name };
	nic->link_layer = backup_nic_link_layer(root, name);
	nic->tried = backup_nic_is_rxe(root, name);
	nic->numa = backup_nic_numa(root, name);
	backup_nic_pci(root, name, nic->pci, sizeof(nic->pci));
	backup_nic_guid(root, name, "sys_image_guid", nic->card, sizeof(nic->card));
	backup_nic_guid(root, name, "node_guid", nic->guid, sizeof(nic->guid));
	backup_nic_file(root, name, "device/vendor", nic->vendor, sizeof(nic->vendor));
	backup_nic_file(root, name, "hca_type", nic->model, sizeof(nic->model));
}
