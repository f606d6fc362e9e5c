/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/cm/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "simnic/cm/id.h"
#include "simnic/cm/pool.h"
#include "simnic/fabric/fd.h"

static struct sn_cm_pool file_pool = { .size = sizeof(struct sn_cm_file) };
static struct sn_cm_pool event_pool = { .size = sizeof(struct sn_cm_event) };

/* ---- the file ------------------------------------------------------------------------------- */

static int pair_make(struct sn_cm_file *file)
{
	socklen_t size = sizeof(file->cookie);
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	file->app_dup = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
	file->app_fd = pair[0];
	file->dev_fd = pair[1];
	if (file->app_dup >= 0 && !getsockopt(pair[0], SOL_SOCKET, SO_COOKIE, &file->cookie, &size))
		return 0;
	if (file->app_dup >= 0)
		sn_fd_close_own(file->app_dup);
	sn_fd_close_own(pair[0]);
	sn_fd_close_own(pair[1]);
	return -EMFILE;
}

int sn_cm_file_make(struct sn_cm_file **out)
{
	struct sn_cm_file *file = sn_cm_pool_get(&file_pool);
	int err = file ? pair_make(file) : -ENOMEM;

	if (err) {
		if (file)
			sn_cm_pool_put(&file_pool, file);
		return err;
	}
	file->numbers = 1;
	*out = file;
	return 0;
}

void sn_cm_file_free(struct sn_cm_file *file)
{
	sn_fd_close_own(file->app_dup);
	sn_fd_close_own(file->dev_fd);
	sn_cm_pool_put(&file_pool, file);
}

/* ---- its events ----------------------------------------------------------------------------- */

static void bytes_add(struct sn_cm_file *file)
{
	/* A full socket has bytes enough. */
	if (send(file->dev_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		file->n_bytes++;
}

static void bytes_drop(struct sn_cm_file *file)
{
	char byte;

	while (file->n_bytes > file->n_events) {
		if (recv(file->app_dup, &byte, 1, MSG_DONTWAIT) < 0 && errno != EINTR)
			return;
		file->n_bytes--;
	}
}

static void append(struct sn_cm_file *file, struct sn_cm_event *event)
{
	event->next = NULL;
	if (file->last)
		file->last->next = event;
	else
		file->first = event;
	file->last = event;
	file->n_events++;
	bytes_add(file);
}

/* Takes the event behind @before (NULL: the first one). */
static struct sn_cm_event *take(struct sn_cm_file *file, struct sn_cm_event *before)
{
	struct sn_cm_event *event = before ? before->next : file->first;

	if (!event)
		return NULL;
	if (before)
		before->next = event->next;
	else
		file->first = event->next;
	if (file->last == event)
		file->last = before;
	file->n_events--;
	bytes_drop(file);
	return event;
}

struct rdma_ucm_event_resp *sn_cm_tell(struct sn_cm_id *id, uint32_t event, int32_t status)
{
	static struct rdma_ucm_event_resp dropped;
	struct sn_cm_event *new = id->uid ? sn_cm_pool_get(&event_pool) : NULL;

	if (!new)
		return &dropped;
	new->of = id;
	new->resp.uid = id->uid;
	new->resp.id = id->handle;
	new->resp.event = event;
	new->resp.status = (uint32_t)status;
	append(id->file, new);
	return &new->resp;
}

int sn_cm_tell_request(struct sn_cm_id *listener, struct sn_cm_id *request,
		       struct rdma_ucm_event_resp **out)
{
	struct sn_cm_event *new = sn_cm_pool_get(&event_pool);

	if (!new)
		return -ENOMEM;
	new->of = listener;
	new->request = request;
	new->resp.uid = listener->uid;
	new->resp.id = request->handle;
	append(listener->file, new);
	*out = &new->resp;
	return 0;
}

struct sn_cm_event *sn_cm_file_first(struct sn_cm_file *file)
{
	return take(file, NULL);
}

struct sn_cm_event *sn_cm_file_take(struct sn_cm_file *file, const struct sn_cm_id *id)
{
	struct sn_cm_event *event, *before = NULL;

	for (event = file->first; event; event = event->next) {
		if (event->of == id || event->request == id)
			return take(file, before);
		before = event;
	}
	return NULL;
}

void sn_cm_file_move(struct sn_cm_id *id, struct sn_cm_file *to)
{
	struct sn_cm_file *from = id->file;
	struct sn_cm_event *event, *before = NULL, *next;

	for (event = from->first; event; event = next) {
		next = event->next;
		if (event->of == id)
			append(to, take(from, before));
		else
			before = event;
	}
	id->file = to;
}

void sn_cm_event_free(struct sn_cm_event *event)
{
	sn_cm_pool_put(&event_pool, event);
}

void sn_cm_files_forget(void)
{
	file_pool.free = event_pool.free = NULL;
}
