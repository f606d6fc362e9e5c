/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The socket of this process: who may connect, and what goes in and out without waiting. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "shiftlib/admin/admin.h"
#include "shiftlib/base/aside.h"
#include "shiftlib/base/run_dir.h"
#include "shiftlib/conn/conn.h"

#define ADMIN_CLIENTS	8
#define ADMIN_BACKLOG	16
#define ADMIN_AGAIN_NS	SH_NS_PER_S /* time between two tries of accept() without a descriptor */
#define ADMIN_CLIENT_NS (5 * SH_NS_PER_S) /* time without a byte, in or out */
/* Clients that may wait for the end of the process: the other slots are for the rest. */
#define ADMIN_WAITERS 2
#define ADMIN_PIECES  4 /* pieces of an answer before other work has its turn */

/* Slots, never freed: an event of one that was closed meanwhile finds another client, or none. */
struct admin_client {
	struct sh_handler handler;
	int fd; /* -1: free */
	bool writing;
	bool waits;	  /* is kept until the process ends */
	uint64_t ends_at; /* 0: it waits as long as that takes */
	size_t got, sent;
	char request[ADMIN_REQUEST_MAX];
	struct sh_json out;
	struct admin_rest *rest;
};

/* Guarded by sh_lock(). Not in sh, which a fork's child clears. */
static struct {
	int listener;
	pid_t owner; /* the process that made the socket: a forked child must not remove it */
	struct sockaddr_un address;
	struct sh_handler handler;
	struct admin_client clients[ADMIN_CLIENTS];
	uint64_t again_at; /* when the listener is tried again; 0: it is not away */
} admin = { .listener = -1 };

/* ---- one client ----------------------------------------------------------------------------- */

static void client_forget(struct admin_client *client)
{
	close(client->fd);
	client->fd = -1;
	sh_json_free(&client->out);
	free(client->rest);
	client->rest = NULL;
}

static void client_close(struct admin_client *client)
{
	sh_loop_remove(client->fd);
	client_forget(client);
}

static void client_refuse(struct admin_client *client, const char *why)
{
	sh_json_print(&client->out, "{\"error\": ");
	sh_json_string(&client->out, why);
	sh_json_print(&client->out, "}\n");
}

/* 1: all that there is was sent; 0: the socket is full; -errno. */
static int client_send(struct admin_client *client)
{
	while (client->sent < client->out.length) {
		ssize_t n = send(client->fd, client->out.text + client->sent,
				 client->out.length - client->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		client->sent += (size_t)n;
		client->ends_at = sh_now_ns() + ADMIN_CLIENT_NS;
	}
	client->sent = client->out.length = 0;
	return 1;
}

/* The next piece of the answer; false: there is none. */
static bool client_more(struct admin_client *client)
{
	if (!client->rest)
		return false;
	if (!client->rest->more(client->rest, &client->out)) {
		free(client->rest);
		client->rest = NULL;
	}
	return true;
}

static void client_wait_writable(struct admin_client *client)
{

	if (sh_loop_wait_output(client->fd, &client->handler))
		client_close(client);
}

static void client_write(struct admin_client *client)
{
	int pieces, ret = 1;

	for (pieces = 0; pieces < ADMIN_PIECES; pieces++) {
		ret = client->out.failed ? -ENOMEM : client_send(client);
		if (ret < 0 || (ret && !client_more(client))) {
			client_close(client);
			return;
		}
		if (!ret)
			break;
	}
	client_wait_writable(client);
}

/* False: too many do, and it was told so. */
static bool client_wait_for_end(struct admin_client *client)
{
	int i, waiters = 0;

	for (i = 0; i < ADMIN_CLIENTS; i++)
		waiters += admin.clients[i].fd >= 0 && admin.clients[i].waits;
	if (waiters == ADMIN_WAITERS) {
		client_refuse(client, "two clients wait for its end already");
		return false;
	}
	client->waits = true;
	client->ends_at = 0;
	return true;
}

/* Closes a client that waits, at its next word or its end: nothing more may come from it. */
static void client_waits(struct admin_client *client)
{
	char word;
	ssize_t n = recv(client->fd, &word, 1, MSG_DONTWAIT);

	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		client_close(client);
}

/* Sends what fits without waiting: the client's socket is empty, and has room for some 200 KB. */
static void client_farewell(struct admin_client *client) SH_LOCKED
{
	admin_answer_metrics(&client->out);
	if (!client->out.failed)
		(void)client_send(client);
}

static void client_answer(struct admin_client *client) SH_LOCKED
{
	struct admin_request request;
	const char *why;

	if (admin_parse(client->request, &request, &why))
		client_refuse(client, why);
	else if (request.word == ADMIN_FAREWELL && client_wait_for_end(client))
		return;
	else
		admin_answer(&request, &client->out, &client->rest);
	client->writing = true;
	client_write(client);
}

static void client_read(struct admin_client *client) SH_LOCKED
{
	ssize_t n = recv(client->fd, client->request + client->got,
			 sizeof(client->request) - client->got, MSG_DONTWAIT);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_close(client);
		return;
	}
	client->got += (size_t)n;
	end = memchr(client->request, '\n', client->got);
	if (end) {
		*end = 0;
		client_answer(client);
	} else if (client->got == sizeof(client->request)) {
		strcpy(client->request, "too long"); /* no word: it is refused as such */
		client_answer(client);
	}
}

