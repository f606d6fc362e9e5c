/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "shiftlib/facade/async.h"
#include "shiftlib/facade/async_hand.h"
#include "shiftlib/facade/async_hidden.h"
#include "shiftlib/facade/event_about.h"
#include "shiftlib/base/aside.h"
#include "shiftlib/base/fd.h"
#include "shiftlib/base/util.h"

struct entry {
	struct ibv_async_event event;
	bool real; /* read from the kernel: libibverbs counts its acknowledgement */
};

/* An event that SHIFT made about an object and that the application has not acknowledged. */
struct made {
	const void *object;
	enum ibv_event_type type;
};

struct sh_async {
	struct ibv_context *context;
	int real_fd, facade_fd;
	pthread_mutex_t lock; /* all below, context->async_fd, and writes and reads of facade_fd */
	pthread_cond_t idle;  /* a slot of dying[] became free */
	uint32_t real_depth;  /* calls under way that need the real fd */
	struct entry *queue;
	uint32_t head, count, room; /* facade_fd is readable exactly while count > 0 */
	const void *dying[SH_ASYNC_DYING_MAX];
	uint32_t n_dying;
	struct made *made;
	uint32_t n_made, made_room;
	struct sh_async_hidden hidden;
	struct sh_async_hand hand;
};

static const struct shift_real *real;
static struct sh_fdmap contexts; /* found by cmd_fd, as async_fd changes */

void sh_async_setup(const struct shift_real *verbs)
{
	real = verbs;
}

struct sh_async *sh_async_of(struct ibv_context *context)
{
	struct sh_async *async = sh_fdmap_get(&contexts, context->cmd_fd);

	return async && async->context == context ? async : NULL;
}

static const void *event_object(const struct ibv_async_event *event)
{
	return sh_event_about(event).object;
}

static void real_ack(const struct ibv_async_event *event)
{
	struct ibv_async_event copy = *event;

	real->ack_async_event(&copy);
}

/* Reading the facade is a cancellation point, and the application may cancel its event thread. */
static int async_lock(struct sh_async *async)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&async->lock);
	return state;
}

static void async_unlock(struct sh_async *async, int state)
{
	pthread_mutex_unlock(&async->lock);
	pthread_setcancelstate(state, NULL);
}

/* -- the queue; lock held --------------------------------------------------------------------- */

static struct entry *queue_at(struct sh_async *async, uint32_t i)
{
	return &async->queue[(async->head + i) % async->room];
}

static uint32_t more_room(uint32_t room)
{
	return room ? 2 * room : 64;
}

/*
 * Makes a place more. The kernel's own queue has no bound, and a job's hundreds of queue pairs
 * may end at once.
 */
static int queue_grow(struct sh_async *async)
{
	uint32_t room = more_room(async->room);
	struct entry *queue;

	if (async->count < async->room)
		return 0;
	queue = room <= SH_ASYNC_QUEUE_MAX ? malloc(room * sizeof(*queue)) : NULL;
	if (!queue)
		return -ENOSPC;
	for (uint32_t i = 0; i < async->count; i++)
		queue[i] = *queue_at(async, i);
	free(async->queue);
	async->queue = queue;
	async->head = 0;
	async->room = room;
	return 0;
}

/* Neither call can block: the eventfd holds 1 exactly while the queue is not empty. */
static void readable_update(struct sh_async *async, uint32_t count_before)
{
	uint64_t value = 1;
	ssize_t n = sizeof(value);

	if (!count_before && async->count)
		n = write(async->facade_fd, &value, sizeof(value));
	else if (count_before && !async->count)
		n = read(async->facade_fd, &value, sizeof(value));
	if (n != sizeof(value))
		abort();
	sh_hand_show(&async->hand, async->count);
}

static void queue_append(struct sh_async *async, const struct ibv_async_event *event, bool is_real)
{
	*queue_at(async, async->count++) = (struct entry){ *event, is_real };
	readable_update(async, async->count - 1);
}

static int queue_pop(struct sh_async *async, struct ibv_async_event *event)
{
	if (!async->count)
		return -EAGAIN;
	*event = queue_at(async, 0)->event;
	async->head = (async->head + 1) % async->room;
	async->count--;
	readable_update(async, async->count + 1);
	return 0;
}

