/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/cm/internal.h"

/* So many times the patience; over a path that is well, the kernel has its word through by then. */
#define ENDING_WAITS 8

struct cm_state sh_cm = { .lock = PTHREAD_MUTEX_INITIALIZER, .poked = PTHREAD_COND_INITIALIZER };

void sh_cm_events_reset(const struct sh_cm_oracle *oracle)
{
	pthread_mutex_init(&sh_cm.lock, NULL);
	pthread_cond_init(&sh_cm.poked, NULL);
	sh_cm.oracle = *oracle;
	list_init(&sh_cm.ids);
	list_init(&sh_cm.made);
	memset(&sh_cm.by_id, 0, sizeof(sh_cm.by_id));
	memset(&sh_cm.by_qp, 0, sizeof(sh_cm.by_qp));
	sh_cm.worker = NULL;
}

/* ---- ids ------------------------------------------------------------------------------------ */

static void id_leave_qp(struct cm_id *entry)
{
	if (entry->qp && sh_table_get(&sh_cm.by_qp, entry->qp) == entry)
		sh_table_remove(&sh_cm.by_qp, entry->qp);
}

static void id_forget(struct cm_id *entry)
{
	sh_table_remove(&sh_cm.by_id, entry->id);
	id_leave_qp(entry);
	list_del(&entry->link);
	free(entry);
}

/*
 * Makes up no more events for an id; its own events go on to be judged, by what its program was
 * told.
 */
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
	if (sh_table_get(&sh_cm.by_id, entry->id) == entry)
		sh_table_remove(&sh_cm.by_id, entry->id);
	free(entry);
}

/* Out of memory: its events pass as on stock. */
static void id_connected(struct rdma_cm_id *id)
{
	struct cm_id *entry = sh_table_get(&sh_cm.by_id, id);

	if (entry && entry->dying)
		sh_table_remove(&sh_cm.by_id, id);
	else if (entry)
		id_forget(entry);
	if (!id->qp || !sh_cm.oracle.knows(id->qp))
		return;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return;
	entry->id = id;
	entry->qp = id->qp;
	list_add_tail(&sh_cm.ids, &entry->link);
	if (sh_table_put(&sh_cm.by_id, id, entry) || sh_table_put(&sh_cm.by_qp, id->qp, entry))
		id_forget(entry);
}

static void id_open(struct cm_id *entry, uint64_t patience_ns)
{
	entry->since = sh_now_ns();
	entry->due_at = entry->since + patience_ns;
	sh_cm.oracle.wake_at(entry->due_at);
}

