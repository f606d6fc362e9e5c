// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * forks: a program that forks while its other threads are inside verbs of every kind. Each child begins anew, as
 * rdma-core lets it: the child opens the device, makes its own objects, sends itself messages, and ends.
 * Nothing of the parent's is used there. A child that hangs is named, with the place where it does.
 */
#include "tests/lib/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shiftlib/base/util.h"
#include "tests/lib/random.h"

enum { FORKERS = 2, HANDLERS = 10, CHILD_S = 60, MESSAGES = 8 };

struct options opt = { .port = 18515, .timeout = 16, .dev = "mlx5_0" };

extern char **environ;

static struct ibv_device *device; /* the list that it is of lives as long as the program */
static struct nic parent;
static atomic_bool ending;
static atomic_int left; /* forks to come */
static atomic_int in_handlers;

/* ---- a device, and a connection to itself --------------------------------------------------- */

static void nic_begin(struct nic *nic)
{
	memset(nic, 0, sizeof(*nic));
	nic->ctx = ibv_open_device(device);
	must(nic->ctx, "ibv_open_device");
	must_zero(ibv_query_port(nic->ctx, PORT, &nic->port), "ibv_query_port");
	must_zero(ibv_query_gid(nic->ctx, PORT, opt.gid_index, &nic->gid), "ibv_query_gid");
	nic->pd = ibv_alloc_pd(nic->ctx);
	must(nic->pd, "ibv_alloc_pd");
}

static void conn_to_itself(struct conn *c, struct nic *nic, struct ibv_comp_channel *channel)
{
	conn_make_on(c, nic, channel, NULL);
	conn_set_own(c);
	c->peer = c->own;
	conn_to_init(c);
	conn_lay(c);
	conn_to_rts_alone(c);
}

/* ---- threads of the parent: verbs of every kind ---------------------------------------------- */

static void busy_query(void)
{
	struct ibv_port_attr port;

	must_zero(ibv_query_port(parent.ctx, PORT, &port), "ibv_query_port");
}

