/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The description of a NIC before it is opened: enough to choose which one stands in for which. */
#ifndef SHIFTLIB_BACKUP_NIC_H
#define SHIFTLIB_BACKUP_NIC_H

#include <stdbool.h>
#include <stdint.h>

struct backup_nic {
	const char *name;
	uint8_t link_layer; /* IBV_LINK_LAYER_*; 0: not known */
	bool foreign;	    /* no engine of ours serves it */
	bool tried;	    /* driver tried with SHIFT over plain verbs (docs/devices.md) */
	int numa;	    /* NUMA node; negative: not known */
	/* path from the root to the function, "pci0000:10/0000:10:00.0/0000:11:00.0" */
	char pci[160];
	char card[24];	/* the image GUID, which the ports of one card share */
	char guid[24];	/* the node GUID, its own */
	char model[24]; /* the device's model, such as MT4123 */
	/* vendor of its PCI function, such as 0x15b3; mlx5: whatever libmlx5 is for */
	char vendor[16];
	/* Each of the last five is empty where it is not known. */
};

/* Where a device sits and who it is: its name may be another one when it comes back. */
struct backup_place {
	char pci[160], guid[24];
};

/*
 * backup_nic_read() - ask sysfs, mounted at @root ("/sys"), about the device @name
 *
 * Nothing here changes when a port goes up or down or a cable is pulled: the same machine gives
 * the same answers. foreign is left false, for who knows the engines. @name must outlive @nic.
 * Any thread.
 */
void backup_nic_read(const char *root, const char *name, struct backup_nic *nic);
/* Notes that libmlx5 serves the NIC: a subfunction does not say itself whose it is. */
void backup_nic_is_mlx5(struct backup_nic *nic);
void backup_place_read(const char *root, const char *name, struct backup_place *place);

/*
 * backup_place_find() - which of @known sits at @place? Its number, or -1
 *
 * The one that agrees in both, PCI path and GUID. If there is none: one that agrees in the path
 * (another card in its slot, a virtual function made anew), or else in the GUID (the card in
 * another slot), unless the other half is that of a third. Nothing is known of an empty half.
 */
int backup_place_find(const struct backup_place *known, int n, const struct backup_place *place);

#endif
