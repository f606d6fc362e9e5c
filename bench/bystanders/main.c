// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * bystanders SOCKET: connects to the driver's socket and obeys its lines. Lines answer each of
 * them; the last one begins with '='. A wrong byte, a message that comes twice or completions out
 * of order are told at once, by a line "WRONG ...".
 */
#include "bystanders.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 160, LINE = 8192 };

struct context contexts[CTXS];
struct channel channels[CHANNELS];
struct queue queues[CQS];
struct receives shared[SRQS];
struct end *ends[ENDS];

static FILE *out;

void reply(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(out, format, args);
	va_end(args);
	fputc('\n', out);
}

static void tell(const char *word, const char *format, va_list args)
{
	fputs(word, out);
	vfprintf(out, format, args);
	fputc('\n', out);
}

void wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell("WRONG ", format, args);
	va_end(args);
}

void odd(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell("ODD ", format, args);
	va_end(args);
}

/* Ends the program if its own means fail. A verb's answer is told instead, and ends nothing. */
void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bystanders: %s: %s\n", what, strerror(errno));
	_exit(1);
}

int number(const char *word)
{
	must(word, "a number");
	return (int)strtol(word, NULL, 0);
}

double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static const struct {
	const char *name;
	void (*run)(char **word);
} commands[] = {
	{ "ctx", context_open },     { "close", context_close },
	{ "channel", channel_make }, { "dropchannel", channel_drop },
	{ "cq", queue_make },	     { "dropcq", queue_drop },
	{ "srq", srq_make },	     { "dropsrq", srq_drop },
	{ "qp", end_make },	     { "connect", end_connect },
	{ "reset", end_reset },	     { "state", end_state },
	{ "dropqp", end_drop },	     { "send", end_send },
	{ "recv", end_recv },	     { "watch", watch },
	{ "seen", tell_seen },	     { "events", tell_events },
	{ "probe", probe },	     { "reserve", srq_reserve },
};

static void obey(char *line)
{
	char *word[WORDS] = { NULL }, *save = NULL;
	size_t n = 0;

	for (char *w = strtok_r(line, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
		must(n + 1 < WORDS, "a short line");
		word[n++] = w;
	}
	must(n, "a word");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, word[0]))
			continue;
		commands[i].run(word + 1);
		fflush(out);
		return;
	}
	must(false, word[0]);
}

int main(int argc, char **argv)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	static char line[LINE];
	FILE *in;
	int fd;

	must(argc == 2 && strlen(argv[1]) < sizeof(at.sun_path), "usage: bystanders SOCKET");
	memcpy(at.sun_path, argv[1], strlen(argv[1]));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof(at)), argv[1]);
	in = fdopen(fd, "r");
	out = fdopen(dup(fd), "w");
	must(in && out, "streams");
	while (fgets(line, sizeof(line), in))
		obey(line);
	return 0;
}
