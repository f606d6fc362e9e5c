// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * counted: a program that takes all that it may have of something, and counts. On stock and under SHIFT it gets as much.
 * Its connection leads to itself, so that one process shows it.
 */
#include "tests/lib/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/random.h"

enum { MOST = 1 << 16, MESSAGES = 100 };

struct options opt = { .port = 18515, .timeout = 16, .dev = "mlx5_0" };

static uint64_t drawn;
static struct nic nic;
static struct conn c;

static void talk_to_itself(struct conn *to)
{
	conn_make(to, &nic);
	conn_set_own(to);
	to->peer = to->own;
	conn_to_init(to);
	conn_lay(to);
	conn_to_rts_alone(to);
	conn_talk(to, MESSAGES);
}

static void conn_to_itself_on(void)
{
	talk_to_itself(&c);
	say("CONNECTED");
}

static void conn_to_itself(void)
{
	nic_open(&nic, opt.dev);
	conn_to_itself_on();
}

/* To the other process. */
static void conn_to_peer(void)
{
	line_open();
	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	conn_connect(&c);
	conn_talk(&c, MESSAGES);
	say("CONNECTED");
}

static void finish(void)
{
	conn_talk(&c, MESSAGES);
	conn_free(&c);
	nic_close(&nic);
	say("OK");
}

/* ---- memory that may be locked --------------------------------------------------------------- */

static struct ibv_mr *mr[MOST];