static void busy_memory(void)
{
	static uint8_t memory[PART] __attribute__((aligned(4096)));
	struct ibv_mr *mr = ibv_reg_mr(parent.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);

	must(mr, "ibv_reg_mr");
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static void busy_objects(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(parent.ctx);
	struct conn c;

	must(channel, "ibv_create_comp_channel");
	conn_to_itself(&c, &parent, channel);
	conn_talk(&c, 1);
	conn_free(&c);
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
}

static void busy_devices(void)
{
	struct nic nic;

	nic_begin(&nic);
	nic_close(&nic);
}

static void busy_data(void)
{
	static struct conn c;

	if (!c.qp)
		conn_to_itself(&c, &parent, NULL);
	conn_talk(&c, MESSAGES);
}

/* It waits for completions, and acknowledges them. */
static void busy_events(void)
{
	static struct ibv_comp_channel *channel;
	static struct conn c;
	struct ibv_cq *cq;
	void *context;

	if (!channel) {
		channel = ibv_create_comp_channel(parent.ctx);
		must(channel, "ibv_create_comp_channel");
		conn_to_itself(&c, &parent, channel);
	}
	must_zero(ibv_req_notify_cq(c.cq, 0), "ibv_req_notify_cq");
	conn_talk(&c, 1);
	must_zero(ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static void busy_async(void)
{
	struct ibv_async_event event;

	if (!ibv_get_async_event(parent.ctx, &event))
		ibv_ack_async_event(&event);
}

static void (*const busy[])(void) = { busy_query,  busy_query,	 busy_query,
				      busy_memory, busy_objects, busy_devices,
				      busy_data,   busy_events,	 busy_async };

enum { BUSY = sizeof(busy) / sizeof(busy[0]) };

static void *busy_main(void *arg)
{
	void (*verb)(void) = *(void (*const *)(void))arg;

	while (!atomic_load(&ending))
		verb();
	return NULL;
}

/* ---- children -------------------------------------------------------------------------------- */

static void child_opens(void)
{
	struct nic nic;
	struct conn c;

	nic_begin(&nic);
	conn_to_itself(&c, &nic, NULL);
	conn_talk(&c, MESSAGES);
	conn_free(&c);
	nic_close(&nic);
}

/* Whether the NIC answers a child is the driver's matter; the software ConnectX does not. */
static void child_asks_of_the_parents(void)
{
	struct ibv_port_attr port;

	ibv_query_port(parent.ctx, PORT, &port);
	child_opens();
}

static void child_closes_the_parents(void)
{
	ibv_close_device(parent.ctx);
	child_opens();
}

static void child_closes_files(void)
{
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	child_opens();
}

static void child_forks(void)
{
	pid_t pid = fork();
	int status = 1;

	must(pid >= 0, "fork in a child");
	if (!pid) {
		child_opens();
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && !status, "a child's child");
}

static void child_runs_another(void)
{
	execl("/bin/true", "true", (char *)NULL);
	must(false, "exec");
}

/* What uses nothing of the child but exits through its destructors. */
static void child_nothing(void)
{
	exit(0);
}

static void (*const kinds[])(void) = {
	child_opens,	    child_opens, child_asks_of_the_parents, child_closes_the_parents,
	child_closes_files, child_forks, child_runs_another,	    child_nothing
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void show(pid_t pid, const char *what)
{
	char path[64], text[4096];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = 0;
	say("%s: %s", what, text);
}

/* A number is told of each child, so that one that hangs can be looked at. */
static void child_await(pid_t pid, uint32_t kind)
{
	struct pollfd wait = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	int status = -1;

	must(wait.fd >= 0, "pidfd_open");
	if (poll(&wait, 1, CHILD_S * 1000) != 1) {
		say("HUNG child %d of kind %u", (int)pid, kind);
		show(pid, "syscall");
		show(pid, "wchan");
		kill(pid, SIGKILL);
		must(false, "the end of a child");
	}
	close(wait.fd);
	must(waitpid(pid, &status, 0) == pid, "waitpid");
	if (status)
		say("FAILED child of kind %u: status 0x%x", kind, status);
	must(!status, "a child without an error");
}

static void fork_once(uint32_t kind)
{
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* the runner knows the parent only */
		kinds[kind]();
		_exit(0);
	}
	child_await(pid, kind);
}

/* posix_spawn() and vfork() call no fork handlers, and their children use no verb. */
static void spawn_once(void)
{
	char *const argv[] = { "true", NULL };
	int status = -1;
	pid_t pid;

	must_zero(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), "posix_spawn");
	child_await(pid, KINDS);
	pid = vfork();
	if (!pid)
		_exit(0);
	must(waitpid(pid, &status, 0) == pid && !status, "a child of vfork()");
}

/*
 * A handler that forks, as some do that run a debugger on the program, and interrupts a thread in a verb. The child uses
 * nothing. (One that interrupts malloc() would hang in glibc itself; this thread does nothing but ask for its port.)
 */
static void fork_in_handler(int sig)
{
	int saved = errno, status;
	pid_t pid = fork();

	(void)sig;
	if (!pid)
		_exit(0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		abort();
	atomic_fetch_add(&in_handlers, 1);
	errno = saved;
}

static void handlers_fork(pthread_t thread, int n)
{
	struct sigaction action = { .sa_handler = fork_in_handler, .sa_flags = SA_RESTART };

	must_zero(sigaction(SIGUSR1, &action, NULL), "sigaction");
	for (int i = 0; i < n; i++) {
		double end = now_s() + CHILD_S;

		must_zero(pthread_kill(thread, SIGUSR1), "pthread_kill");
		while (atomic_load(&in_handlers) == i) {
			must(now_s() < end, "the end of a fork in a handler");
			usleep(100);
		}
	}
}

static void *forker_main(void *arg)
{
	uint64_t random = *(uint64_t *)arg;

	while (atomic_fetch_sub(&left, 1) > 0) {
		fork_once(random_below(&random, KINDS));
		if (!random_below(&random, 8))
			spawn_once();
	}
	return NULL;
}

/* ---------------------------------------------------------------------------------------------- */

static void device_find(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), opt.dev))
			device = *list;
	must(device, "the device");
}

int main(int argc, char **argv)
{
	pthread_t threads[BUSY], forkers[FORKERS];
	uint64_t seed = options_seeded(argc, argv), seeds[FORKERS];

	atomic_store(&left, optind < argc ? atoi(argv[optind]) : 100);
	device_find();
	nic_begin(&parent);
	for (int i = 0; i < BUSY; i++)
		must_zero(pthread_create(&threads[i], NULL, busy_main, (void *)&busy[i]),
			  "a thread");
	say("BUSY");
	for (int i = 0; i < FORKERS; i++) {
		seeds[i] = random_next(&seed);
		must_zero(pthread_create(&forkers[i], NULL, forker_main, &seeds[i]), "a thread");
	}
	for (int i = 0; i < FORKERS; i++)
		pthread_join(forkers[i], NULL);
	handlers_fork(threads[0], HANDLERS);
	atomic_store(&ending, true);
	for (int i = 0; i < BUSY; i++)
		if (busy[i] != busy_async) /* it waits for ever */
			pthread_join(threads[i], NULL);
	say("OK");
	_exit(0);
}
