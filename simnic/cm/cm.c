/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Files by file descriptor, and the guest's part of the device. */
#include "simnic/cm/cm.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "simnic/cm/command.h"
#include "simnic/cm/connect.h"
#include "simnic/cm/file.h"
#include "simnic/cm/gone.h"
#include "simnic/cm/id.h"
#include "simnic/cm/retry.h"
#include "simnic/device/device.h"
#include "simnic/fabric/check.h"

#define MAX_FDS 65536

/* Changed with the lock held. Read without it as a hint only. */
static _Atomic(struct sn_cm_file *) by_fd[MAX_FDS];
static struct sn_cm_file foreign; /* stands for a file of the process that forked this one */

/* ---- the guest ------------------------------------------------------------------------------ */

static bool guest_run(uint64_t now_ns)
{
	bool gone = sn_cm.fabric && sn_cm_gone_run(now_ns);

	return sn_cm_retry_run(now_ns) || gone;
}

static uint64_t guest_next_ns(void)
{
	uint64_t look = sn_cm_gone_next_ns();

	return look < sn_cm.due_ns ? look : sn_cm.due_ns;
}

static void guest_receive(const struct sn_pkt *pkt)
{
	if (sn_cm.fabric)
		sn_cm_receive(pkt);
}

static bool started(void)
{
	bool yes;

	sn_lock();
	yes = sn_cm.fabric != NULL;
	sn_unlock();
	return yes;
}

/* Two threads may do so at once: both write the same. */
static int start(struct sn_fabric *fabric, uint32_t host)
{
	static const struct sn_device_guest guest = { guest_run, guest_next_ns, guest_receive };
	uint32_t slot;
	int err;

	if (started())
		return 0;
	err = sn_device_take_guest(&guest, &slot);
	if (err)
		return err;
	sn_lock();
	sn_cm.host = host;
	sn_cm.slot = slot;
	sn_cm.fabric = fabric; /* last: now it runs */
	sn_unlock();
	return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

int sn_cm_open(struct sn_fabric *fabric, uint32_t host)
{
	struct sn_cm_file *file;
	int err = start(fabric, host), fd = -1;

	if (err)
		return err;
	sn_lock();
	err = sn_cm_file_make(&file);
	if (!err) {
		fd = file->app_fd;
		if (fd >= MAX_FDS)
			err = -EMFILE;
		else
			atomic_store(&by_fd[fd], file);
		if (err)
			sn_cm_file_free(file);
	}
	sn_unlock();
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

static struct sn_cm_file *hint(int fd)
{
	return fd < 0 || fd >= MAX_FDS ? NULL
				       : atomic_load_explicit(&by_fd[fd], memory_order_relaxed);
}

/*
 * True if the number is still the file's: programs may give it to another one without a close that
 * we see (dup2(), close_range()). Of a file from before a fork it is known that it was a socket.
 */
static bool is_still(int fd, const struct sn_cm_file *file)
{
	uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size))
		return false;
	return file == &foreign || cookie == file->cookie;
}

/* Ends a file that nobody has open any more, as soon as its last command is over. */
static void file_put(struct sn_cm_file *file)
{
	struct sn_cm_id *id;
	uint32_t handle = 0;

	if (file->numbers || file->users)
		return;
	for (id = sn_cm_id_next(0); id; id = sn_cm_id_next(handle + 1)) {
		handle = id->handle;
		if (id->file == file)
			sn_cm_id_destroy(id);
	}
	sn_cm_file_free(file);
}

static void number_drop(int fd)
{
	struct sn_cm_file *file = atomic_exchange(&by_fd[fd], NULL);

	if (!file || file == &foreign)
		return;
	SN_ASSERT(file->numbers);
	file->numbers--;
	file_put(file);
}

bool sn_cm_is(int fd)
{
	struct sn_cm_file *file;
	bool is;

	if (!hint(fd))
		return false;
	sn_lock();
	file = atomic_load(&by_fd[fd]);
	is = file && is_still(fd, file);
	if (file && !is)
		number_drop(fd);
	sn_unlock();
	return is;
}

int sn_cm_file_of(int fd, struct sn_cm_file **out)
{
	*out = fd < 0 || fd >= MAX_FDS ? NULL : atomic_load(&by_fd[fd]);
	if (!*out)
		return fcntl(fd, F_GETFD) < 0 ? -ENOENT : -EINVAL;
	return *out == &foreign ? -EACCES : 0;
}

void sn_cm_closed(int fd)
{
	if (!hint(fd))
		return;
	sn_lock();
	number_drop(fd);
	sn_unlock();
}

void sn_cm_duplicated(int fd, int number)
{
	struct sn_cm_file *file;

	if (!hint(fd) || number < 0 || number >= MAX_FDS)
		return;
	sn_lock();
	file = atomic_load(&by_fd[fd]);
	atomic_store(&by_fd[number], file);
	if (file && file != &foreign)
		file->numbers++;
	sn_unlock();
}

void sn_cm_forget_after_fork(void)
{
	for (int fd = 0; fd < MAX_FDS; fd++)
		if (atomic_load_explicit(&by_fd[fd], memory_order_relaxed))
			atomic_store_explicit(&by_fd[fd], &foreign, memory_order_relaxed);
	sn_cm_ids_forget();
	sn_cm_files_forget();
	sn_cm_gone_forget();
}

/* ---- what is written ------------------------------------------------------------------------ */

/*
 * Waits for an event, unless the file's flags say not to. It is the duplicate that is waited on: a
 * call that has begun outlives a close() of the number, as in the kernel.
 */
static int await_event(const struct sn_cm_file *file)
{
	char byte;

	if (recv(file->app_dup, &byte, 1, MSG_PEEK) < 0)
		return -errno;
	return 0;
}

static int get_event(struct sn_cm_file *file, const struct rdma_ucm_cmd_hdr *hdr, const void *in)
{
	int err;

	for (;;) {
		sn_lock();
		err = sn_cm_get_event(file, hdr, in);
		sn_unlock();
		if (err != -EAGAIN)
			return err;
		err = await_event(file);
		if (err)
			return err;
	}
}

static int run(struct sn_cm_file *file, const struct rdma_ucm_cmd_hdr *hdr, const void *in)
{
	int err;

	if (hdr->cmd == RDMA_USER_CM_CMD_GET_EVENT)
		return get_event(file, hdr, in);
	sn_lock();
	err = sn_cm_command(file, hdr, in);
	sn_unlock();
	return err;
}

static int file_get(int fd, struct sn_cm_file **out)
{
	int err;

	sn_lock();
	err = sn_cm_file_of(fd, out);
	if (!err)
		(*out)->users++;
	sn_unlock();
	return err && err != -EACCES ? -EBADF : err;
}

static void file_release(void *arg)
{
	struct sn_cm_file *file = arg;

	sn_lock();
	file->users--;
	file_put(file);
	sn_unlock();
}

ssize_t sn_cm_write(int fd, const void *command, size_t len)
{
	struct rdma_ucm_cmd_hdr hdr = { 0 };
	struct sn_cm_file *file;
	int err = file_get(fd, &file);

	if (err)
		return err;
	pthread_cleanup_push(file_release, file); /* a thread that waits may be cancelled */
	memcpy(&hdr, command, len < sizeof(hdr) ? len : sizeof(hdr));
	if (len < sizeof(hdr) || hdr.in + sizeof(hdr) > len)
		err = -EINVAL;
	else
		err = run(file, &hdr, (const char *)command + sizeof(hdr));
	pthread_cleanup_pop(1);
	return err ? err : (ssize_t)len;
}
