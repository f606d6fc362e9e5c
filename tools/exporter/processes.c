/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The counters of the host. The rise of a process's counters since it was last asked is added to
 * them, so that a process that ends takes nothing away. For its last rise each process has a
 * connection of ours, on which it says farewell, and which outlives it. Counts from before the
 * exporter started are in no counter: after a restart of the exporter, Prometheus would take them
 * for new.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/exporter/exporter.h"
#include "tools/reach.h"

#define ANSWER_MAX    (256u << 10)
#define OF_A_USER_MAX 1000u

struct process {
	struct process *next;
	struct ctl_process id; /* socket: our copy */
	char instance[20];     /* "": no answer yet */
	bool old;	       /* the process was there before us, and has not answered yet */
	bool found;	       /* the last scan found it */
	bool answers;	       /* true: the last question was answered */
	struct series last;    /* counters of its last answer */
	struct ctl_question farewell;
};

struct processes {
	struct process *all;
	unsigned n;
	bool scanned;
	char *complaint;
	double dropped;
	double start;
	double ended[2]; /* processes that ended without a farewell, and with one */
	struct series counters;
};

/* ---- one process ---------------------------------------------------------------------------- */

static void process_free(struct process *p)
{
	ctl_ask_end(&p->farewell);
	series_free(&p->last);
	free(p->id.socket);
	free(p);
}

/* The counters of an answer; gauges: NULL, or what is added to. False: it is none. */
static bool process_count(struct processes *all, struct process *p, const json_t *answer,
			  struct series *gauges)
{
	struct series now = { .most = SERIES_OF_ONE_MAX, .dropped = &all->dropped };
	struct series ignored = now;
	bool read = !answer_read(answer, &now, gauges ? gauges : &ignored);

	if (read) {
		/* the pid may be another process's by now */
		if (strncmp(p->instance, ctl_text(answer, "instance"), sizeof(p->instance) - 1))
			series_free(&p->last);
		snprintf(p->instance, sizeof(p->instance), "%s", ctl_text(answer, "instance"));
		series_rise(&all->counters, &p->last, &now, !p->old);
		p->old = false;
		series_free(&p->last);
		p->last = now;
		now = (struct series){ 0 };
	}
	series_free(&now);
	series_free(&ignored);
	return read;
}

static void process_listen(struct process *p)
{
	p->farewell = (struct ctl_question){ .process = &p->id, .fd = -1 };
	ctl_ask_begin(&p->farewell, "farewell");
}

/* Another two listen to it already: that is no farewell. */
static void process_heard(struct process *p)
{
	if (p->farewell.rc || !*ctl_text(p->farewell.answer, "error"))
		return;
	ctl_ask_end(&p->farewell);
	p->farewell.rc = -EBUSY;
}

static bool process_listened_to(const struct process *p)
{
	return p->farewell.rc == -EINPROGRESS;
}

/* Notes an end. If a process was not heard of for another reason, the next scan finds it again. */
static void process_ended(struct processes *all, struct process *p)
{
	bool said =
		!p->farewell.rc && p->farewell.answer && !*ctl_text(p->farewell.answer, "error");

	if (said)
		(void)process_count(all, p, p->farewell.answer, NULL);
	if (said || !p->found)
		all->ended[said]++;
}

/* ---- all of them ---------------------------------------------------------------------------- */

struct processes *processes_new(void)
{
	struct processes *all = calloc(1, sizeof(*all));
	struct timespec now;

	if (!all)
		return NULL;
	clock_gettime(CLOCK_REALTIME, &now);
	all->start = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	all->counters = (struct series){ .most = SERIES_MAX, .dropped = &all->dropped };
	return all;
}

void processes_free(struct processes *all)
{
	struct process *p;

	while ((p = all->all)) {
		all->all = p->next;
		process_free(p);
	}
	series_free(&all->counters);
	free(all->complaint);
	free(all);
}

