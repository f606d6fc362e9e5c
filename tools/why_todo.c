/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdio.h>
#include <string.h>
#include "tools/ctl_client.h"
#include "tools/why_todo.h"

#define UNKNOWN_REASON "search the page docs/troubleshooting.md for that reason"

/* ---- events --------------------------------------------------------------------------------- */

static void todo_close(struct why_todo *todo, enum why_group group, const char *nic)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < todo->n; i++) {
		const struct why_open *open = &todo->open[i];

		if (open->group == group && (!*nic || !strcmp(open->nic, nic)))
			continue;
		if (kept != i)
			todo->open[kept] = *open;
		kept++;
	}
	todo->n = kept;
}

static const struct why_open *todo_find(const struct why_todo *todo, enum why_group group,
					const char *nic)
{
	for (unsigned i = 0; i < todo->n; i++)
		if (todo->open[i].group == group && !strcmp(todo->open[i].nic, nic))
			return &todo->open[i];
	return NULL;
}

bool why_is_peers_drain(const struct why_kind *kind, const json_t *event, bool drained)
{
	return kind->group == WHY_MOVE && kind->opens && !drained &&
	       !strcmp(ctl_text(event, "cause"), "drain");
}

/* True if the other end moved first, and this one had no answers over that path either. */
static bool todo_is_seen_here(const struct why_kind *kind, const json_t *event)
{
	return kind->group == WHY_MOVE && !strcmp(ctl_text(event, "cause"), "peer") &&
	       ctl_int(event, "detect_ns");
}

/* What a reader does about an event; an empty text: nothing. */
static void todo_text(const struct why_todo *todo, const struct why_kind *kind, const json_t *event,
		      char *out, size_t size)
{
	const struct why_cause *cause = why_cause(kind, ctl_text(event, "cause"));
	const char *remedy = why_remedy(ctl_text(event, "why"));
	const char *peer = ctl_text(event, "peer_gid");
	bool other;

	if (!remedy || !*ctl_text(event, "why"))
		remedy = cause && cause->todo ? cause->todo : "";
	/* the orders of the other host's operator reach this end as an ordered move */
	if (why_is_peers_drain(kind, event, todo->drained))
		remedy = why_cause(kind, "peer")->todo;
	other = strstr(remedy, "other host") && *peer;
	/* what this end has seen, too, is not in the other one's port alone */
	snprintf(out, size, "%s%s%s%s%s", remedy, other ? " (that of " : "",
		 other ? ctl_address(peer) : "", other ? ")" : "",
		 todo_is_seen_here(kind, event) ? "; if it blames no NIC of its own, check the "
						  "NICs of both ends, and the switch between them"
						: "");
}

static void todo_open(struct why_todo *todo, const struct why_kind *kind, const json_t *event)
{
	struct why_open *open;

	todo_close(todo, kind->group, ctl_text(event, "from"));
	if (todo->n == WHY_OPEN_MAX)
		return;
	open = &todo->open[todo->n];
	todo_text(todo, kind, event, open->todo, sizeof(open->todo));
	if (!*open->todo)
		return;
	open->group = kind->group;
	open->qps = ctl_int(event, "qps");
	open->peer = kind->group == WHY_MOVE && strstr(open->todo, "shiftctl why");
	snprintf(open->nic, sizeof(open->nic), "%s", ctl_text(event, "from"));
	todo->n++;
}

/* Connections that stood still on a NIC have left it. */
static void todo_leave(struct why_todo *todo, const json_t *event)
{
	const char *nic = ctl_text(event, "from");
	const struct why_open *stall = todo_find(todo, WHY_STALL, nic);

	if (stall && stall->qps <= ctl_int(event, "qps"))
		todo_close(todo, WHY_STALL, nic);
}

void why_todo_event(struct why_todo *todo, const struct why_kind *kind, const json_t *event)
{
	const char *nic = ctl_text(event, "from");

	if (kind->group == WHY_NONE)
		return;
	todo->lost |= !strcmp(kind->kind, "failed");
	if (kind->group == WHY_DRAIN)
		todo->drained = kind->opens;
	if (kind->group == WHY_LOST) /* it waits no more */
		todo_close(todo, WHY_STALL, nic);
	if (kind->group == WHY_MOVE) {
		todo_close(todo, WHY_MOVE, ctl_text(event, "to")); /* it is there again */
		todo_leave(todo, event);
	}
	if (kind->opens)
		todo_open(todo, kind, event);
	else if (kind->group != WHY_MOVE)
		todo_close(todo, kind->group, nic);
}

/* ---- what is now ---------------------------------------------------------------------------- */

void why_todo_reason(struct why_todo *todo, const char *reason, bool stalled)
{
	const char *remedy = why_remedy(reason);

	if (!remedy)
		remedy = UNKNOWN_REASON;
	if (*remedy && (stalled || !*todo->now))
		snprintf(todo->now, sizeof(todo->now), "%s", remedy);
}

void why_todo_stays(struct why_todo *todo, const char *reason)
{
	const char *remedy = why_remedy(reason);

	snprintf(todo->stays, sizeof(todo->stays), "%s",
		 remedy && *remedy ? remedy : "bring a backup NIC up, at both ends");
}

/* ---- told ----------------------------------------------------------------------------------- */

/* True if something else that is open says more of it. */
static bool todo_is_covered(const struct why_todo *todo, const struct why_open *open)
{
	if (open->group == WHY_PROTECTION)
		return todo->n > 1;
	if (open->group != WHY_MOVE)
		return false;
	return todo_find(todo, WHY_NIC, open->nic) || todo_find(todo, WHY_DRAIN, open->nic) ||
	       (open->peer && todo_find(todo, WHY_GRAY, open->nic));
}

static bool todo_is_repeated(const struct why_todo *todo, unsigned before)
{
	for (unsigned i = 0; i < before; i++)
		if (!strcmp(todo->open[i].todo, todo->open[before].todo))
			return true;
	return false;
}

static unsigned todo_print_open(const struct why_todo *todo)
{
	unsigned told = 0;

	for (enum why_group group = 0; group < WHY_NONE; group++)
		for (unsigned i = 0; i < todo->n; i++) {
			const struct why_open *open = &todo->open[i];

			if (open->group != group || todo_is_covered(todo, open) ||
			    todo_is_repeated(todo, i))
				continue;
			printf("%s%s", told++ ? "; then " : "", open->todo);
		}
	return told;
}

void why_todo_print(const struct why_todo *todo)
{
	unsigned told;

	printf("  What to do: %s%s", todo->stays,
	       *todo->stays ? ", before the drained NIC is taken away; then " : "");
	told = todo_print_open(todo);
	if (!told && *todo->now) {
		printf("%s", todo->now);
		told++;
	}
	if (todo->lost)
		printf("%srestart the job from its checkpoint", told++ ? "; then " : "");
	puts(told ? "." : "nothing.");
}
