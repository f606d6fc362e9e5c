/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The socket through which shiftctl asks and orders: a line with a request, one answer in JSON, and
 * the connection closes. The background thread serves it between its other work, in small pieces,
 * and never waits for a client.
 *
 * Requests: version | status | drain DEVICE | undrain DEVICE | users DEVICE
 */
#ifndef SHIFTLIB_ADMIN_H
#define SHIFTLIB_ADMIN_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/json.h"

#define ADMIN_REQUEST_MAX 128 /* bytes of a request with its newline */
#define ADMIN_DEVICE_MAX  64

enum admin_word {
	ADMIN_VERSION,
	ADMIN_STATUS,
	ADMIN_DRAIN,
	ADMIN_UNDRAIN,
	ADMIN_USERS,
};

struct admin_request {
	enum admin_word word;
	char device[ADMIN_DEVICE_MAX]; /* "" where the word takes none */
};

/* admin_parse.c: a line without its newline. 0; -EINVAL with a clause that says what is wrong. */
int admin_parse(const char *line, struct admin_request *request, const char **why);

/* admin_answer.c; lock held. */
struct admin_status; /* what the connections were at one moment */
/* The answer, or its beginning: then *rest is set, and the rest comes by admin_status_more(). */
void admin_answer(const struct admin_request *request, struct sh_json *json,
		  struct admin_status **rest);
/* A piece more; false: that was the last one. Needs no lock. */
bool admin_status_more(struct admin_status *rest, struct sh_json *json);
void admin_status_free(struct admin_status *rest);

/* admin.c; lock held. The first makes the directory and listens; without either the job runs on. */
void sh_admin_start(void);
void sh_admin_stop(void);
void sh_admin_after_fork(void); /* in the child: its parent's sockets are not its own */
uint64_t sh_admin_next_timer(void);
void sh_admin_timer(uint64_t now);

#endif