/* Removes processes whose farewell has come, or whose socket is gone with none under way. */
static void processes_reap(struct processes *all)
{
	struct process **at = &all->all, *p;

	while ((p = *at)) {
		if (process_listened_to(p) || (p->found && p->farewell.rc)) {
			at = &p->next;
			continue;
		}
		process_ended(all, p);
		*at = p->next;
		all->n--;
		process_free(p);
	}
}

/*
 * The name of a socket has the number of the process's instance. The path to a container's changes
 * with the process that leads there.
 */
static struct process *processes_find(const struct processes *all, const char *socket)
{
	const char *name = strrchr(socket, '/');
	struct process *p;

	for (p = all->all; p; p = p->next)
		if (!strcmp(strrchr(p->id.socket, '/'), name))
			return p;
	return NULL;
}

/* So many of one user: nobody can take all connections for his own. */
static bool processes_full(const struct processes *all, uid_t uid)
{
	const struct process *p;
	unsigned n = 0;

	for (p = all->all; p; p = p->next)
		n += p->id.uid == uid;
	return n >= OF_A_USER_MAX;
}

static void processes_add(struct processes *all, const struct ctl_process *found)
{
	struct process *p;

	p = processes_full(all, found->uid) ? NULL : calloc(1, sizeof(*p));
	if (!p)
		return;
	p->id = *found;
	p->id.socket = strdup(found->socket);
	if (!p->id.socket) {
		free(p);
		return;
	}
	p->old = !all->scanned;
	p->found = true;
	p->last = (struct series){ .most = SERIES_OF_ONE_MAX };
	process_listen(p);
	p->next = all->all;
	all->all = p;
	all->n++;
}

/* Says a directory's fault once, and again when it is another one. */
static void processes_complain(struct processes *all, struct ctl_processes *found)
{
	if (found->complaint && (!all->complaint || strcmp(all->complaint, found->complaint)))
		ctl_say("%s", found->complaint);
	free(all->complaint);
	all->complaint = found->complaint;
	found->complaint = NULL;
}

static void processes_heard(struct processes *all, struct process *p, struct ctl_question *q,
			    struct series *gauges)
{
	if (!q->rc && q->here) /* its own number may be another one's, too, in another container */
		json_object_set_new(q->answer, "pid", json_integer(q->here));
	p->answers = !q->rc && process_count(all, p, q->answer, gauges);
}

/* Questions to those that are to be asked, and their answers. */
static int processes_ask(struct processes *all, const struct ctl_patience *patience, bool old,
			 struct series *gauges)
{
	struct ctl_question *questions = calloc(all->n + 1, sizeof(*questions));
	unsigned n = 0;
	struct process *p;
	int rc;

	if (!questions)
		return -ENOMEM;
	for (p = all->all; p; p = p->next)
		if (p->found && (p->old || !old))
			questions[n++].process = &p->id;
	rc = ctl_ask_all(questions, n, patience, "metrics");
	n = 0;
	for (p = all->all; p; p = p->next)
		if (p->found && (p->old || !old)) {
			if (!rc)
				processes_heard(all, p, &questions[n], gauges);
			ctl_ask_end(&questions[n++]);
		}
	free(questions);
	return rc;
}

static void process_found(struct process *p, const struct ctl_process *found)
{
	char *socket = strcmp(p->id.socket, found->socket) ? strdup(found->socket) : NULL;

	p->found = true;
	if (!socket)
		return;
	free(p->id.socket);
	p->id.socket = socket;
	p->id.inside = found->inside;
}

static unsigned processes_look(struct processes *all)
{
	struct ctl_processes found;
	struct process *p;
	unsigned refused;

	(void)ctl_find(0, &found); /* if memory is short: the processes found so far */
	for (p = all->all; p; p = p->next)
		p->found = false;
	for (unsigned i = 0; i < found.n; i++) {
		p = processes_find(all, found.all[i].socket);
		if (!p)
			processes_add(all, &found.all[i]);
		else
			process_found(p, &found.all[i]);
		if (p && !process_listened_to(p) && p->farewell.rc)
			process_listen(p); /* the process had no place for us */
		if (p && p->farewell.rc == -ESRCH)
			p->found = false; /* killed: only the socket was there */
	}
	refused = found.refused;
	processes_complain(all, &found);
	ctl_processes_free(&found);
	all->scanned = true;
	processes_reap(all);
	return refused;
}

