/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/fabric/tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void sn_tree_parents(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
}

void sn_tree_put(struct sn_tree *tree, const char *file, const char *format, ...)
{
	char path[1024], fresh[1100];
	va_list args;
	FILE *f;

	if (tree->err)
		return;
	snprintf(path, sizeof(path), "%s/%s", tree->base, file);
	sn_tree_parents(path);
	snprintf(fresh, sizeof(fresh), tree->replace ? "%s.%d" : "%s", path, getpid());
	f = fopen(fresh, "we");
	if (!f) {
		tree->err = -errno;
		return;
	}
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	if (fputc('\n', f) == EOF || fclose(f))
		tree->err = -EIO;
	else if (tree->replace && rename(fresh, path))
		tree->err = -errno;
}

void sn_tree_drop(const struct sn_tree *tree, const char *file)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", tree->base, file);
	remove(path);
}

void sn_tree_link(struct sn_tree *tree, const char *link, const char *target)
{
	char path[1024], fresh[1100];

	if (tree->err)
		return;
	snprintf(path, sizeof(path), "%s/%s", tree->base, link);
	sn_tree_parents(path);
	/* Readers of a folder of devices pass over names with a dot in front. */
	snprintf(fresh, sizeof(fresh), "%s/.link.%d", tree->base, getpid());
	if (symlink(target, fresh) || rename(fresh, path))
		tree->err = -errno;
}

void sn_tree_guid(struct sn_tree *tree, const char *file, uint64_t guid)
{
	sn_tree_put(tree, file, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
		    (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
		    (unsigned)guid & 0xffff);
}

void sn_tree_gid(struct sn_tree *tree, const char *file, const uint8_t gid[16])
{
	char text[64], *p = text;

	for (int i = 0; i < 16; i += 2)
		p += sprintf(p, "%s%02x%02x", i ? ":" : "", gid[i], gid[i + 1]);
	sn_tree_put(tree, file, "%s", text);
}
