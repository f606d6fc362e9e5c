/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shiftctl status --watch: on a terminal a screen that is drawn anew, and elsewhere the same text
 * as without --watch, again and again. Control sequences are those of ECMA-48 and xterm's second
 * screen, which every terminal in use understands.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tools/status.h"

#define SCREEN_ENTER   "\033[?1049h\033[?25l\033[2J"
#define SCREEN_LEAVE   "\033[?25h\033[?1049l"
#define SCREEN_HOME    "\033[H"
#define SCREEN_REVERSE "\033[7m"
#define SCREEN_PLAIN   "\033[m"
#define LINE_REST      "\033[K" /* cleared */
#define SCREEN_REST    "\033[J"

struct watch {
	const struct status_options *opt;
	bool screen; /* stdout is a terminal */
	bool keys;   /* so is stdin, and it is not at its end */
	bool raw;    /* stdin's settings are not those of before */
	struct termios before;
	unsigned rows, columns;
	size_t top;   /* first line that is shown */
	size_t lines; /* number of lines */
	char *text;
	size_t length;
	char title[160];
};

static volatile sig_atomic_t watch_signal, watch_resized;

static void watch_on_signal(int number)
{
	if (number == SIGWINCH)
		watch_resized = 1;
	else
		watch_signal = number;
}

static long watch_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- the terminal --------------------------------------------------------------------------- */

/* Blocked but while it waits, so that none comes between the look at the flag and the wait. */
static void watch_signals(sigset_t *waiting)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
	struct sigaction action = { .sa_handler = watch_on_signal };
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		sigaction(numbers[i], &action, NULL);
		sigaddset(&blocked, numbers[i]);
	}
	sigprocmask(SIG_BLOCK, &blocked, waiting);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigdelset(waiting, numbers[i]);
}

static void watch_open(struct watch *w)
{
	struct termios raw;

	w->keys = w->raw = !tcgetattr(STDIN_FILENO, &w->before);
	if (w->raw) {
		raw = w->before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* a stop would leave the second screen behind */
		raw.c_cc[VMIN] = 0;
		raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs(SCREEN_ENTER, stdout);
}

static void watch_close(struct watch *w)
{
	fputs(SCREEN_LEAVE, stdout);
	fflush(stdout);
	if (w->raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &w->before);
}

static void watch_measure(struct watch *w)
{
	struct winsize size;

	w->rows = 24;
	w->columns = 80;
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col) {
		w->rows = size.ws_row;
		w->columns = size.ws_col;
	}
}

/* ---- the picture ---------------------------------------------------------------------------- */

/* Draws as much of a line as fits, by characters of UTF-8; returns the place behind its newline. */
static const char *draw_line(const char *line, unsigned columns)
{
	const char *end = strchrnul(line, '\n'), *at = line;
	unsigned used = 0;

	for (; at < end; at++) {
		used += (*at & 0xc0) != 0x80;
		if (used > columns)
			break;
	}
	fwrite(line, 1, (size_t)(at - line), stdout);
	return *end ? end + 1 : end;
}

static void draw_bar(const char *text, unsigned columns)
{
	fputs(SCREEN_REVERSE, stdout);
	draw_line(text, columns);
	fputs(LINE_REST SCREEN_PLAIN, stdout);
}

static size_t watch_body(const struct watch *w)
{
	return w->rows > 2 ? w->rows - 2 : 1;
}

static void watch_draw(struct watch *w)
{
	const char *line = w->text ? w->text : "";
	size_t i, body = watch_body(w), last = w->lines > body ? w->lines - body : 0;

	if (w->top > last)
		w->top = last;
	for (i = 0; i < w->top; i++)
		line = strchrnul(line, '\n') + 1;
	fputs(SCREEN_HOME, stdout);
	draw_bar(w->title, w->columns);
	for (i = 0; i < body; i++) {
		fputs("\r\n", stdout);
		line = draw_line(line, w->columns);
		fputs(LINE_REST, stdout);
	}
	fputs("\r\n", stdout);
	draw_bar(w->keys ? "q: end   arrows, page up/down, home, end: scroll" : "", w->columns);
	fputs(SCREEN_REST, stdout);
	fflush(stdout);
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; text && *text; text++)
		n += *text == '\n';
	return n;
}