void processes_scan(struct processes *all)
{
	static const struct ctl_patience brief = { 1000, 1000, ANSWER_MAX };
	bool first = !all->scanned;

	processes_look(all);
	if (first) /* counting begins here */
		(void)processes_ask(all, &brief, true, NULL);
}

/* ---- a scrape ------------------------------------------------------------------------------- */

static double processes_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Counts the processes that use a NIC past SHIFT. */
static void processes_unreached(struct series *gauges)
{
	struct reach reach;

	(void)reach_find(false, &reach);
	for (unsigned i = 0; i < reach.n; i++)
		for (unsigned k = 0; k < reach.all[i].n; k++)
			series_add(gauges, FAMILY_UNREACHED, "", 1, "nic",
				   reach.all[i].device[k].name, NULL);
	reach_free(&reach);
}

static void processes_own(const struct processes *all, struct series *gauges, unsigned refused,
			  double took)
{
	unsigned answering = 0;
	const struct process *p;

	for (p = all->all; p; p = p->next)
		answering += p->answers && p->found;
	series_add(gauges, FAMILY_INFO, "", 1, "version", SHIFT_VERSION, NULL);
	series_add(gauges, FAMILY_START, "", all->start, NULL);
	series_add(gauges, FAMILY_GATHER, "", took, NULL);
	series_add(gauges, FAMILY_REFUSED_DIRS, "", refused, NULL);
	series_add(gauges, FAMILY_PROCESSES, "", answering, "state", "answering", NULL);
	series_add(gauges, FAMILY_PROCESSES, "", all->n - answering, "state", "silent", NULL);
}

/* Counters of our own: set, as they do not come from a process. */
static void processes_own_counters(struct processes *all)
{
	struct series *c = &all->counters;

	json_decref(c->of[FAMILY_ENDED]);
	json_decref(c->of[FAMILY_DROPPED]);
	c->of[FAMILY_ENDED] = c->of[FAMILY_DROPPED] = NULL;
	series_add(c, FAMILY_ENDED, "", all->ended[0], "farewell", "no", NULL);
	series_add(c, FAMILY_ENDED, "", all->ended[1], "farewell", "yes", NULL);
	series_add(c, FAMILY_DROPPED, "", all->dropped, NULL);
	c->n -= 3;
}

int processes_gather(struct processes *all, int timeout_ms, FILE *out)
{
	const struct ctl_patience patience = { timeout_ms, timeout_ms, ANSWER_MAX };
	struct series gauges = { .most = SERIES_MAX, .dropped = &all->dropped };
	unsigned refused = processes_look(all);
	double begun = processes_now();
	int rc = processes_ask(all, &patience, false, &gauges);

	if (!rc) {
		processes_own(all, &gauges, refused, processes_now() - begun);
		processes_own_counters(all);
		processes_unreached(&gauges);
		series_print(out, &all->counters, &gauges);
	}
	series_free(&gauges);
	return rc;
}

/* ---- farewells ------------------------------------------------------------------------------ */

unsigned processes_poll(struct processes *all, struct pollfd *fds, unsigned room)
{
	struct process *p;
	unsigned n = 0;

	for (p = all->all; p && n < room; p = p->next)
		if (process_listened_to(p))
			fds[n++] = (struct pollfd){ .fd = p->farewell.fd, .events = POLLIN };
	return n;
}

void processes_polled(struct processes *all, const struct pollfd *fds, unsigned n)
{
	struct process *p;
	unsigned i = 0;

	for (p = all->all; p && i < n; p = p->next)
		if (process_listened_to(p) && p->farewell.fd == fds[i].fd && fds[i++].revents) {
			ctl_ask_readable(&p->farewell, ANSWER_MAX);
			process_heard(p);
		}
	processes_reap(all);
}
