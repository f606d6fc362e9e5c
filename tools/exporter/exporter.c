/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shift-exporter: options, and the loop that waits for scrapes, farewells and new processes. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tools/exporter/exporter.h"

#define LISTEN_DEFAULT "127.0.0.1:10471"
#define TIMEOUT_MS     1000
#define SCAN_MS	       1000
#define FRESH_MS       500 /* so long a page serves again: whoever asks faster asks nobody */
#define FAREWELLS_MAX  4096u

static const char help[] =
	"usage: shift-exporter [--listen ADDRESS:PORT] [--run-dir DIR] [--timeout SECONDS]\n"
	"       shift-exporter --help | --version\n"
	"\n"
	"Serves counters of the programs that run with SHIFT on this host at /metrics, for\n"
	"Prometheus: those of the user, and for root those of everybody.\n"
	"\n"
	"  --listen ADDRESS:PORT  numbers; default " LISTEN_DEFAULT ", port 0: any that is free\n"
	"  --run-dir DIR          only programs with their sockets there (SHIFT_RUN_DIR)\n"
	"  --timeout SECONDS      how long processes may take to answer a scrape (1)\n";

struct exporter {
	const char *listen;
	int timeout_ms;
	struct processes *processes;
	struct http *http;
	struct pollfd *fds;
	char *page; /* the last one */
	size_t length;
	long page_ms, scan_ms; /* when: of the page; the next scan */
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- options -------------------------------------------------------------------------------- */

static int option_timeout(struct exporter *e, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.01 && seconds <= 60)) {
		ctl_say("--timeout takes seconds from 0.01 to 60, not \"%s\"", text);
		return CTL_USAGE;
	}
	e->timeout_ms = (int)(seconds * 1000);
	return 0;
}

/* 0: go on; else *status is the exit status. */
static int options_parse(int argc, char **argv, struct exporter *e, int *status)
{
	static const struct option longopts[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "run-dir", required_argument, NULL, 'd' },
		{ "timeout", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	*status = CTL_USAGE;
	while ((c = getopt_long(argc, argv, "hV", longopts, NULL)) != -1) {
		switch (c) {
		case 'l': e->listen = optarg; break;
		/* the variable that all parts read */
		case 'd': setenv("SHIFT_RUN_DIR", optarg, 1); break;
		case 't':
			if (option_timeout(e, optarg))
				return -1;
			break;
		case 'h':
		case 'V':
			fputs(c == 'h' ? help : "shift-exporter " SHIFT_VERSION "\n", stdout);
			*status = CTL_OK;
			return -1;
		default: ctl_say("see shift-exporter --help"); return -1;
		}
	}
	if (optind == argc)
		return 0;
	ctl_say("no argument \"%s\" is known; see shift-exporter --help", argv[optind]);
	return -1;
}

/* ---- the page ------------------------------------------------------------------------------- */

static int page_renew(struct exporter *e)
{
	char *page = NULL;
	size_t length;
	FILE *out = open_memstream(&page, &length);
	int rc;

	if (!out)
		return -ENOMEM;
	rc = processes_gather(e->processes, e->timeout_ms, out);
	if (fclose(out))
		rc = -ENOMEM;
	if (rc) {
		free(page);
		return rc;
	}
	free(e->page);
	e->page = page;
	e->length = length;
	e->page_ms = now_ms();
	return 0;
}

static char *page_copy(void *arg, size_t *length)
{
	struct exporter *e = arg;
	char *copy;

	if ((!e->page || now_ms() - e->page_ms >= FRESH_MS) && page_renew(e))
		return NULL;
	copy = malloc(e->length + 1);
	if (copy)
		memcpy(copy, e->page, e->length);
	*length = e->length;
	return copy;
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void loop_wait(struct exporter *e, const sigset_t *waiting)
{
	long left = e->scan_ms - now_ms();
	int ms = http_timeout_ms(e->http, left > 0 ? (int)left : 0);
	struct timespec timeout = { ms / 1000, ms % 1000 * 1000000l };
	unsigned n = processes_poll(e->processes, e->fds + 1, FAREWELLS_MAX);

	e->fds[0] = (struct pollfd){ .fd = http_fd(e->http), .events = POLLIN };
	if (ppoll(e->fds, n + 1, &timeout, waiting) > 0)
		processes_polled(e->processes, e->fds + 1, n);
	http_run(e->http);
	if (now_ms() < e->scan_ms)
		return;
	processes_scan(e->processes);
	e->scan_ms = now_ms() + SCAN_MS;
}

/* Each process has a connection of ours, and most limits are set for programs that use select(). */
static void files_raise(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

static void loop(struct exporter *e)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t blocked, waiting;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigprocmask(SIG_BLOCK, &blocked, &waiting);
	sigdelset(&waiting, SIGINT);
	sigdelset(&waiting, SIGTERM);
	while (!stopped)
		loop_wait(e, &waiting);
}

int main(int argc, char **argv)
{
	struct exporter e = { .listen = LISTEN_DEFAULT, .timeout_ms = TIMEOUT_MS };
	char err[CTL_ERR_MAX];
	int status;

	if (options_parse(argc, argv, &e, &status))
		return status;
	signal(SIGPIPE, SIG_IGN);
	files_raise();
	e.processes = processes_new();
	e.fds = calloc(FAREWELLS_MAX + 1, sizeof(*e.fds));
	if (!e.processes || !e.fds) {
		ctl_say("out of memory");
		return 1;
	}
	/* processes that are there now began before: see processes.c */
	processes_scan(e.processes);
	if (http_start(e.listen, page_copy, &e, &e.http, err)) {
		ctl_say("%s", err);
		return CTL_USAGE;
	}
	e.scan_ms = now_ms() + SCAN_MS;
	loop(&e);
	http_stop(e.http);
	processes_free(e.processes);
	free(e.fds);
	free(e.page);
	return CTL_OK;
}