/* object NULL: all. */
static void queue_take_back(struct sh_async *async, const void *object)
{
	uint32_t before = async->count, kept = 0;

	for (uint32_t i = 0; i < before; i++) {
		struct entry entry = *queue_at(async, i);

		if (object && event_object(&entry.event) != object)
			*queue_at(async, kept++) = entry;
		else if (entry.real)
			real_ack(&entry.event);
	}
	async->count = kept;
	readable_update(async, before);
}

static bool is_dying(const struct sh_async *async, const void *object)
{
	for (uint32_t i = 0; object && i < async->n_dying; i++)
		if (async->dying[i] == object)
			return true;
	return false;
}

/* -- events that SHIFT made; lock held -------------------------------------------------------- */

static int made_grow(struct sh_async *async)
{
	uint32_t room = more_room(async->made_room);
	struct made *made = NULL;

	if (room <= SH_ASYNC_QUEUE_MAX)
		made = realloc(async->made, room * sizeof(*made));
	if (!made)
		return -ENOSPC;
	async->made = made;
	async->made_room = room;
	return 0;
}

static int made_add(struct sh_async *async, const struct ibv_async_event *event)
{
	const void *object = event_object(event);

	if (!object)
		return 0;
	if (async->n_made == async->made_room && made_grow(async))
		return -ENOSPC;
	async->made[async->n_made++] = (struct made){ object, event->event_type };
	return 0;
}

static bool made_take(struct sh_async *async, const struct ibv_async_event *event)
{
	const void *object = event_object(event);

	for (uint32_t i = 0; i < async->n_made; i++) {
		struct made *made = &async->made[i];

		if (made->object != object || made->type != event->event_type)
			continue;
		*made = async->made[--async->n_made];
		return true;
	}
	return false;
}

static void made_forget(struct sh_async *async, const void *object)
{
	for (uint32_t i = async->n_made; i-- > 0;)
		if (async->made[i].object == object)
			async->made[i] = async->made[--async->n_made];
}

/* -- making and unmaking ---------------------------------------------------------------------- */

static int async_open(struct sh_async *async)
{
	int ret = sh_fd_set_nonblock(async->real_fd, 1);

	if (ret)
		return ret;
	async->facade_fd = eventfd(0, EFD_CLOEXEC);
	if (async->facade_fd < 0) {
		ret = -errno;
		goto real_blocking;
	}
	ret = sh_hand_open(&async->hand);
	if (ret)
		goto close_facade;
	ret = sh_fdmap_set(&contexts, async->context->cmd_fd, async);
	if (!ret) {
		sh_aside_shown((int *[]){ &async->real_fd }, 1);
		return 0;
	}
	sh_hand_close(&async->hand);
close_facade:
	close(async->facade_fd);
real_blocking:
	sh_fd_set_nonblock(async->real_fd, 0);
	return ret;
}

struct sh_async *sh_async_init(struct ibv_context *context)
{
	struct sh_async *async = calloc(1, sizeof(*async));
	int ret;

	if (!async) {
		errno = ENOMEM;
		return NULL;
	}
	async->context = context;
	async->real_fd = context->async_fd;
	pthread_mutex_init(&async->lock, NULL);
	pthread_cond_init(&async->idle, NULL);
	ret = async_open(async);
	if (!ret) {
		context->async_fd = async->facade_fd;
		return async;
	}
	pthread_cond_destroy(&async->idle);
	pthread_mutex_destroy(&async->lock);
	free(async);
	errno = -ret;
	return NULL;
}

void sh_async_uninit(struct sh_async *async)
{
	int state;

	sh_fdmap_set(&contexts, async->context->cmd_fd, NULL);
	state = async_lock(async);
	queue_take_back(async, NULL);
	async->context->async_fd = async->real_fd;
	async_unlock(async, state);
	sh_fd_set_nonblock(async->real_fd, 0);
	close(async->facade_fd);
	sh_hand_close(&async->hand);
	pthread_cond_destroy(&async->idle);
	pthread_mutex_destroy(&async->lock);
	free(async->queue);
	free(async->made);
	sh_hidden_uninit(&async->hidden);
	free(async);
}

/* -- the real fd ------------------------------------------------------------------------------ */

static void real_begin(struct sh_async *async)
{
	int state = async_lock(async);

	if (!async->real_depth++)
		async->context->async_fd = async->real_fd;
	async_unlock(async, state);
}

static void real_end(struct sh_async *async)
{
	int state = async_lock(async);

	if (!--async->real_depth)
		async->context->async_fd = async->facade_fd;
	async_unlock(async, state);
}

