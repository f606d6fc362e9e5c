/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/table.h"
#include "shiftlib/base/util.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/cm/events.h"

#define POKE_TIMEOUT_MS 1000

/* An id that is connected. */
struct cm_id {
	struct list_node link;
	struct rdma_cm_id *id;
	const struct ibv_qp *qp; /* NULL: destroyed */
	bool leaves, told;
	bool removed; /* with its device: the kernel knows it no more */
	bool dying; /* being destroyed: who does that frees it; its late events are judged still */
	bool apart; /* what the kernel says of its end is not what the program heard */
	uint64_t due_at; /* asked, or leaving: decided then; 0: nothing is open */
	uint64_t since;	 /* it is open */
};

enum cm_made_state {
	CM_POKING, /* a job has it */
	CM_POKED,  /* the kernel will wake the channel */
	CM_DIRECT, /* it could not: whoever asks next gets it */
	CM_GIVEN,  /* the program has it, and will acknowledge it */
};

/* A made-up event. */
struct cm_made {
	struct sh_job job; /* first */
	struct list_node link;
	struct rdma_cm_event event;
	struct rdma_event_channel *channel;
	const struct shift_cm_real *real;
	enum cm_made_state state;
	bool woken; /* the job's result */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t poked; /* a job is through with its channel */
	struct sh_cm_oracle oracle;
	const struct shift_cm_real *real; /* as last called with: there is one */
	struct list_node ids, made;
	struct sh_table by_id, by_qp;
	struct sh_worker *worker;
	char mark; /* context of ids that poke */
} cm = { .lock = PTHREAD_MUTEX_INITIALIZER, .poked = PTHREAD_COND_INITIALIZER };

void sh_cm_events_reset(const struct sh_cm_oracle *oracle)
{
	pthread_mutex_init(&cm.lock, NULL);
	pthread_cond_init(&cm.poked, NULL);
	cm.oracle = *oracle;
	list_init(&cm.ids);
	list_init(&cm.made);
	memset(&cm.by_id, 0, sizeof(cm.by_id));
	memset(&cm.by_qp, 0, sizeof(cm.by_qp));
	cm.worker = NULL;
}

/* ---- ids ------------------------------------------------------------------------------------ */

static void id_leave_qp(struct cm_id *entry)
{
	if (entry->qp && sh_table_get(&cm.by_qp, entry->qp) == entry)
		sh_table_remove(&cm.by_qp, entry->qp);
}

static void id_forget(struct cm_id *entry)
{
	sh_table_remove(&cm.by_id, entry->id);
	id_leave_qp(entry);
	list_del(&entry->link);
	free(entry);
}

/* Its events go on to be judged, by what its program was told; none is made up any more. */
static void id_dies(struct cm_id *entry)
{
	id_leave_qp(entry);
	entry->qp = NULL;
	list_del(&entry->link);
	entry->dying = true;
	entry->due_at = 0;
}

/* librdmacm has freed its id, and may have made another one there. */
static void id_dead(struct cm_id *entry)
{
	if (sh_table_get(&cm.by_id, entry->id) == entry)
		sh_table_remove(&cm.by_id, entry->id);
	free(entry);
}

/* Out of memory: its events pass as on stock. */
static void id_connected(struct rdma_cm_id *id)
{
	struct cm_id *entry = sh_table_get(&cm.by_id, id);

	if (entry && entry->dying)
		sh_table_remove(&cm.by_id, id);
	else if (entry)
		id_forget(entry);
	if (!id->qp || !cm.oracle.knows(id->qp))
		return;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return;
	entry->id = id;
	entry->qp = id->qp;
	list_add_tail(&cm.ids, &entry->link);
	if (sh_table_put(&cm.by_id, id, entry) || sh_table_put(&cm.by_qp, id->qp, entry))
		id_forget(entry);
}

static void id_open(struct cm_id *entry, uint64_t patience_ns)
{
	entry->since = sh_now_ns();
	entry->due_at = entry->since + patience_ns;
	cm.oracle.wake_at(entry->due_at);
}

/* ---- waking the channel ---------------------------------------------------------------------- */

