/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Paths of the simulated host. */
#ifndef SIMNIC_HOST_PATH_H
#define SIMNIC_HOST_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* The file below the host's tree that stands for path, or path itself. */
const char *sn_path_map(const char *path, char *buf, size_t len);
/* "/dev/infiniband/uverbs3" -> 3 */
bool sn_path_uverbs(const char *path, unsigned int *minor);
/* "/dev/infiniband/umad3" -> 3 */
bool sn_path_umad(const char *path, unsigned int *minor);
/* "/dev/infiniband/rdma_cm", on a host of a fabric */
bool sn_path_rdma_cm(const char *path);

#endif