void shift_async_real_begin(struct ibv_context *context)
{
	struct sh_async *async = sh_async_of(context);

	if (async)
		real_begin(async);
}

void shift_async_real_end(struct ibv_context *context)
{
	struct sh_async *async = sh_async_of(context);

	if (async)
		real_end(async);
}

int sh_async_real_fd(const struct sh_async *async)
{
	return async->real_fd;
}

/* While an object is made, libibverbs finds the device's file at context->async_fd. */
static int read_there(struct sh_async *async, struct ibv_async_event *event)
{
	struct pollfd ready = { .fd = async->real_fd, .events = POLLIN };

	if (poll(&ready, 1, 0) <= 0)
		return -EAGAIN;
	errno = 0;
	return real->get_async_event(async->context, event) ? sh_errno_or(EIO) : 0;
}

int sh_async_read_real(struct sh_async *async, struct ibv_async_event *event)
{
	int state = async_lock(async), ret;

	if (async->real_depth)
		ret = read_there(async, event);
	else
		ret = sh_hand_read(&async->hand, async->context, async->real_fd,
				   real->get_async_event, event);
	async_unlock(async, state);
	return ret;
}

/* -- what the application sees ---------------------------------------------------------------- */

static int push_locked(struct sh_async *async, const struct ibv_async_event *event, bool is_real)
{
	int ret;

	if (is_dying(async, event_object(event)))
		return -ESTALE;
	ret = queue_grow(async);
	if (!ret && !is_real)
		ret = made_add(async, event);
	if (!ret)
		queue_append(async, event, is_real);
	return ret;
}

int sh_async_push(struct sh_async *async, const struct ibv_async_event *event, bool read_from_real)
{
	int state = async_lock(async);
	int ret = push_locked(async, event, read_from_real);

	/* The lock is still held: a destroy that is under way waits for this acknowledgement. */
	if (ret && read_from_real)
		real_ack(event);
	async_unlock(async, state);
	return ret == -ESTALE ? 0 : ret;
}

void sh_async_drop(struct sh_async *async, const struct ibv_async_event *event)
{
	real_ack(event);
}

void sh_async_hide(struct sh_async *async, const struct ibv_async_event *event)
{
	int state = async_lock(async);

	if (is_dying(async, event_object(event)) || !sh_hidden_drop(&async->hidden, event))
		real_ack(event);
	async_unlock(async, state);
}

void sh_async_forget_begin(struct sh_async *async, const void *object)
{
	int state;

	if (!async)
		return;
	state = async_lock(async);
	while (async->n_dying == SH_ASYNC_DYING_MAX)
		pthread_cond_wait(&async->idle, &async->lock);
	async->dying[async->n_dying++] = object;
	queue_take_back(async, object);
	made_forget(async, object);
	sh_hidden_settle(&async->hidden, object);
	async_unlock(async, state);
}

void sh_async_forget_end(struct sh_async *async, const void *object, bool lives)
{
	int state;

	if (!async)
		return;
	state = async_lock(async);
	for (uint32_t i = 0; i < async->n_dying; i++) {
		if (async->dying[i] != object)
			continue;
		async->dying[i] = async->dying[--async->n_dying];
		break;
	}
	sh_hidden_settled(&async->hidden, object, lives);
	pthread_cond_signal(&async->idle);
	async_unlock(async, state);
}

static int async_take(struct sh_async *async, struct ibv_async_event *event)
{
	int state = async_lock(async);
	int ret = queue_pop(async, event);

	async_unlock(async, state);
	return ret;
}

int shift_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct sh_async *async = sh_async_of(context);
	int ret;

	if (!async)
		return real->get_async_event(context, event);
	do {
		ret = async_take(async, event);
		if (!ret)
			return 0;
		if (ret == -EAGAIN)
			ret = sh_fd_wait(async->facade_fd);
	} while (!ret);
	errno = -ret;
	return -1;
}

void shift_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_context *context = sh_event_about(event).context;
	struct sh_async *async = context ? sh_async_of(context) : NULL;
	bool made = false;
	int state;

	if (async) {
		state = async_lock(async);
		made = made_take(async, event);
		if (made)
			sh_hidden_acked(&async->hidden, event);
		async_unlock(async, state);
	}
	if (!made)
		real->ack_async_event(event);
}