/* Any RDMA device that there is serves, with its ports down too. */
static bool poke(const struct shift_cm_real *real, struct rdma_event_channel *channel)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
				    .sin_port = htons(1),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *id;

	if (real->create_id(channel, &id, &cm.mark, RDMA_PS_TCP))
		return false;
	if (!real->resolve_addr(id, NULL, (struct sockaddr *)&here, POKE_TIMEOUT_MS))
		return true;
	real->destroy_id(id);
	return false;
}

static void poke_run(struct sh_job *job)
{
	struct cm_made *made = (struct cm_made *)job;

	cm.oracle.thread_inside();
	made->woken = poke(made->real, made->channel);
	if (!made->woken)
		sh_warn_once("a CM event cannot wake its program, which will find it at its next "
			     "call");
}

static void poke_done(struct sh_job *job)
{
	struct cm_made *made = (struct cm_made *)job;

	pthread_mutex_lock(&cm.lock);
	made->state = made->woken ? CM_POKED : CM_DIRECT;
	pthread_cond_broadcast(&cm.poked);
	pthread_mutex_unlock(&cm.lock);
}

/* Lock held. librdmacm may be migrating the id: behind that made_follow() sees that it goes where that went. */
static void made_send(struct cm_made *made)
{
	made->channel = __atomic_load_n(&made->event.id->channel, __ATOMIC_RELAXED);
	made->state = CM_POKING;
	made->job = (struct sh_job){ .fn = poke_run, .done = poke_done };
	if (!cm.worker)
		cm.worker = sh_worker_start("shift-cm");
	if (!cm.worker || sh_worker_submit(cm.worker, &made->job))
		made->state = CM_DIRECT;
}

static void made_up(struct cm_id *entry, enum rdma_cm_event_type type)
{
	struct cm_made *made = calloc(1, sizeof(*made));

	entry->due_at = 0;
	entry->told = entry->apart = true;
	if (!made)
		return;
	made->event.id = entry->id;
	made->event.event = type;
	made->real = cm.real;
	list_add_tail(&cm.made, &made->link);
	made_send(made);
}

/* Lock held, given up meanwhile. Who is cancelled ends elsewhere: here, it would keep the lock. */
static void poked_wait(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_cond_wait(&cm.poked, &cm.lock);
	pthread_setcancelstate(state, NULL);
}

static struct cm_made *made_next(const struct rdma_event_channel *channel, enum cm_made_state state)
{
	struct cm_made *made;

	list_for_each (&cm.made, made, struct cm_made, link)
		if (made->channel == channel && made->state == state)
			return made;
	return NULL;
}

/* A poke that came before its job has said so wakes for it all the same. */
static struct cm_made *made_poked(const struct rdma_event_channel *channel)
{
	struct cm_made *made = made_next(channel, CM_POKED);

	while (!made && made_next(channel, CM_POKING)) {
		poked_wait();
		made = made_next(channel, CM_POKED);
	}
	return made;
}

static struct cm_made *made_of(const struct rdma_cm_id *id)
{
	struct cm_made *made;

	list_for_each (&cm.made, made, struct cm_made, link)
		if (made->event.id == id && made->state != CM_GIVEN)
			return made;
	return NULL;
}

/* Behind it, no job uses its channel, which may go next. */
static void made_drop(const struct rdma_cm_id *id)
{
	struct cm_made *made;

	while ((made = made_of(id))) {
		if (made->state == CM_POKING) {
			poked_wait();
			continue;
		}
		list_del(&made->link);
		free(made);
	}
}

static struct cm_made *made_elsewhere(const struct rdma_cm_id *id)
{
	struct cm_made *made;

	list_for_each (&cm.made, made, struct cm_made, link)
		if (made->event.id == id && made->state != CM_GIVEN && made->channel != id->channel)
			return made;
	return NULL;
}

/* As the kernel's own events do. Behind it, no job uses the old channel, whose poke wakes for nothing. */
static void made_follow(const struct rdma_cm_id *id)
{
	struct cm_made *made;

	while ((made = made_elsewhere(id))) {
		if (made->state == CM_POKING)
			poked_wait();
		else
			made_send(made);
	}
}

/* ---- getting them ---------------------------------------------------------------------------- */

