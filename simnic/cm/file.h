/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Files: an opened /dev/infiniband/rdma_cm with its unread events. A socket pair stands behind the
 * program's file descriptor: a byte lies in it while there is an event, so that it polls and blocks
 * as the kernel's does. Lock held.
 */
#ifndef SIMNIC_CM_FILE_H
#define SIMNIC_CM_FILE_H

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stdint.h>

struct sn_cm_id;

/* Events, numbered as librdmacm's enum rdma_cm_event_type. */
enum {
	SN_CM_EVENT_ADDR_RESOLVED,
	SN_CM_EVENT_ADDR_ERROR,
	SN_CM_EVENT_ROUTE_RESOLVED,
	SN_CM_EVENT_ROUTE_ERROR,
	SN_CM_EVENT_CONNECT_REQUEST,
	SN_CM_EVENT_CONNECT_RESPONSE,
	SN_CM_EVENT_CONNECT_ERROR,
	SN_CM_EVENT_UNREACHABLE,
	SN_CM_EVENT_REJECTED,
	SN_CM_EVENT_ESTABLISHED,
	SN_CM_EVENT_DISCONNECTED,
	SN_CM_EVENT_DEVICE_REMOVAL,
	SN_CM_EVENT_TIMEWAIT_EXIT = 15,
	SN_CM_EVENT_USER = 18, /* these two a program tells itself */
	SN_CM_EVENT_INTERNAL,
};

struct sn_cm_event {
	struct sn_cm_event *next;
	struct sn_cm_id *of;	  /* the id that it counts for */
	struct sn_cm_id *request; /* the id that comes with it; NULL: none */
	struct rdma_ucm_event_resp resp;
};

struct sn_cm_file {
	int app_fd;	  /* the number that the program was given */
	int app_dup;	  /* the same socket under a number that the program cannot reuse */
	int dev_fd;	  /* our end */
	uint64_t cookie;  /* the number that the kernel gave the program's end */
	uint32_t numbers; /* number of file descriptors under which the program has it */
	uint32_t users;	  /* commands in progress */
	uint32_t n_bytes, n_events;
	struct sn_cm_event *first, *last;
};

int sn_cm_file_make(struct sn_cm_file **out);
void sn_cm_file_free(struct sn_cm_file *file); /* no id is left */
/*
 * Appends an event of the id. Returns what the program will read, to be completed before the lock
 * is given up. An event of an id that the program has not accepted is dropped.
 */
struct rdma_ucm_event_resp *sn_cm_tell(struct sn_cm_id *id, uint32_t event, int32_t status);
/* A request to connect to @listener. -ENOMEM: no memory. */
int sn_cm_tell_request(struct sn_cm_id *listener, struct sn_cm_id *request,
		       struct rdma_ucm_event_resp **out);
struct sn_cm_event *sn_cm_file_first(struct sn_cm_file *file); /* takes it; NULL: none */
/* Takes the first event that counts for the id, or that it came with. NULL: none. */
struct sn_cm_event *sn_cm_file_take(struct sn_cm_file *file, const struct sn_cm_id *id);
void sn_cm_file_move(struct sn_cm_id *id, struct sn_cm_file *to); /* an id with its events */
void sn_cm_event_free(struct sn_cm_event *event);
void sn_cm_files_forget(void); /* called in the child of a fork */

#endif
