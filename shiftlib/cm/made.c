/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Made-up events: they wake their channel, are found by who reads it, and go along with their id.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "shiftlib/base/log.h"
#include "shiftlib/cm/internal.h"

#define POKE_TIMEOUT_MS 1000

/* Any RDMA device that there is serves, with its ports down too. */
static bool poke(const struct shift_cm_real *real, struct rdma_event_channel *channel)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
				    .sin_port = htons(1),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *id;

	if (real->create_id(channel, &id, &sh_cm.mark, RDMA_PS_TCP))
		return false;
	if (!real->resolve_addr(id, NULL, (struct sockaddr *)&here, POKE_TIMEOUT_MS))
		return true;
	real->destroy_id(id);
	return false;
}

static void poke_run(struct sh_job *job)
{
	struct cm_made *made = (struct cm_made *)job;

	sh_cm.oracle.thread_inside();
	made->woken = poke(made->real, made->channel);
	if (!made->woken)
		sh_warn_once("a CM event cannot wake its program, which will find it at its next "
			     "call");
}

static void poke_done(struct sh_job *job)
{
	struct cm_made *made = (struct cm_made *)job;

	pthread_mutex_lock(&sh_cm.lock);
	made->state = made->woken ? CM_POKED : CM_DIRECT;
	pthread_cond_broadcast(&sh_cm.poked);
	pthread_mutex_unlock(&sh_cm.lock);
}

/*
 * Lock held. librdmacm may be migrating the id: behind that sh_cm_made_follow() sees that it goes
 * where that went.
 */
static void made_send(struct cm_made *made)
{
	made->channel = __atomic_load_n(&made->event.id->channel, __ATOMIC_RELAXED);
	made->state = CM_POKING;
	made->job = (struct sh_job){ .fn = poke_run, .done = poke_done };
	if (!sh_cm.worker)
		sh_cm.worker = sh_worker_start("shift-cm");
	if (!sh_cm.worker || sh_worker_submit(sh_cm.worker, &made->job))
		made->state = CM_DIRECT;
}

void sh_cm_made_up(struct cm_id *entry, enum rdma_cm_event_type type, int status)
{
	struct cm_made *made = calloc(1, sizeof(*made));

	if (!made)
		return;
	made->event.id = entry->id;
	made->event.event = type;
	made->event.status = status;
	made->real = sh_cm.real;
	list_add_tail(&sh_cm.made, &made->link);
	made_send(made);
}

/* Lock held, given up meanwhile. Who is cancelled ends elsewhere: here, it would keep the lock. */
static void poked_wait(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_cond_wait(&sh_cm.poked, &sh_cm.lock);
	pthread_setcancelstate(state, NULL);
}

struct cm_made *sh_cm_made_next(const struct rdma_event_channel *channel, enum cm_made_state state)
{
	struct cm_made *made;

	list_for_each (&sh_cm.made, made, struct cm_made, link)
		if (made->channel == channel && made->state == state)
			return made;
	return NULL;
}

/* A poke that came before its job has said so wakes for it all the same. */
struct cm_made *sh_cm_made_poked(const struct rdma_event_channel *channel)
{
	struct cm_made *made = sh_cm_made_next(channel, CM_POKED);

	while (!made && sh_cm_made_next(channel, CM_POKING)) {
		poked_wait();
		made = sh_cm_made_next(channel, CM_POKED);
	}
	return made;
}

static struct cm_made *made_of(const struct rdma_cm_id *id)
{
	struct cm_made *made;

	list_for_each (&sh_cm.made, made, struct cm_made, link)
		if (made->event.id == id && made->state != CM_GIVEN)
			return made;
	return NULL;
}

/* Drops the events of an id. Afterwards no job uses its channel, which may go next. */
void sh_cm_made_drop(const struct rdma_cm_id *id)
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

	list_for_each (&sh_cm.made, made, struct cm_made, link)
		if (made->event.id == id && made->state != CM_GIVEN && made->channel != id->channel)
			return made;
	return NULL;
}

/*
 * Sends an id's events to its new channel, as the kernel's own events go. Afterwards no job uses
 * the old channel, whose poke wakes for nothing.
 */
void sh_cm_made_follow(const struct rdma_cm_id *id)
{
	struct cm_made *made;

	while ((made = made_elsewhere(id))) {
		if (made->state == CM_POKING)
			poked_wait();
		else
			made_send(made);
	}
}
