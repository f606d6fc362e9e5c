/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The insides of comp_channel.c, cq_events.c and comp_event.c. */
#ifndef SHIFTLIB_FACADE_INTERNAL_H
#define SHIFTLIB_FACADE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "shiftlib/base/fd.h"
#include "shiftlib/base/readers.h"
#include "shiftlib/facade/comp_channel.h"

#define OWN_SOURCE 0 /* the place of the real channel */

#define unlikely(x) __builtin_expect(!!(x), 0)

/* Where events come from. Guarded by the facade's lock but the fd. */
struct source {
	_Atomic int fd; /* -1: none, or its device is gone */
	struct ibv_comp_channel *channel;
	struct ibv_context *context;
	uint32_t users; /* shadow CQs */
};

struct sh_comp_channel {
	struct ibv_comp_channel facade; /* fd: the epoll fd; refcnt: guarded by context->mutex */
	_Atomic uint32_t in_line;	/* counts of raise_fd, also those to be written yet */
	_Atomic uint32_t turn;		/* source that is looked at first */
	_Atomic uint32_t n_sources;	/* places that were ever in use */
	struct source sources[SH_COMP_CHANNEL_SOURCES_MAX];
	struct sh_readers readers;
	struct sh_fdmap cqs; /* struct sh_cq_events, by handle */
	int raise_fd;	     /* an eventfd: one count for each software event in line */
	int replay_fd;	     /* an eventfd: libibverbs reads there what was read already */
	pthread_mutex_t lock;
	struct list_node ready; /* software events, oldest first */
	/* Software events taken back whose count the raiser had not yet written. */
	uint32_t owed;
	struct sh_cq_events *_Atomic raised; /* stack; pushed by anyone, emptied under lock */
};

extern const struct shift_real *sh_channel_verbs;
extern struct sh_fdmap sh_channel_facades; /* found by the facade's fd */

static inline struct sh_comp_channel *channel_of(const struct ibv_comp_channel *channel)
{
	struct sh_comp_channel *ch =
		channel ? sh_fdmap_get(&sh_channel_facades, channel->fd) : NULL;

	return ch && &ch->facade == channel ? ch : NULL;
}

static inline struct ibv_comp_channel *channel_real(const struct sh_comp_channel *ch)
{
	return ch->sources[OWN_SOURCE].channel;
}

/* Returns the events of a CQ with this facade; NULL: SHIFT never saw it made. */
static inline struct sh_cq_events *events_find(struct sh_comp_channel *ch, const struct ibv_cq *cq)
{
	return sh_fdmap_get(&ch->cqs, (int)cq->handle);
}

/*
 * comp_channel.c. watch: the facade's fd tells of that fd, too; -errno. silence: nobody looks at
 * the source any more behind sh_readers_wait().
 */
int sh_channel_watch(struct sh_comp_channel *ch, int fd);
void sh_source_silence(struct sh_comp_channel *ch, struct source *source);
uint32_t sh_sources_live(struct sh_comp_channel *ch);

/* comp_event.c: software events, under the facade's lock. */
void sh_raised_collect(struct sh_comp_channel *ch); /* moves them from the stack into the line */
void sh_ready_remove(struct sh_cq_events *events);  /* out of the line */
bool sh_raise_count_take(struct sh_comp_channel *ch);

/* cq_events.c: an event was read that nobody shall hear of; libibverbs waits for it. */
void sh_event_drop(struct sh_cq_feed *feed);
/* cq_events.c: somebody has acknowledged; who waits for that looks again. */
void sh_settle_wake(void);
extern _Atomic uint32_t sh_settling; /* CQs that wait for acknowledgements */

#endif
