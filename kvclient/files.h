/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Files that only this user can read: an LMDB store's, and those of secrets. */
#ifndef KVCLIENT_FILES_H
#define KVCLIENT_FILES_H

#include <stddef.h>
#include <sys/types.h>

struct kv;

/*
 * kv_files_prepare_gate(), kv_files_prepare() - make sure that a store's files are there and ours
 *
 * The first makes the gate file; the second, called inside the gate, the lock file (its space
 * allocated) and the data file. All must be regular files of this user that nobody else can open,
 * in a directory where nobody else can exchange them. 0, or -errno with a sentence in the handle.
 */
int kv_files_prepare_gate(struct kv *kv, const char *path);
int kv_files_prepare(struct kv *kv, const char *path, size_t lock_bytes);

/* The user's own file on this machine, and its directory: made if needed, and checked. */
void kv_files_default_path(char *path, size_t cap);
int kv_files_default_make(struct kv *kv);

/*
 * kv_files_read_secret() - the first line of a file that only this user can read
 *
 * Returns its length without the end of the line, at least 1 and under @cap, or -errno with a
 * sentence in the handle: -EACCES for a file of somebody else or one that others may open.
 */
ssize_t kv_files_read_secret(struct kv *kv, const char *path, char *buf, size_t cap);

#endif