static void client_ready(void *arg) SH_LOCKED
{
	struct admin_client *client = arg;

	if (client->fd < 0)
		return;
	if (client->waits)
		client_waits(client);
	else if (client->writing)
		client_write(client);
	else
		client_read(client);
}

/* ---- who may connect ------------------------------------------------------------------------ */

static bool admin_may(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static struct admin_client *admin_slot(void)
{
	int i;

	for (i = 0; i < ADMIN_CLIENTS; i++)
		if (admin.clients[i].fd < 0)
			return &admin.clients[i];
	return NULL;
}

static void admin_take(int fd)
{
	struct admin_client *client = admin_may(fd) ? admin_slot() : NULL;

	if (!client) {
		close(fd);
		return;
	}
	memset(client, 0, sizeof(*client));
	client->fd = fd;
	client->handler = (struct sh_handler){ client_ready, client };
	client->ends_at = sh_now_ns() + ADMIN_CLIENT_NS;
	if (sh_loop_add(fd, &client->handler))
		client_forget(client);
}

static void admin_readable(void *arg)
{
	int fd, budget = ADMIN_CLIENTS;

	(void)arg;
	while (budget-- && admin.listener >= 0) {
		fd = accept4(admin.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			admin_take(fd);
			continue;
		}
		/* Out of fds: the loop would wake again and again. So it looks a little later. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
			sh_loop_remove(admin.listener);
			admin.again_at = sh_now_ns() + ADMIN_AGAIN_NS;
		}
		return;
	}
}

static uint64_t admin_next_timer(void)
{
	uint64_t at = admin.again_at;
	int i;

	for (i = 0; admin.listener >= 0 && i < ADMIN_CLIENTS; i++)
		if (admin.clients[i].fd >= 0) /* 0 is not earlier */
			at = sh_earlier_ns(at, admin.clients[i].ends_at);
	return at;
}

static void admin_run(uint64_t now)
{
	int i;

	for (i = 0; admin.listener >= 0 && i < ADMIN_CLIENTS; i++)
		if (admin.clients[i].fd >= 0 && admin.clients[i].ends_at &&
		    admin.clients[i].ends_at <= now)
			client_close(&admin.clients[i]);
	if (admin.again_at && admin.again_at <= now) {
		admin.again_at = 0;
		if (sh_loop_add(admin.listener, &admin.handler))
			admin.again_at = now + ADMIN_AGAIN_NS;
	}
}

/* ---- start and stop ------------------------------------------------------------------------- */

static int admin_address(const char *dir)
{
	struct sockaddr_un *address = &admin.address;
	char name[RUN_DIR_NAME_MAX];
	int n;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	run_dir_name(name, getpid(), sh.instance);
	n = snprintf(address->sun_path, sizeof(address->sun_path), "%s/%s", dir, name);
	return n < 0 || (size_t)n >= sizeof(address->sun_path) ? -ENAMETOOLONG : 0;
}

/* The name with another end, which nobody looks for. */
static void admin_first_name(struct sockaddr_un *address)
{
	static const char suffix[] = ".new";
	char *end;

	_Static_assert(sizeof(suffix) <= sizeof(RUN_DIR_SUFFIX), "it fits");
	*address = admin.address;
	end = address->sun_path + strlen(address->sun_path) - strlen(RUN_DIR_SUFFIX);
	strcpy(end, suffix);
}

/*
 * Binds another name until the socket listens: shiftctl and the exporter remove a socket on which
 * nobody listens, and this process would never be seen again.
 */
static int admin_bind(int fd)
{
	struct sockaddr_un address;
	int ret = 0;

	admin_first_name(&address);
	if (fchmod(fd, 0600)) /* becomes the mode of the socket's name */
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return -errno;
	if (listen(fd, ADMIN_BACKLOG))
		ret = -errno;
	else if (rename(address.sun_path, admin.address.sun_path))
		ret = -errno;
	if (ret)
		unlink(address.sun_path);
	return ret;
}

static int admin_listen(void) SH_LOCKED
{
	int ret, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	sh_aside_one(&fd);
	ret = admin_bind(fd);
	if (ret) {
		close(fd);
		return ret;
	}
	admin.listener = fd;
	admin.owner = getpid();
	admin.handler = (struct sh_handler){ admin_readable, NULL };
	ret = sh_loop_add(fd, &admin.handler);
	if (ret)
		sh_admin_stop();
	return ret;
}

static void admin_start(void) SH_LOCKED
{
	char dir[RUN_DIR_MAX];
	const char *why = "its name is too long for a socket";
	int i, ret;

	for (i = 0; i < ADMIN_CLIENTS; i++)
		admin.clients[i].fd = -1;
	ret = run_dir_path(sh.config.run_dir, geteuid(), dir);
	if (!ret)
		ret = run_dir_make(dir, geteuid(), &why);
	if (!ret)
		ret = admin_address(dir);
	if (!ret) {
		ret = admin_listen();
		why = strerror(-ret);
	}
	if (ret) /* a drain would count it as gone */
		sh_log(SH_LOG_WARN, "%s: %s: shiftctl does not see this process (SHIFT_RUN_DIR)",
		       dir, why);
}

void sh_admin_stop(void)
{
	int i;

	if (admin.listener < 0)
		return;
	for (i = 0; i < ADMIN_CLIENTS; i++) {
		if (admin.clients[i].fd < 0)
			continue;
		if (admin.clients[i].waits)
			client_farewell(&admin.clients[i]);
		client_close(&admin.clients[i]);
	}
	if (!admin.again_at)
		sh_loop_remove(admin.listener);
	admin.again_at = 0;
	if (admin.owner == getpid())
		unlink(admin.address.sun_path);
	close(admin.listener);
	admin.listener = -1;
}

static void admin_reset(void)
{
	int i;

	if (admin.listener < 0)
		return;
	for (i = 0; i < ADMIN_CLIENTS; i++)
		if (admin.clients[i].fd >= 0)
			client_forget(&admin.clients[i]);
	close(admin.listener);
	admin.listener = -1;
	admin.again_at = 0;
}

const struct sh_module sh_admin_module = {
	.name = "admin",
	.reset = admin_reset,
	.started = admin_start,
	.run = admin_run,
	.next_timer = admin_next_timer,
};
