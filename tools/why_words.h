/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The words of shiftctl why: a clause and a remedy for each cause, kind and reason. */
#ifndef TOOLS_WHY_WORDS_H
#define TOOLS_WHY_WORDS_H

#include <stdbool.h>

/* What is known by a cause, and what the reader can do; todo NULL: nothing. */
struct why_cause {
	const char *cause, *clause, *todo;
};

/* What kinds of event have to do with each other: the later closes what the earlier has opened. */
enum why_group {
	WHY_LOST, /* nothing closes it */
	WHY_STALL,
	WHY_NIC,
	WHY_DRAIN,
	WHY_MOVE,
	WHY_GRAY,
	WHY_KV,
	WHY_PROTECTION,
	WHY_NONE,
};

/* The parts of a sentence: NICs stand behind the first two. Of one connection: verb, else verbs. */
struct why_kind {
	const char *kind, *before, *between, *verb, *verbs;
	enum why_group group;
	bool opens; /* a state that lasts until an event of its group that does not */
};

const struct why_kind *why_kind(const char *kind); /* NULL: an unknown one */
/* NULL: an unknown one. The silence of a NIC is another thing than that of a path. */
const struct why_cause *why_cause(const struct why_kind *kind, const char *cause);

/*
 * The remedy for a reason: why a queue pair is not protected, or what it waits for. NULL: none is
 * known. "": none is needed, as it passes by itself.
 */
const char *why_remedy(const char *reason);

#endif