static void made_disconnected(struct cm_id *entry)
{
	entry->due_at = 0;
	entry->kept = 0;
	entry->ending = false;
	entry->told = entry->apart = true;
	sh_cm_made_up(entry, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/* ---- getting them ---------------------------------------------------------------------------- */

static struct sh_cm_known id_known(const struct cm_id *entry, enum sh_cm_standing standing)
{
	return (struct sh_cm_known){ .standing = standing,
				     .established = true,
				     .leaves = entry->leaves,
				     .told = entry->told,
				     .orphan = entry->removed || entry->apart,
				     .fault = entry->faulted ||
					      (entry->qp && sh_cm.oracle.fault(entry->qp)) };
}

static enum sh_cm_standing id_standing(const struct cm_id *entry)
{
	return entry->qp ? sh_cm.oracle.standing(entry->qp) : SH_CM_FOREIGN;
}

static void id_keep(struct cm_id *entry, const struct rdma_cm_event *event, bool fault)
{
	entry->kept |= 1u << event->event;
	entry->faulted |= fault;
	entry->status = event->status;
	if (entry->due_at)
		return;
	id_open(entry, 2 * sh_cm.oracle.patience_ns);
	sh_cm.oracle.doubt(entry->qp, entry->due_at);
}

/* SHIFT says that it is over. What the kernel has said of it before was no fault. */
static void id_ends(struct cm_id *entry)
{
	struct sh_cm_known known = id_known(entry, SH_CM_ENDED);

	if (entry->kept & 1u << RDMA_CM_EVENT_DISCONNECTED ||
	    sh_cm_decide(&known, true, false) == SH_CM_HAND_OVER) {
		made_disconnected(entry);
		return;
	}
	entry->ending = true;
	entry->waits = ENDING_WAITS;
	id_open(entry, sh_cm.oracle.patience_ns);
}

static enum sh_cm_verdict see_known(struct cm_id *entry, const struct rdma_cm_event *event)
{
	struct sh_cm_known known = id_known(entry, id_standing(entry));
	enum sh_cm_verdict verdict = sh_cm_judge(event->event, &known);

	if (verdict == SH_CM_ASK)
		id_keep(entry, event, known.fault);
	if (verdict == SH_CM_TAKE && event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		entry->removed = true;
	if (verdict == SH_CM_PASS && event->event == RDMA_CM_EVENT_DISCONNECTED) {
		entry->told = true;
		entry->ending = false;
		entry->kept = 0;
		entry->due_at = 0;
	}
	return verdict;
}

/* The peer may have closed it before the program has looked. */
static void see_established(struct rdma_cm_id *id)
{
	struct cm_id *entry;

	id_connected(id);
	entry = sh_table_get(&sh_cm.by_id, id);
	if (entry && id_standing(entry) == SH_CM_ENDED)
		id_ends(entry);
}

static enum sh_cm_verdict see(struct rdma_cm_event *event)
{
	enum sh_cm_verdict verdict = SH_CM_PASS;
	struct cm_id *entry;

	sh_cm.oracle.lock();
	pthread_mutex_lock(&sh_cm.lock);
	entry = sh_table_get(&sh_cm.by_id, event->id);
	if (event->event == RDMA_CM_EVENT_ESTABLISHED && !event->status)
		see_established(event->id);
	else if (entry)
		verdict = see_known(entry, event);
	pthread_mutex_unlock(&sh_cm.lock);
	sh_cm.oracle.unlock();
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

	pthread_mutex_lock(&sh_cm.lock);
	made = give(sh_cm_made_poked(channel));
	pthread_mutex_unlock(&sh_cm.lock);
	real->ack_cm_event(event);
	real->destroy_id(id);
	return made;
}

static struct rdma_cm_event *given_directly(const struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	pthread_mutex_lock(&sh_cm.lock);
	event = give(sh_cm_made_next(channel, CM_DIRECT));
	pthread_mutex_unlock(&sh_cm.lock);
	return event;
}

/*
 * Returns what is for the program, or NULL. A thread that is cancelled ends where it waits, and
 * not with an event that it has read.
 */
static struct rdma_cm_event *taken(const struct shift_cm_real *real, struct rdma_cm_event *event)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (event->id->context == &sh_cm.mark) {
		event = woken(real, event);
	} else if (see(event) != SH_CM_PASS) {
		real->ack_cm_event(event);
		event = NULL;
	}
	pthread_setcancelstate(state, NULL);
	return event;
}

/*
 * True in a thread that waits in here for its next event. Where an event is taken, its channel
 * was readable for nothing: such a thread goes on to wait. A thread that polls before it calls
 * must not wait: others may need it, as rclose() needs the thread of librsocket. It is known by
 * this: it has never called while there was nothing to read.
 */
static _Thread_local bool waits_inside;

/* librdmacm calls verbs in there, which take the oracle's lock. */
int sh_cm_events_get(const struct shift_cm_real *real, struct rdma_event_channel *channel,
		     struct rdma_cm_event **event)
{
	bool polled;
	int ret;

	if (!event)
		return real->get_cm_event(channel, event);
	polled = sh_cm.oracle.readable(channel);
	pthread_mutex_lock(&sh_cm.lock);
	sh_cm.real = real;
	pthread_mutex_unlock(&sh_cm.lock);
	*event = given_directly(channel);
	while (!*event) {
		ret = real->get_cm_event(channel, event);
		if (ret)
			return ret;
		waits_inside |= !polled;
		*event = taken(real, *event);
		if (!*event && !waits_inside && !sh_cm.oracle.readable(channel)) {
			errno = EAGAIN;
			return -1;
		}
	}
	return 0;
}

int sh_cm_events_ack(const struct shift_cm_real *real, struct rdma_cm_event *event)
{
	struct cm_made *made;

	pthread_mutex_lock(&sh_cm.lock);
	list_for_each (&sh_cm.made, made, struct cm_made, link) {
		if (&made->event != event)
			continue;
		list_del(&made->link);
		pthread_mutex_unlock(&sh_cm.lock);
		free(made);
		return 0;
	}
	pthread_mutex_unlock(&sh_cm.lock);
	return real->ack_cm_event(event);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The kernel's own word takes a minute where the default path is dead. */
static bool leave(struct cm_id *entry)
{
	if (!entry || entry->leaves || id_standing(entry) == SH_CM_FOREIGN)
		return false;
	entry->leaves = true;
	entry->faulted |= sh_cm.oracle.fault(entry->qp);
	if (!entry->told)
		id_open(entry, entry->removed ? 0 : sh_cm.oracle.patience_ns);
	return entry->removed;
}

bool sh_cm_events_disconnect(struct rdma_cm_id *id)
{
	bool removed;

	sh_cm.oracle.lock();
	pthread_mutex_lock(&sh_cm.lock);
	removed = leave(sh_table_get(&sh_cm.by_id, id));
	pthread_mutex_unlock(&sh_cm.lock);
	sh_cm.oracle.unlock();
	return removed;
}

void sh_cm_events_ended(const struct ibv_qp *qp)
{
	struct cm_id *entry;

	pthread_mutex_lock(&sh_cm.lock);
	entry = sh_table_get(&sh_cm.by_qp, qp);
	if (entry && !entry->told && !entry->leaves)
		id_ends(entry);
	pthread_mutex_unlock(&sh_cm.lock);
}

void sh_cm_events_qp_gone(const struct ibv_qp *qp)
{
	struct cm_id *entry;

	pthread_mutex_lock(&sh_cm.lock);
	entry = sh_table_remove(&sh_cm.by_qp, qp);
	if (entry)
		entry->qp = NULL;
	pthread_mutex_unlock(&sh_cm.lock);
}

static void hand_over(struct cm_id *entry)
{
	static const enum rdma_cm_event_type types[] = { RDMA_CM_EVENT_ADDR_CHANGE,
							 RDMA_CM_EVENT_UNREACHABLE };
	uint32_t kept = entry->kept;

	sh_log(SH_LOG_INFO, "CM events that were kept back are told now");
	for (uint32_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (kept & 1u << types[i])
			sh_cm_made_up(entry, types[i],
				      types[i] == RDMA_CM_EVENT_UNREACHABLE ? entry->status : 0);
	entry->kept = 0;
	entry->faulted = false;
	entry->due_at = 0;
	if (!entry->told &&
	    (entry->ending || entry->leaves || kept & 1u << RDMA_CM_EVENT_DISCONNECTED))
		made_disconnected(entry);
}

/*
 * Forgets the kept events of a peer that lives: its kernel said goodbye for it, it was heard of
 * since, and it has lost its NIC only.
 */
static void forget_kept(struct cm_id *entry)
{
	entry->apart |= (entry->kept >> RDMA_CM_EVENT_DISCONNECTED) & 1;
	entry->kept = 0;
	entry->faulted = false;
	entry->due_at = 0;
}

/*
 * Waits for the kernel's word, for as long as the program has its id; for an end whose peer went,
 * not so long.
 */
static void wait_on(struct cm_id *entry)
{
	entry->due_at = 0;
	if (entry->leaves || entry->waits)
		id_open(entry, sh_cm.oracle.patience_ns);
	if (entry->waits)
		entry->waits--;
}

static void decide(struct cm_id *entry)
{
	enum sh_cm_standing standing = id_standing(entry);
	struct sh_cm_known known = id_known(entry, standing);
	bool alive = standing == SH_CM_ALIVE &&
		     sh_cm.oracle.heard_at(entry->qp) > entry->since + sh_cm.oracle.patience_ns;

	switch (sh_cm_decide(&known, entry->ending, alive)) {
	case SH_CM_HAND_OVER: hand_over(entry); break;
	case SH_CM_FORGET: forget_kept(entry); break;
	case SH_CM_WAIT: wait_on(entry); break;
	}
}

uint64_t sh_cm_events_run(uint64_t now)
{
	struct cm_id *entry;
	uint64_t next = 0;

	pthread_mutex_lock(&sh_cm.lock);
	list_for_each (&sh_cm.ids, entry, struct cm_id, link) {
		if (entry->due_at && entry->due_at <= now)
			decide(entry);
		if (entry->due_at && (!next || entry->due_at < next))
			next = entry->due_at;
	}
	pthread_mutex_unlock(&sh_cm.lock);
	return next;
}

/*
 * Destroys an id, which is known until librdmacm has done so: librdmacm waits for an event that
 * another thread has read just now and not acknowledged. Else an end that was told would be told
 * again.
 */
int sh_cm_events_destroy(const struct shift_cm_real *real, struct rdma_cm_id *id)
{
	struct cm_id *entry;
	int ret;

	pthread_mutex_lock(&sh_cm.lock);
	entry = sh_table_get(&sh_cm.by_id, id);
	if (entry && entry->dying)
		entry = NULL;
	if (entry)
		id_dies(entry);
	sh_cm_made_drop(id);
	pthread_mutex_unlock(&sh_cm.lock);
	ret = real->destroy_id(id);
	if (entry) {
		pthread_mutex_lock(&sh_cm.lock);
		id_dead(entry);
		pthread_mutex_unlock(&sh_cm.lock);
	}
	return ret;
}

int sh_cm_events_migrate(const struct shift_cm_real *real, struct rdma_cm_id *id,
			 struct rdma_event_channel *channel)
{
	int ret = real->migrate_id(id, channel);

	if (ret)
		return ret;
	pthread_mutex_lock(&sh_cm.lock);
	sh_cm_made_follow(id);
	pthread_mutex_unlock(&sh_cm.lock);
	return 0;
}