static struct sh_cm_known id_known(const struct cm_id *entry, enum sh_cm_standing standing)
{
	return (struct sh_cm_known){ .standing = standing,
				     .established = true,
				     .leaves = entry->leaves,
				     .told = entry->told,
				     .orphan = entry->removed || entry->apart };
}

static enum sh_cm_standing id_standing(const struct cm_id *entry)
{
	return entry->qp ? cm.oracle.standing(entry->qp) : SH_CM_FOREIGN;
}

static enum sh_cm_verdict see_known(struct cm_id *entry, enum rdma_cm_event_type type)
{
	struct sh_cm_known known = id_known(entry, id_standing(entry));
	enum sh_cm_verdict verdict = sh_cm_judge(type, &known);

	if (verdict == SH_CM_ASK && !entry->due_at) {
		id_open(entry, 2 * cm.oracle.patience_ns);
		cm.oracle.doubt(entry->qp, entry->due_at);
	}
	if (verdict == SH_CM_TAKE && type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		entry->removed = true;
	if (verdict == SH_CM_PASS && type == RDMA_CM_EVENT_DISCONNECTED) {
		entry->told = true;
		entry->due_at = 0;
	}
	return verdict;
}

/* The peer may have closed it before the program has looked. */
static void see_established(struct rdma_cm_id *id)
{
	struct cm_id *entry;

	id_connected(id);
	entry = sh_table_get(&cm.by_id, id);
	if (entry && id_standing(entry) == SH_CM_ENDED)
		made_up(entry, RDMA_CM_EVENT_DISCONNECTED);
}

static enum sh_cm_verdict see(struct rdma_cm_event *event)
{
	enum sh_cm_verdict verdict = SH_CM_PASS;
	struct cm_id *entry;

	cm.oracle.lock();
	pthread_mutex_lock(&cm.lock);
	entry = sh_table_get(&cm.by_id, event->id);
	if (event->event == RDMA_CM_EVENT_ESTABLISHED && !event->status)
		see_established(event->id);
	else if (entry)
		verdict = see_known(entry, event->event);
	pthread_mutex_unlock(&cm.lock);
	cm.oracle.unlock();
	if (verdict != SH_CM_PASS)
		sh_log(SH_LOG_INFO, "CM event %d is kept back (%s)", event->event,
		       sh_cm_verdict_name(verdict));
	return verdict;
}

static struct rdma_cm_event *give(struct cm_made *made)
{
	if (!made)
		return NULL;
	made->state = CM_GIVEN;
	return &made->event;
}

/* An event that only wakes; the made-up one that it woke for, or none, as its id is gone. */
static struct rdma_cm_event *woken(const struct shift_cm_real *real, struct rdma_cm_event *event)
{
	struct rdma_event_channel *channel = event->id->channel;
	struct rdma_cm_event *made;
	struct rdma_cm_id *id = event->id;

	pthread_mutex_lock(&cm.lock);
	made = give(made_poked(channel));
	pthread_mutex_unlock(&cm.lock);
	real->ack_cm_event(event);
	real->destroy_id(id);
	return made;
}

static struct rdma_cm_event *given_directly(const struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	pthread_mutex_lock(&cm.lock);
	event = give(made_next(channel, CM_DIRECT));
	pthread_mutex_unlock(&cm.lock);
	return event;
}

/* What is for the program, or NULL. A thread that is cancelled ends where it waits, and not with an event that it has read. */
static struct rdma_cm_event *taken(const struct shift_cm_real *real, struct rdma_cm_event *event)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (event->id->context == &cm.mark) {
		event = woken(real, event);
	} else if (see(event) != SH_CM_PASS) {
		real->ack_cm_event(event);
		event = NULL;
	}
	pthread_setcancelstate(state, NULL);
	return event;
}

/* librdmacm calls verbs in there, which take the oracle's lock. */
int sh_cm_events_get(const struct shift_cm_real *real, struct rdma_event_channel *channel,
		     struct rdma_cm_event **event)
{
	int ret;

	if (!event)
		return real->get_cm_event(channel, event);
	pthread_mutex_lock(&cm.lock);
	cm.real = real;
	pthread_mutex_unlock(&cm.lock);
	*event = given_directly(channel);
	while (!*event) {
		ret = real->get_cm_event(channel, event);
		if (ret)
			return ret;
		*event = taken(real, *event);
	}
	return 0;
}

