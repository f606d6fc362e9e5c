/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion channels as the application sees them: their making, and where their events come
 * from.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "shiftlib/base/aside.h"
#include "shiftlib/facade/internal.h"

const struct shift_real *sh_channel_verbs;
struct sh_fdmap sh_channel_facades;

void sh_comp_channel_setup(const struct shift_real *verbs)
{
	sh_channel_verbs = verbs;
}

bool sh_comp_channel_is_facade(const struct ibv_comp_channel *channel)
{
	return channel_of(channel);
}

struct ibv_comp_channel *sh_comp_channel_real(struct ibv_comp_channel *channel)
{
	struct sh_comp_channel *ch = channel_of(channel);

	return ch ? channel_real(ch) : channel;
}

struct ibv_comp_channel *shift_channel_real(struct ibv_comp_channel *channel)
{
	return sh_comp_channel_real(channel);
}

/* -- sources ---------------------------------------------------------------------------------- */

int sh_channel_watch(struct sh_comp_channel *ch, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(ch->facade.fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static struct source *source_free(struct sh_comp_channel *ch)
{
	for (uint32_t i = 0; i < SH_COMP_CHANNEL_SOURCES_MAX; i++)
		if (!ch->sources[i].channel)
			return &ch->sources[i];
	return NULL;
}

static int source_add(struct sh_comp_channel *ch, struct ibv_comp_channel *channel)
{
	struct source *source = source_free(ch);
	uint32_t n = source - ch->sources + 1;
	int ret;

	if (!source)
		return -ENOSPC;
	ret = sh_fd_set_nonblock(channel->fd, 1);
	if (!ret)
		ret = sh_channel_watch(ch, channel->fd);
	if (ret)
		return ret;
	source->channel = channel;
	source->context = channel->context;
	source->users = 1;
	atomic_store(&source->fd, channel->fd);
	if (n > atomic_load(&ch->n_sources))
		atomic_store(&ch->n_sources, n);
	return 0;
}

/* Nobody looks at it any more behind sh_readers_wait(). */
void sh_source_silence(struct sh_comp_channel *ch, struct source *source)
{
	int fd = atomic_exchange(&source->fd, -1);

	if (fd >= 0)
		epoll_ctl(ch->facade.fd, EPOLL_CTL_DEL, fd, NULL);
}

uint32_t sh_sources_live(struct sh_comp_channel *ch)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < atomic_load(&ch->n_sources); i++)
		n += atomic_load(&ch->sources[i].fd) >= 0;
	return n;
}

static struct ibv_comp_channel *shadow_find_locked(struct sh_comp_channel *ch,
						   const struct ibv_context *context)
{
	struct ibv_comp_channel *found = NULL;

	for (struct source *s = &ch->sources[OWN_SOURCE + 1];
	     !found && s < &ch->sources[SH_COMP_CHANNEL_SOURCES_MAX]; s++) {
		if (!s->channel || s->context != context)
			continue;
		s->users++;
		found = s->channel;
	}
	return found;
}

static struct ibv_comp_channel *shadow_find(struct sh_comp_channel *ch,
					    const struct ibv_context *context)
{
	struct ibv_comp_channel *found;

	pthread_mutex_lock(&ch->lock);
	found = shadow_find_locked(ch, context);
	pthread_mutex_unlock(&ch->lock);
	return found;
}

static struct ibv_comp_channel *shadow_make(struct sh_comp_channel *ch, struct ibv_context *context)
{
	struct ibv_comp_channel *made = sh_channel_verbs->create_comp_channel(context), *other;
	int ret = 0;

	if (!made)
		return NULL;
	sh_aside_one(&made->fd);
	pthread_mutex_lock(&ch->lock);
	other = shadow_find_locked(ch, context); /* another thread may have been quicker */
	if (!other)
		ret = source_add(ch, made);
	pthread_mutex_unlock(&ch->lock);
	if (!ret && !other)
		return made;
	sh_channel_verbs->destroy_comp_channel(made);
	errno = -ret;
	return other;
}

struct ibv_comp_channel *sh_comp_channel_shadow_get(struct ibv_comp_channel *facade,
						    struct ibv_context *context)
{
	struct sh_comp_channel *ch = channel_of(facade);
	struct ibv_comp_channel *channel;

	if (!ch) {
		errno = EINVAL;
		return NULL;
	}
	channel = shadow_find(ch, context);
	return channel ? channel : shadow_make(ch, context);
}

static struct source *source_of(struct sh_comp_channel *ch, const struct ibv_comp_channel *channel)
{
	struct source *source = &ch->sources[OWN_SOURCE + 1];

