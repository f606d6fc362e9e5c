/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The answer to `events`: what is kept behind a number, a few at a time. */
#include <stdlib.h>
#include "shiftlib/admin/admin.h"
#include "shiftlib/conn/conn.h"

#define EVENTS_PIECE 16

struct events_rest {
	struct admin_rest rest; /* first */
	uint64_t told, last;	/* numbers */
	bool any;
};

/* Ends with the last event of the time of the request: later ones are the next answer's. */
static bool events_more(struct admin_rest *rest, struct sh_json *json) SH_LOCKED
{
	struct events_rest *events = (struct events_rest *)rest;
	const struct sh_event *event;
	int i;

	for (i = 0; i < EVENTS_PIECE && events->told < events->last; i++) {
		event = sh_event_after(events->told);
		if (!event)
			break;
		events->told = event->number;
		if (event->number > events->last)
			break; /* all of them were overwritten meanwhile */
		sh_json_print(json, "%s\n", events->any ? "," : "");
		sh_event_json(json, event);
		events->any = true;
	}
	if (i == EVENTS_PIECE && events->told < events->last)
		return true;
	sh_json_print(json, "]}\n");
	return false;
}

struct admin_rest *admin_answer_events(const struct admin_request *request, struct sh_json *json)
{
	struct events_rest *events = malloc(sizeof(*events));
	char command[ADMIN_COMMAND];

	if (!events) {
		admin_answer_error(json, "out of memory");
		return NULL;
	}
	admin_command(command);
	*events = (struct events_rest){ .rest = { events_more },
					.told = request->number,
					.last = sh_event_last() };
	admin_answer_begin(json);
	sh_json_print(json, ", \"instance\": \"%016llx\", \"command\": ",
		      (unsigned long long)sh.instance);
	sh_json_string(json, command);
	sh_json_print(json, ", \"last\": %llu, \"events\": [", (unsigned long long)events->last);
	return &events->rest;
}