int sh_cm_events_ack(const struct shift_cm_real *real, struct rdma_cm_event *event)
{
	struct cm_made *made;

	pthread_mutex_lock(&cm.lock);
	list_for_each (&cm.made, made, struct cm_made, link) {
		if (&made->event != event)
			continue;
		list_del(&made->link);
		pthread_mutex_unlock(&cm.lock);
		free(made);
		return 0;
	}
	pthread_mutex_unlock(&cm.lock);
	return real->ack_cm_event(event);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The kernel's own word takes a minute where the default path is dead. */
static bool leave(struct cm_id *entry)
{
	if (!entry || entry->leaves || id_standing(entry) == SH_CM_FOREIGN)
		return false;
	entry->leaves = true;
	if (!entry->told)
		id_open(entry, entry->removed ? 0 : cm.oracle.patience_ns);
	return entry->removed;
}

bool sh_cm_events_leave(struct rdma_cm_id *id)
{
	bool removed;

	cm.oracle.lock();
	pthread_mutex_lock(&cm.lock);
	removed = leave(sh_table_get(&cm.by_id, id));
	pthread_mutex_unlock(&cm.lock);
	cm.oracle.unlock();
	return removed;
}

void sh_cm_events_ended(const struct ibv_qp *qp)
{
	struct cm_id *entry;

	pthread_mutex_lock(&cm.lock);
	entry = sh_table_get(&cm.by_qp, qp);
	if (entry && !entry->told && !entry->leaves)
		made_up(entry, RDMA_CM_EVENT_DISCONNECTED);
	pthread_mutex_unlock(&cm.lock);
}

void sh_cm_events_qp_gone(const struct ibv_qp *qp)
{
	struct cm_id *entry;

	pthread_mutex_lock(&cm.lock);
	entry = sh_table_remove(&cm.by_qp, qp);
	if (entry)
		entry->qp = NULL;
	pthread_mutex_unlock(&cm.lock);
}

/* Its kernel said goodbye for it: a peer that was heard of since lives, and has lost its NIC only. */
static void decide(struct cm_id *entry)
{
	bool alive = id_standing(entry) == SH_CM_ALIVE &&
		     cm.oracle.heard_at(entry->qp) > entry->since + cm.oracle.patience_ns;

	entry->due_at = 0;
	if (alive && !entry->leaves)
		entry->apart = true;
	else
		made_up(entry, RDMA_CM_EVENT_DISCONNECTED);
}

uint64_t sh_cm_events_run(uint64_t now)
{
	struct cm_id *entry;
	uint64_t next = 0;

	pthread_mutex_lock(&cm.lock);
	list_for_each (&cm.ids, entry, struct cm_id, link) {
		if (entry->due_at && entry->due_at <= now)
			decide(entry);
		if (entry->due_at && (!next || entry->due_at < next))
			next = entry->due_at;
	}
	pthread_mutex_unlock(&cm.lock);
	return next;
}

/*
 * An event that another thread has read just now is not acknowledged yet: the id is known until librdmacm,
 * which waits for that, has destroyed it. Else an end that was told would be told again.
 */
int sh_cm_events_destroy(const struct shift_cm_real *real, struct rdma_cm_id *id)
{
	struct cm_id *entry;
	int ret;

	pthread_mutex_lock(&cm.lock);
	entry = sh_table_get(&cm.by_id, id);
	if (entry && entry->dying)
		entry = NULL;
	if (entry)
		id_dies(entry);
	made_drop(id);
	pthread_mutex_unlock(&cm.lock);
	ret = real->destroy_id(id);
	if (entry) {
		pthread_mutex_lock(&cm.lock);
		id_dead(entry);
		pthread_mutex_unlock(&cm.lock);
	}
	return ret;
}

int sh_cm_events_migrate(const struct shift_cm_real *real, struct rdma_cm_id *id,
			 struct rdma_event_channel *channel)
{
	int ret = real->migrate_id(id, channel);

	if (ret)
		return ret;
	pthread_mutex_lock(&cm.lock);
	made_follow(id);
	pthread_mutex_unlock(&cm.lock);
	return 0;
}
