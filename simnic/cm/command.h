/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The commands of rdma_user_cm.h, each about an id of a file. */
#ifndef SIMNIC_CM_COMMAND_H
#define SIMNIC_CM_COMMAND_H

#include <stddef.h>
#include <stdint.h>

struct sn_cm_file;
struct rdma_ucm_cmd_hdr;

/*
 * The file behind a file descriptor. -ENOENT: it is closed; -EINVAL: not one of rdma_cm; -EACCES:
 * opened before a fork. Lock held.
 */
int sn_cm_file_of(int fd, struct sn_cm_file **out);
/*
 * Runs a command, but GET_EVENT, which waits for an event without the lock. Returns 0 or -errno.
 * Lock held.
 */
int sn_cm_command(struct sn_cm_file *file, const struct rdma_ucm_cmd_hdr *hdr, const void *in);
/* Hands out the first event. -EAGAIN: there is none. Lock held. */
int sn_cm_get_event(struct sn_cm_file *file, const struct rdma_ucm_cmd_hdr *hdr, const void *in);

#endif