static void watch_title(struct watch *w, const struct status *status)
{
	time_t now = time(NULL);
	struct tm tm;
	char clock[16];

	localtime_r(&now, &tm);
	strftime(clock, sizeof(clock), "%T", &tm);
	snprintf(w->title, sizeof(w->title), " shiftctl status  %s, every %g s  %u processes%s%s",
		 clock, w->opt->interval_s, status->answered + status->silent,
		 status->silent ? ", some do not answer" : "",
		 status->refused ? ", some directories are not looked into" : "");
}

/* ---- again and again ------------------------------------------------------------------------ */

static int watch_look(struct watch *w)
{
	struct status status;
	FILE *memory;
	int rc = status_gather(w->opt, &status);

	free(w->text);
	w->text = NULL;
	memory = rc ? NULL : open_memstream(&w->text, &w->length);
	if (memory) {
		rc = status_print(memory, w->opt, &status);
		if (status_nothing(w->opt, &status))
			fprintf(memory, "%s\n", status_nothing(w->opt, &status));
		if (fclose(memory))
			rc = -ENOMEM;
	} else if (!rc) {
		rc = -ENOMEM;
	}
	w->lines = count_lines(w->text);
	watch_title(w, &status);
	status_free(&status);
	return rc;
}

static bool watch_scroll(struct watch *w, const char *key)
{
	static const struct {
		const char *key;
		long pages, lines;
	} moves[] = {
		{ "\033[A", 0, -1 },	   { "\033OA", 0, -1 },	     { "k", 0, -1 },
		{ "\033[B", 0, 1 },	   { "\033OB", 0, 1 },	     { "j", 0, 1 },
		{ "\033[5~", -1, 0 },	   { "\033[6~", 1, 0 },	     { " ", 1, 0 },
		{ "\033[H", -1000000, 0 }, { "\033[F", 1000000, 0 }, { "g", -1000000, 0 },
		{ "G", 1000000, 0 },
	};
	long to;

	for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++) {
		if (strcmp(key, moves[i].key))
			continue;
		to = (long)w->top + moves[i].pages * (long)watch_body(w) + moves[i].lines;
		w->top = to < 0 ? 0 : (size_t)to;
		return true;
	}
	return false;
}

/* False: it is to end. A terminal sends a key, with its escape sequence, in one piece. */
static bool watch_key(struct watch *w)
{
	char key[16];
	ssize_t n = read(STDIN_FILENO, key, sizeof(key) - 1);

	if (n <= 0) {
		w->keys = n < 0 && errno == EINTR;
		return true;
	}
	key[n] = 0;
	if (!strcmp(key, "q") || !strcmp(key, "Q") || !strcmp(key, "\003"))
		return false;
	if (watch_scroll(w, key))
		watch_draw(w);
	return true;
}

/* Waits until the next look is due. False: the watch is to end. */
static bool watch_wait(struct watch *w, long until_ms, const sigset_t *waiting)
{
	struct pollfd in = { .fd = w->keys ? STDIN_FILENO : -1, .events = POLLIN };
	struct timespec left;
	long ms;

	do { /* once at least: signals come in here alone */
		ms = until_ms - watch_now_ms();
		ms = ms > 0 ? ms : 0;
		left = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
		in.fd = w->keys ? STDIN_FILENO : -1;
		if (ppoll(&in, 1, &left, waiting) > 0 && !watch_key(w))
			return false;
		if (watch_resized && w->screen) {
			watch_resized = 0;
			watch_measure(w);
			watch_draw(w);
		}
	} while (!watch_signal && ms);
	return !watch_signal;
}

static int watch_show(struct watch *w)
{
	int rc = watch_look(w);

	if (rc)
		return rc;
	if (w->screen) {
		watch_draw(w);
	} else {
		fwrite(w->text, 1, w->length, stdout);
		fflush(stdout);
	}
	return ferror(stdout) ? -EIO : 0;
}

int status_watch(const struct status_options *opt)
{
	struct watch w = { .opt = opt, .screen = isatty(STDOUT_FILENO) && !opt->json };
	long next = watch_now_ms();
	sigset_t waiting;
	int rc;

	watch_signals(&waiting);
	if (w.screen) {
		watch_open(&w);
		watch_measure(&w);
	}
	do {
		rc = watch_show(&w);
		next += (long)(opt->interval_s * 1000);
		if (next < watch_now_ms())
			next = watch_now_ms();
	} while (!rc && watch_wait(&w, next, &waiting));
	if (w.screen)
		watch_close(&w);
	free(w.text);
	if (rc == -ENOMEM)
		ctl_say("out of memory");
	return rc ? CTL_NOT_ALL : CTL_OK;
}
