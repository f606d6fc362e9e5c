/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Processes that use an RDMA device past SHIFT: the kernel shows that they have its file open
 * (/dev/infiniband/uverbs*), and SHIFT has no context for that, or is not in the process at all.
 * Seen are the processes whose open files this user may read; root sees all.
 */
#ifndef TOOLS_REACH_H
#define TOOLS_REACH_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#define REACH_DEVICES 16u /* devices of a process that are told of */

struct reach_device {
	unsigned node;	 /* number in the file's name, uverbs0 */
	char name[64];	 /* name of the device, mlx5_0; "" if it is not known */
	unsigned opened; /* number of times that the process has the file open, not by its parent */
};

struct reach_process {
	pid_t pid; /* its number here */
	unsigned n;
	struct reach_device device[REACH_DEVICES];
	char command[96];
	char why[160]; /* a clause: why SHIFT does not reach it */
};

struct reach {
	struct reach_process *all; /* by rising number */
	unsigned n;
};

/*
 * Finds such processes. @sure: what is found is looked at once more, a moment later, as a program
 * that is just opening its device has no context of SHIFT's yet. 0 or -ENOMEM; reach_free() in
 * either case.
 */
int reach_find(bool sure, struct reach *out);
void reach_free(struct reach *reach);

/* True if the process has the device open past SHIFT. device: its name. */
bool reach_uses(const struct reach_process *process, const char *device);

/* Returns the processes as an array of objects; NULL: no memory. The caller's to release. */
json_t *reach_json(const struct reach *reach);

#endif