static size_t memory_take(size_t part)
{
	uint8_t *memory = mmap(NULL, (size_t)MOST * 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t n = 0;

	must(memory != MAP_FAILED, "memory");
	for (; (mr[n] = ibv_reg_mr(nic.pd, memory + n * part, part, IBV_ACCESS_LOCAL_WRITE)); n++)
		;
	must(errno == ENOMEM, "no more room");
	say("GOT %zu of %zu bytes", n, part);
	return n;
}

static void memory_give(size_t n)
{
	while (n--)
		must_zero(ibv_dereg_mr(mr[n]), "ibv_dereg_mr");
	say("GAVE");
}

static size_t memory_part(void)
{
	return 4096ul << random_below(&drawn, 6);
}

static void run_memory(void)
{
	size_t n;

	conn_to_itself();
	hear("go");
	n = memory_take(memory_part());
	conn_talk(&c, MESSAGES);
	memory_give(n);
	hear("end");
	finish();
}

static void talk_until_told(void)
{
	while (!both_told()) {
		conn_talk(&c, MESSAGES);
		usleep(1000);
	}
	hear("on");
}

/* One end takes all it may, or both do; they talk on, or rest for a while. */
static void run_pressed(void)
{
	size_t n = 0;

	conn_to_peer();
	hear("go");
	if (!opt.server || opt.rounds)
		n = memory_take(memory_part());
	talk_until_told();
	hear("rested"); /* nothing is sent until then */
	conn_talk(&c, MESSAGES);
	memory_give(n);
	talk_until_told(); /* it is protected again, and moves */
	meet();
	finish();
}

/* ---- descriptors ----------------------------------------------------------------------------- */

enum { AGAIN = 100 };

static int files[MOST];

/* What somebody has for a moment only, as he reads a file, comes back. */
static size_t files_take(void)
{
	size_t n = 0;

	for (int i = 0; i < AGAIN; i++) {
		while (n < MOST && (files[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
			n++;
		must(n < MOST && errno == EMFILE, "no more descriptors");
		usleep(1000);
	}
	return n;
}

/*
 * The software NIC has two descriptors of its own for each event file, which a real one has not: a second number of the socket that it gives
 * away, and the other end.
 */
static size_t files_of_the_nic(void)
{
	static ino_t sockets[MOST];
	size_t n = 0, twice = 0;
	struct stat st;

	for (int fd = 0; fd < MOST; fd++) {
		if (fstat(fd, &st) || !S_ISSOCK(st.st_mode))
			continue;
		for (size_t i = 0; i < n; i++)
			twice += sockets[i] == st.st_ino;
		sockets[n++] = st.st_ino;
	}
	return 2 * twice;
}

/* A device, a channel, and a queue whose event comes: with `spare` descriptors and no more. */
static void run_files(void)
{
	struct ibv_comp_channel *channel;
	size_t n, spare = (size_t)opt.rounds;
	struct nic other;
	struct conn more;
	struct ibv_cq *cq;
	void *context;

	conn_to_itself();
	hear("go");
	n = files_take();
	say("GOT %zu", n + files_of_the_nic());
	must(n >= spare, "enough of them");
	for (size_t i = n - spare; i < n; i++)
		close(files[i]);
	nic_open(&other, opt.dev);
	channel = ibv_create_comp_channel(other.ctx);
	must(channel, "ibv_create_comp_channel");
	conn_make_on(&more, &other, channel, NULL);
	must_zero(ibv_req_notify_cq(more.cq, 0), "ibv_req_notify_cq");
	conn_set_own(&more);
	more.peer = more.own;
	conn_to_init(&more);
	conn_lay(&more);
	conn_to_rts_alone(&more);
	conn_talk(&more, MESSAGES);
	must_zero(ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	say("LEFT %zu", files_take());
	conn_free(&more);
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	nic_close(&other);
	hear("end");
	finish();
}

/* ---- a thread's stack ------------------------------------------------------------------------ */

static void *verbs_of_a_thread(void *arg)
{
	struct ibv_mr *own;
	struct conn more;

	(void)arg;
	conn_talk(&c, MESSAGES);
	own = ibv_reg_mr(nic.pd, mr, sizeof(mr), IBV_ACCESS_LOCAL_WRITE);
	must(own, "ibv_reg_mr");
	must_zero(ibv_dereg_mr(own), "ibv_dereg_mr");
	must_zero(ibv_query_port(nic.ctx, PORT, &nic.port), "ibv_query_port");
	talk_to_itself(&more);
	conn_free(&more);
	return NULL;
}

/* As much of it as verbs need, in pages: the runner finds how few do. A thread that has less ends the process. */
static void on_stack(void *(*verbs)(void *arg))
{
	pthread_attr_t attr;
	pthread_t thread;

	must_zero(pthread_attr_init(&attr), "attributes");
	must_zero(pthread_attr_setstacksize(&attr, (size_t)opt.rounds * 4096), "a stack so small");
	must_zero(pthread_create(&thread, &attr, verbs, NULL), "a thread");
	must_zero(pthread_join(thread, NULL), "its end");
}

static void run_stack(void)
{
	conn_to_itself();
	hear("go");
	on_stack(verbs_of_a_thread);
	say("ENOUGH");
	hear("end");
	finish();
}

static void *open_in_a_thread(void *arg)
{
	nic_open(&nic, opt.dev);
	conn_to_itself_on();
	return arg;
}

/* The first one that is opened. */
static void run_stack_open(void)
{
	on_stack(open_in_a_thread);
	hear("go");
	say("ENOUGH");
	hear("end");
	finish();
}

/* ---- epolls in epolls ------------------------------------------------------------------------ */

/* How many epolls may be around a completion channel? */
static void run_epoll(void)
{
	struct ibv_comp_channel *channel;
	int inner, outer, n = 0;

	conn_to_itself();
	hear("go");
	channel = ibv_create_comp_channel(nic.ctx);
	must(channel, "ibv_create_comp_channel");
	for (inner = channel->fd;; inner = outer, n++) {
		struct epoll_event event = { .events = EPOLLIN };

		outer = epoll_create1(EPOLL_CLOEXEC);
		must(outer >= 0, "epoll_create1");
		if (epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event))
			break;
	}
	say("AROUND %d", n);
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	hear("end");
	finish();
}

/* ---- all that the process has of what the kernel and the C library count ------------------------- */

static void kept_signals(void)
{
	sigset_t blocked;
	stack_t stack;

	for (int number = 1; number <= SIGRTMAX; number++) {
		struct sigaction action;

		if (!sigaction(number, NULL, &action))
			say("KEPT handler%d %d %x", number,
			    (action.sa_handler != SIG_DFL) + (action.sa_handler == SIG_IGN),
			    (unsigned)action.sa_flags);
	}
	must_zero(pthread_sigmask(SIG_SETMASK, NULL, &blocked), "what is blocked");
	for (int number = 1; number <= SIGRTMAX; number++)
		if (sigismember(&blocked, number) > 0)
			say("KEPT blocked%d 1", number);
	must_zero(sigaltstack(NULL, &stack), "sigaltstack");
	say("KEPT altstack %d", stack.ss_flags);
}

static void kept_limits(void)
{
	struct rlimit limit;

	for (int i = 0; i < RLIMIT_NLIMITS; i++)
		if (!getrlimit(i, &limit))
			say("KEPT limit%d %llu %llu", i, (unsigned long long)limit.rlim_cur,
			    (unsigned long long)limit.rlim_max);
}

static void kept_timers(void)
{
	struct itimerval timer;

	for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
		if (!getitimer(which, &timer))
			say("KEPT itimer%d %d", which,
			    timer.it_value.tv_sec || timer.it_value.tv_usec);
}

/* Lines of a file of the process that begin with one of the words, or their number. */
static void kept_file(const char *name, const char *const *words)
{
	FILE *file = fopen(name, "re");
	char line[4096];
	int n = 0;

	must(file, name);
	while (fgets(line, sizeof(line), file)) {
		n++;
		for (const char *const *word = words; word && *word; word++)
			if (!strncmp(line, *word, strlen(*word)))
				say("KEPT %.*s", (int)strcspn(line, "\n"), line);
	}
	if (!words)
		say("KEPT %s %d", name, n);
	fclose(file);
}

/* Keys of thread-specific data: to the last one. */
static void kept_keys(void)
{
	static pthread_key_t keys[PTHREAD_KEYS_MAX];
	int n = 0;

	while (n < PTHREAD_KEYS_MAX && !pthread_key_create(&keys[n], NULL))
		n++;
	say("KEPT keys %d", n);
	while (n--)
		pthread_key_delete(keys[n]);
}

static void run_kept(void)
{
	static const char *const words[] = { "VmSize:", "VmData:", "VmLck:", "Threads:", NULL };

	conn_to_itself();
	hear("go");
	kept_signals();
	kept_limits();
	kept_timers();
	kept_file("/proc/self/status", words);
	kept_file("/proc/self/maps", NULL);
	kept_file("/proc/self/timers", NULL);
	kept_keys();
	must(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a child of somebody else");
	say("DONE");
	hear("end");
	finish();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "memory", run_memory }, { "pressed", run_pressed },	    { "files", run_files },
		{ "stack", run_stack },	  { "stack-open", run_stack_open }, { "epoll", run_epoll },
		{ "kept", run_kept }
	};

	drawn = options_seeded(argc, argv);
	for (size_t i = 0; optind < argc && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[optind], cases[i].name)) {
			opt.rounds = optind + 1 < argc ? atoi(argv[optind + 1]) : 0;
			cases[i].run();
			return 0;
		}
	return 2;
}
