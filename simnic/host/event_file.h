/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event files, as the kernel calls them: completion channels and the asynchronous events of a
 * context are read from them. Each is a socket pair: the application's end, and ours. The
 * context's lock held.
 */
#ifndef SIMNIC_HOST_EVENT_FILE_H
#define SIMNIC_HOST_EVENT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "simnic/fabric/list.h"

/* A program may have a channel for each of its completion queues. */
#define SN_EVENT_BUCKETS 512

LIST_HEAD(sn_event_files, sn_event_file);

struct sn_ctx;
struct sn_req;

struct sn_event_file {
	LIST_ENTRY(sn_event_file) link; /* a bucket of sn_ctx.event_files */
	bool async;
	int app_fd;	  /* the number that the application was given */
	int app_dup;	  /* the same socket under a number that the application cannot reuse */
	uint32_t numbers; /* number of fds under which the application has it */
	int dev_fd;
	uint64_t ino, st_dev; /* of the application's socket, which no other socket has meanwhile */
	uint32_t users;	      /* CQs and QPs that send their events here */
	/* Elements of unread events that could not go back into the socket: the NIC is gone. */
	uint64_t *lost;
	uint32_t n_lost;
};

/* An object's optional event file: the context's own, or none, when the attribute is absent. */
int sn_event_file_attr(const struct sn_req *req, uint16_t id, bool async,
		       struct sn_event_file **out);
void sn_event_file_put(struct sn_ctx *ctx, struct sn_event_file *file);
void sn_event_file_closed(struct sn_ctx *ctx, int fd); /* the application closes its end */
void sn_event_file_duplicated(struct sn_ctx *ctx, int fd);
void sn_event_files_free(struct sn_ctx *ctx);
/* Takes an object's unread events back; how many there were. */
uint32_t sn_event_file_take_back(struct sn_event_file *file, uint64_t element);

#endif