	while (source->channel != channel)
		source++;
	return source;
}

void sh_comp_channel_shadow_put(struct ibv_comp_channel *facade, struct ibv_comp_channel *shadow)
{
	struct sh_comp_channel *ch = channel_of(facade);
	struct source *source;
	bool last;

	pthread_mutex_lock(&ch->lock);
	source = source_of(ch, shadow);
	last = !--source->users;
	if (last) {
		sh_source_silence(ch, source);
		source->channel = NULL;
	}
	pthread_mutex_unlock(&ch->lock);
	if (!last)
		return;
	sh_readers_wait(&ch->readers);
	sh_channel_verbs->destroy_comp_channel(shadow);
}

/* -- making and unmaking ---------------------------------------------------------------------- */

static void channel_init(struct sh_comp_channel *ch, struct ibv_context *context)
{
	ch->facade.context = context;
	pthread_mutex_init(&ch->lock, NULL);
	sh_readers_init(&ch->readers);
	list_init(&ch->ready);
	for (uint32_t i = 0; i < SH_COMP_CHANNEL_SOURCES_MAX; i++)
		atomic_init(&ch->sources[i].fd, -1);
}

static void channel_uninit(struct sh_comp_channel *ch)
{
	sh_fdmap_uninit(&ch->cqs);
	sh_readers_uninit(&ch->readers);
	pthread_mutex_destroy(&ch->lock);
}

/* The facade's own is the one that the program has on stock. */
static int fds_open(struct sh_comp_channel *ch, int *own_fd)
{
	int ret;

	ch->facade.fd = epoll_create1(EPOLL_CLOEXEC);
	if (ch->facade.fd < 0)
		return -errno;
	ch->replay_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ch->replay_fd < 0) {
		ret = -errno;
		goto close_facade;
	}
	ch->raise_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (ch->raise_fd < 0) {
		ret = -errno;
		goto close_replay;
	}
	sh_aside((int *[]){ own_fd, &ch->replay_fd, &ch->raise_fd }, 3);
	ret = sh_channel_watch(ch, ch->raise_fd);
	if (!ret)
		return 0;
	close(ch->raise_fd);
close_replay:
	close(ch->replay_fd);
close_facade:
	close(ch->facade.fd);
	return ret;
}

static void fds_close(struct sh_comp_channel *ch)
{
	close(ch->raise_fd);
	close(ch->replay_fd);
	close(ch->facade.fd);
}

static int channel_open(struct sh_comp_channel *ch)
{
	struct ibv_comp_channel *own = sh_channel_verbs->create_comp_channel(ch->facade.context);
	int ret;

	if (!own)
		return -errno;
	ret = fds_open(ch, &own->fd);
	if (ret)
		goto destroy_own;
	ret = source_add(ch, own);
	if (!ret)
		ret = sh_fdmap_set(&sh_channel_facades, ch->facade.fd, ch);
	if (!ret)
		return 0;
	fds_close(ch);
destroy_own:
	sh_channel_verbs->destroy_comp_channel(own);
	return ret;
}

struct ibv_comp_channel *sh_comp_channel_create(struct ibv_context *context)
{
	struct sh_comp_channel *ch = calloc(1, sizeof(*ch));
	int ret;

	if (!ch) {
		errno = ENOMEM;
		return NULL;
	}
	channel_init(ch, context);
	ret = channel_open(ch);
	if (!ret)
		return &ch->facade;
	channel_uninit(ch);
	free(ch);
	errno = -ret;
	return NULL;
}

static bool channel_busy(struct sh_comp_channel *ch)
{
	bool busy;

	pthread_mutex_lock(&ch->facade.context->mutex);
	busy = ch->facade.refcnt;
	pthread_mutex_unlock(&ch->facade.context->mutex);
	return busy;
}

int sh_comp_channel_destroy(struct ibv_comp_channel *facade)
{
	struct sh_comp_channel *ch = channel_of(facade);
	int ret;

	if (!ch)
		return EINVAL;
	if (channel_busy(ch))
		return EBUSY;
	/* No longer found before its fd number can be another's. */
	sh_fdmap_set(&sh_channel_facades, facade->fd, NULL);
	ret = sh_channel_verbs->destroy_comp_channel(channel_real(ch));
	if (ret) {
		sh_fdmap_set(&sh_channel_facades, facade->fd, ch);
		return ret;
	}
	fds_close(ch);
	channel_uninit(ch);
	free(ch);
	return 0;
}
