/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tools/ctl_client.h"
#include "tools/json_check.h"
#include "tools/proc.h"

#define CLIENT_SMALL 4096u /* an answer that says what went wrong is no longer */

const struct ctl_patience ctl_patient = { .idle_ms = 5000, .total_ms = 60000, .most = 64u << 20 };

/* ---- asking --------------------------------------------------------------------------------- */

/* Who listens there, by the numbers here. 0, or -errno. */
static int client_peer(int fd, struct ucred *peer)
{
	socklen_t length = sizeof(*peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length) ? -errno : 0;
}

/*
 * Removes a killed process's socket; a name that is no socket stays, and so does what lies in a
 * container, whose names are not this host's to remove.
 */
static void client_remove(const struct ctl_process *process)
{
	struct stat st;

	if (!process->inside && !lstat(process->socket, &st) && S_ISSOCK(st.st_mode))
		unlink(process->socket);
}

/* Returns the connected socket, or -errno. */
static int client_reach(const char *socket_path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, rc;

	if (strlen(socket_path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, socket_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int client_connect(struct ctl_question *q)
{
	const struct ctl_process *process = q->process;
	int fd = client_reach(process->socket);
	struct ucred peer;
	int rc;

	if (fd == -ECONNREFUSED)
		client_remove(process);
	if (fd == -ECONNREFUSED || fd == -ENOENT)
		return ctl_err(q->err, -ESRCH, "it is gone");
	if (fd < 0)
		return ctl_err(q->err, fd, "its socket cannot be reached: %s", strerror(-fd));
	rc = client_peer(fd, &peer);
	if (!rc)
		q->here = peer.pid;
	if (rc || peer.uid != process->uid) {
		close(fd);
		return ctl_err(q->err, -EPERM, "another user listens there");
	}
	return fd;
}

pid_t ctl_pid_here(const char *socket_path)
{
	int fd = client_reach(socket_path);
	struct ucred peer;
	pid_t here = 0;

	if (fd < 0)
		return 0;
	if (!client_peer(fd, &peer))
		here = peer.pid;
	close(fd);
	return here;
}

static int client_parse(const char *text, size_t length, json_t **answer, char err[CTL_ERR_MAX])
{
	json_error_t error;

	if (!length)
		return ctl_err(err, -EBUSY, "it closed the connection without a reply");
	*answer = json_loadb(text, length, 0, &error);
	if (!json_is_object(*answer)) {
		json_decref(*answer);
		return ctl_err(err, -EPROTO, "its reply is not understood: %s", error.text);
	}
	return 0;
}

/* ---- many at once --------------------------------------------------------------------------- */

struct client_round {
	const struct ctl_patience *patience;
	long begun_ms;
	struct pollfd *fds;
	struct ctl_question **asked; /* questions by their place in fds */
	nfds_t n;
};

static long client_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int question_grow(struct ctl_question *q, size_t most)
{
	size_t wanted = q->room ? q->room * 2 : 16384;
	char *grown = wanted <= most ? realloc(q->text, wanted) : NULL;

	if (!grown)
		return ctl_err(q->err, -ENOMEM, "its reply is too long");
	q->text = grown;
	q->room = wanted;
	return 0;
}

/*
 * Says why a connection was closed without an answer, by whether somebody listens yet: a process
 * that has ended is gone for whoever asks.
 */
static int question_cut(struct ctl_question *q)
{
	int fd = client_reach(q->process->socket);

	if (fd == -ECONNREFUSED || fd == -ENOENT)
		return ctl_err(q->err, -ESRCH, "it ended before it answered");
	if (fd >= 0)
		close(fd);
	return ctl_err(q->err, -EBUSY,
		       "it closed the connection before it answered: more ask it at the same time "
		       "than it serves");
}

/* A process that cannot accept() for want of a descriptor is as silent as one that is stopped. */
static int question_late(struct ctl_question *q)
{
	if (q->here && proc_files_full(q->here))
		return ctl_err(q->err, -EMFILE,
			       "it does not answer: it has no file descriptor left (ulimit -n)");
	return ctl_err(q->err, -ETIMEDOUT, "it does not answer");
}

/* All that is there. -EINPROGRESS: more may come; 0: it was the end. */
static int question_receive(struct ctl_question *q, size_t most)
{
	ssize_t n;
	int rc;

	for (;;) {
		rc = q->length == q->room ? question_grow(q, most) : 0;
		if (rc)
			return rc;
		n = recv(q->fd, q->text + q->length, q->room - q->length, MSG_DONTWAIT);
		if (!n)
			return 0;
		if (n > 0)
			q->length += (size_t)n;
		else if (errno == EAGAIN || errno == EINTR)
			return -EINPROGRESS;
		else if (errno == ECONNRESET)
			return question_cut(q);
		else
			return ctl_err(q->err, -errno, "%s", strerror(errno));
	}
}

static void question_end(struct ctl_question *q)
{
	bool parse = !q->rc && !(q->raw && q->length > CLIENT_SMALL);

	if (!q->rc && !parse && !json_check(q->text, q->length))
		q->rc = ctl_err(q->err, -EPROTO, "its reply is truncated");
	if (parse)
		q->rc = client_parse(q->text, q->length, &q->answer, q->err);
	if (q->fd >= 0)
		close(q->fd);
	q->fd = -1;
	if (!q->rc && !parse)
		return;
	free(q->text);
	q->text = NULL;
}

void ctl_ask_begin(struct ctl_question *q, const char *request)
{
	char line[256];

	q->fd = client_connect(q);
	q->rc = q->fd < 0 ? q->fd : -EINPROGRESS;
	q->heard_ms = client_now_ms();
	snprintf(line, sizeof(line), "%s\n", request);
	/* A short line into an empty socket fits, or the other end is gone. */
	if (q->fd >= 0 && send(q->fd, line, strlen(line), MSG_NOSIGNAL) < 0)
		q->rc = question_cut(q);
	if (q->rc != -EINPROGRESS)
		question_end(q);
}

void ctl_ask_readable(struct ctl_question *q, size_t most)
{
	q->heard_ms = client_now_ms();
	q->rc = question_receive(q, most);
	if (q->rc != -EINPROGRESS)
		question_end(q);
}

void ctl_ask_end(struct ctl_question *q)
{
	if (q->rc == -EINPROGRESS) {
		q->rc = -ECANCELED;
		question_end(q);
	}
	json_decref(q->answer);
	free(q->text);
	*q = (struct ctl_question){ .fd = -1 };
}

/* Milliseconds left to it. */
static long question_left(const struct ctl_question *q, const struct client_round *round, long now)
{
	long idle = q->heard_ms + round->patience->idle_ms - now;
	long total = round->begun_ms + round->patience->total_ms - now;

	return idle < total ? idle : total;
}

/*
 * Gathers the questions without an answer. Returns the shortest time that one of them has left, 0
 * if none is left.
 */
static long round_gather(struct client_round *round, struct ctl_question *q, unsigned n)
{
	long now = client_now_ms(), least = LONG_MAX;

	round->n = 0;
	for (unsigned i = 0; i < n; i++) {
		long left = question_left(&q[i], round, now);

		if (q[i].rc != -EINPROGRESS)
			continue;
		if (left <= 0) {
			q[i].rc = question_late(&q[i]);
			question_end(&q[i]);
			continue;
		}
		round->fds[round->n] = (struct pollfd){ .fd = q[i].fd, .events = POLLIN };
		round->asked[round->n++] = &q[i];
		least = left < least ? left : least;
	}
	return round->n ? least : 0;
}

static void round_run(struct client_round *round, struct ctl_question *q, unsigned n)
{
	long left;

	while ((left = round_gather(round, q, n))) {
		if (poll(round->fds, round->n, left < INT_MAX ? (int)left : INT_MAX) <= 0)
			continue;
		for (nfds_t i = 0; i < round->n; i++)
			if (round->fds[i].revents)
				ctl_ask_readable(round->asked[i], round->patience->most);
	}
}

int ctl_ask_all(struct ctl_question *questions, unsigned n, const struct ctl_patience *patience,
		const char *request)
{
	struct client_round round = { .patience = patience, .begun_ms = client_now_ms() };
	int rc = 0;

	round.fds = calloc(n + 1, sizeof(*round.fds));
	round.asked = calloc(n + 1, sizeof(*round.asked));
	if (!round.fds || !round.asked) {
		rc = -ENOMEM;
		goto free_round;
	}
	for (unsigned i = 0; i < n; i++)
		ctl_ask_begin(&questions[i], request);
	round_run(&round, questions, n);
free_round:
	free(round.fds);
	free(round.asked);
	return rc;
}

int ctl_ask(const struct ctl_process *process, pid_t *here, json_t **answer, char err[CTL_ERR_MAX],
	    const char *request, ...)
{
	struct ctl_question question = { .process = process };
	char line[255];
	va_list ap;

	va_start(ap, request);
	vsnprintf(line, sizeof(line), request, ap);
	va_end(ap);
	if (ctl_ask_all(&question, 1, &ctl_patient, line))
		return ctl_err(err, -ENOMEM, "out of memory");
	memcpy(err, question.err, CTL_ERR_MAX);
	*here = question.here;
	*answer = question.answer;
	return question.rc;
}

/* ---- small things --------------------------------------------------------------------------- */

int ctl_number(const char *text, long min, long max, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return errno || end == text || *end || *out < min || *out > max ? -EINVAL : 0;
}

long long ctl_int(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

bool ctl_true(const json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

const char *ctl_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

const char *ctl_address(const char *gid)
{
	static const char mapped[] = "::ffff:";

	if (strncmp(gid, mapped, sizeof(mapped) - 1) || !strchr(gid, '.'))
		return gid;
	return gid + sizeof(mapped) - 1;
}
