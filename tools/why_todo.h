/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What shiftctl why tells its reader to do: what events have opened and no later one has closed. */
#ifndef TOOLS_WHY_TODO_H
#define TOOLS_WHY_TODO_H

#include <jansson.h>
#include <stdbool.h>
#include "tools/why_words.h"

#define WHY_OPEN_MAX 32 /* what is more is not remembered */

/* Something that is not well yet. */
struct why_open {
	enum why_group group;
	char nic[64];
	char todo[240];
	bool peer; /* all that is known is that the other end moved */
	json_int_t qps;
};

struct why_todo {
	struct why_open open[WHY_OPEN_MAX];
	unsigned n;
	bool lost;	 /* a program got errors that another NIC could not prevent */
	bool drained;	 /* a NIC of this host, by its own operator */
	char now[240];	 /* by the reasons of queue pairs, if no event says more */
	char stays[240]; /* before a drained NIC can be taken away */
};

/* True if an operator of the other host has drained the NIC there; drained: one has here. */
bool why_is_peers_drain(const struct why_kind *kind, const json_t *event, bool drained);
void why_todo_event(struct why_todo *todo, const struct why_kind *kind, const json_t *event);
/* Note a queue pair's reason as it is now: stalled, or not protected. */
void why_todo_reason(struct why_todo *todo, const char *reason, bool stalled);
/* Note why connections cannot leave a NIC that was drained. */
void why_todo_stays(struct why_todo *todo, const char *reason);
void why_todo_print(const struct why_todo *todo);

#endif
