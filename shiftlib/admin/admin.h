/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The socket through which shiftctl asks and orders: a line with a request, one answer in JSON, and
 * the connection closes. The background thread serves it between its other work, in small pieces,
 * and never waits for a client.
 *
 * Requests: version | status | open | drain DEVICE | undrain DEVICE | users DEVICE |
 *	events NUMBER | metrics | farewell (metrics too, when the process ends; the connection
 *	waits for it)
 */
#ifndef SHIFTLIB_ADMIN_H
#define SHIFTLIB_ADMIN_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/json.h"
#include "shiftlib/loop/loop.h"

#define ADMIN_REQUEST_MAX 128 /* bytes of a request with its newline */
#define ADMIN_DEVICE_MAX  64
#define ADMIN_COMMAND	  256

enum admin_word {
	ADMIN_VERSION,
	ADMIN_STATUS,
	ADMIN_OPEN,
	ADMIN_DRAIN,
	ADMIN_UNDRAIN,
	ADMIN_USERS,
	ADMIN_EVENTS,
	ADMIN_METRICS,
	ADMIN_FAREWELL,
};

struct admin_request {
	enum admin_word word;
	char device[ADMIN_DEVICE_MAX]; /* "" where the word takes none */
	uint64_t number;	       /* events: those behind it; 0 where the word takes none */
};

/* admin_parse.c: a line without its newline. 0; -EINVAL with a clause that says what is wrong. */
int admin_parse(const char *line, struct admin_request *request, const char **why);

/*
 * The rest of an answer, in one piece of memory for free(). more() writes a piece, lock held, and
 * returns false at the last one.
 */
struct admin_rest {
	bool (*more)(struct admin_rest *rest, struct sh_json *json);
};

/* admin_answer.c. The answer, or its beginning: then *rest is set. */
void admin_answer(const struct admin_request *request, struct sh_json *json,
		  struct admin_rest **rest) SH_LOCKED;
/* Writes the command as ps shows it: arguments with blanks between them. */
void admin_command(char out[ADMIN_COMMAND]);
/* Begins the object with "format" and "pid", and leaves it open. */
void admin_answer_begin(struct sh_json *json);
void admin_answer_error(struct sh_json *json, const char *why);

/* Datagrams of the control plane, by what was wrong with them. */
void admin_refused(struct sh_json *json);
void admin_told(struct sh_json *json);
/* "open": the device nodes (uverbs0) with a context that SHIFT knows, the program's or its own. */
void admin_open(struct sh_json *json) SH_LOCKED;
/*
 * "foreign": the contexts of devices that SHIFT does not serve, with reasons; a device that the
 * program has opened twice is there twice.
 */
void admin_foreign(struct sh_json *json) SH_LOCKED;
/* "direct": contexts where the program has made queue pairs by DEVX, and how many so far. */
void admin_direct(struct sh_json *json) SH_LOCKED;

/* admin_metrics.c */
void admin_answer_metrics(struct sh_json *json) SH_LOCKED;

/* admin_events.c */
struct admin_rest *admin_answer_events(const struct admin_request *request,
				       struct sh_json *json) SH_LOCKED;

/* socket.c */
void sh_admin_stop(void) SH_LOCKED;

extern const struct sh_module sh_admin_module;

#endif
