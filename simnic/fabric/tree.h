/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Writes files and links of a host's tree (sysfs.c). An error is kept in the tree. */
#ifndef SIMNIC_FABRIC_TREE_H
#define SIMNIC_FABRIC_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct sn_tree {
	char base[512]; /* where relative paths start */
	bool replace;	/* programs read it meanwhile: the old file or the new one, never a half */
	int err;	/* first failure; later calls do nothing */
};

void sn_tree_parents(char *path); /* makes the folders above it */
void sn_tree_put(struct sn_tree *tree, const char *file, const char *format, ...);
void sn_tree_drop(const struct sn_tree *tree, const char *file);
void sn_tree_link(struct sn_tree *tree, const char *link, const char *target);
void sn_tree_guid(struct sn_tree *tree, const char *file, uint64_t guid);
void sn_tree_gid(struct sn_tree *tree, const char *file, const uint8_t gid[16]);

#endif
