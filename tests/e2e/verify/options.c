// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "lane.h"
#include "options.h"
#include "pattern.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: verify --server | --client HOST [options]\n"
	"  --seed N          everything random comes from it (default 1)\n"
	"  --duration SEC    how long each side posts new work (default 2)\n"
	"  --rounds N        stop a QP after N messages instead\n"
	"  --control         read \"pause\", \"resume\", \"stop\" from standard input instead\n"
	"  --dev NAME        device (default: the first)\n"
	"  --gid-index N     (default 0)\n"
	"  --qps N           QPs per side (default 5)\n"
	"  --patterns LIST   letters, one per QP, repeated: a simple, b send/receive, c read,\n"
	"                    d atomics, e mixed, f mixed with atomics and fences, g slots (NCCL's "
	"LL),\n"
	"                    h slots in lines of 128 bytes (LL128; x86 only), i WRITEs with an "
	"atomic\n"
	"                    behind them (NCCL's GIN by proxy) (default abcde)\n"
	"  --listen ADDR     address that a server listens on (default 127.0.0.1)\n"
	"  --port N          TCP port of the exchange (default 18600)\n"
	"  --max-size N      longest message (default 16384)\n"
	"  --timeout N       QP timeout (default 14)\n"
	"  --retry N         QP retry_cnt (default 7)\n"
	"  --idle-at-fault A:B  post nothing from A seconds on, for B seconds\n"
	"  --stuck SEC       no progress for so long means STUCK (default 10)\n"
	"  --expect-error    the run passes if QPs end with errors, in order\n"
	"  --may-fail        QPs may end with errors, in order and at both ends\n"
	"  --allow-events    asynchronous events are no failure\n"
	"  --mutant NAME     breaks a rule of the sender of slots: older-again, too-soon\n"
	"  --plain           no ibv_wr_*() and no extended CQs: rxe's library has faults in both\n";

enum {
	OPT_SERVER = 256,
	OPT_CLIENT,
	OPT_LISTEN,
	OPT_SEED,
	OPT_DURATION,
	OPT_ROUNDS,
	OPT_CONTROL,
	OPT_DEV,
	OPT_GID,
	OPT_QPS,
	OPT_PATTERNS,
	OPT_PORT,
	OPT_MAX,
	OPT_TIMEOUT,
	OPT_RETRY,
	OPT_IDLE,
	OPT_STUCK,
	OPT_EXPECT,
	OPT_MAY_FAIL,
	OPT_EVENTS,
	OPT_PLAIN,
	OPT_MUTANT,
	OPT_HELP
};

static const struct option longs[] = {
	{ "server", no_argument, NULL, OPT_SERVER },
	{ "client", required_argument, NULL, OPT_CLIENT },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "duration", required_argument, NULL, OPT_DURATION },
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "control", no_argument, NULL, OPT_CONTROL },
	{ "dev", required_argument, NULL, OPT_DEV },
	{ "gid-index", required_argument, NULL, OPT_GID },
	{ "qps", required_argument, NULL, OPT_QPS },
	{ "patterns", required_argument, NULL, OPT_PATTERNS },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "max-size", required_argument, NULL, OPT_MAX },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "retry", required_argument, NULL, OPT_RETRY },
	{ "idle-at-fault", required_argument, NULL, OPT_IDLE },
	{ "stuck", required_argument, NULL, OPT_STUCK },
	{ "expect-error", no_argument, NULL, OPT_EXPECT },
	{ "may-fail", no_argument, NULL, OPT_MAY_FAIL },
	{ "allow-events", no_argument, NULL, OPT_EVENTS },
	{ "plain", no_argument, NULL, OPT_PLAIN },
	{ "mutant", required_argument, NULL, OPT_MUTANT },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static int mutant_of(const char *name, enum mutant *m)
{
	static const char *const names[] = {
		[MUTANT_OLDER_AGAIN] = "older-again", [MUTANT_TOO_SOON] = "too-soon"
	};

	for (unsigned int i = 1; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i])) {
			*m = (enum mutant)i;
			return 1;
		}
	}
	return -1;
}

static int option_text(struct options *o, int which, const char *arg)
{
	switch (which) {
	case OPT_SERVER: o->server = true; return 1;
	case OPT_CLIENT: o->host = arg; return 1;
	case OPT_LISTEN: o->listen = arg; return 1;
	case OPT_DEV: o->dev = arg; return 1;
	case OPT_PATTERNS: o->patterns = arg; return 1;
	case OPT_CONTROL: o->control = true; return 1;
	case OPT_EXPECT: o->expect_error = true; return 1;
	case OPT_MAY_FAIL: o->may_fail = true; return 1;
	case OPT_EVENTS: o->allow_events = true; return 1;
	case OPT_PLAIN: o->plain = true; return 1;
	case OPT_MUTANT: return mutant_of(arg, &o->mutant);
	case OPT_IDLE:
		return sscanf(arg, "%lf:%lf", &o->idle_after_s, &o->idle_for_s) == 2 ? 1 : -1;
	default: return 0;
	}
}

static int option_number(struct options *o, int which, const char *arg)
{
	char *end = NULL;
	double d = arg ? strtod(arg, &end) : 0;

	if (!arg || end == arg || *end || d < 0)
		return -1;
	switch (which) {
	case OPT_SEED: o->seed = strtoull(arg, NULL, 0); break;
	case OPT_DURATION: o->duration_s = d; break;
	case OPT_ROUNDS: o->rounds = strtoull(arg, NULL, 0); break;
	case OPT_GID: o->gid_index = (int)d; break;
	case OPT_QPS: o->qps = (int)d; break;
	case OPT_PORT: o->port = (int)d; break;
	case OPT_MAX: o->max_size = (uint32_t)d; break;
	case OPT_TIMEOUT: o->timeout = (int)d; break;
	case OPT_RETRY: o->retry = (int)d; break;
	case OPT_STUCK: o->stuck_s = d; break;
	default: return -1;
	}
	return 1;
}

/* Who checks lines needs a processor that keeps loads and stores in order: slots.c. */
static bool pattern_is_known(char letter)
{
#if !defined(__x86_64__)
	if (letter == 'a' + PATTERN_SLOTS128)
		return false;
#endif
	return letter >= 'a' && letter < 'a' + PATTERN_COUNT;
}

static int options_check(const struct options *o)
{
	bool ok = (o->server != !!o->host) && (o->server || !o->listen) && o->qps >= 1 &&
		  o->qps <= MAX_QPS && o->max_size >= 256 && o->max_size <= 1u << 20 &&
		  *o->patterns && o->timeout <= 31 && o->retry <= 7;

	for (const char *p = o->patterns; *p; p++)
		ok = ok && pattern_is_known(*p);
	return ok ? 0 : -1;
}

int options_parse(struct options *o, int argc, char **argv)
{
	int which;

	*o = (struct options){ .seed = 1,
			       .duration_s = 2,
			       .stuck_s = 10,
			       .patterns = "abcde",
			       .qps = 5,
			       .port = 18600,
			       .max_size = 16384,
			       .timeout = 14,
			       .retry = 7 };
	while ((which = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		int rc = which >= OPT_SERVER && which < OPT_HELP ? option_text(o, which, optarg)
								 : -1;

		if (rc == 0)
			rc = option_number(o, which, optarg);
		if (rc < 0)
			goto bad;
	}
	if (optind == argc && !options_check(o))
		return 0;
bad:
	fputs(usage, stderr);
	return -1;
}
