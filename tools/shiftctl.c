/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shiftctl: starts programs under SHIFT, shows and steers those that run, and says what SHIFT
 * would do.
 */
#include <stdio.h>
#include <string.h>

#include "tools/shiftctl.h"

/* A command; NULL ends the list. */
struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage; /* behind "shiftctl" */
	const char *what;  /* text in the list of commands */
	/* Options, and the meaning of the exit status; NULL: the command prints them itself. */
	const char *more;
};

#define HELP_KV                                                                                    \
	"  --kv URL         where peers find each other: redis://HOST:PORT[/DB] or lmdb:/PATH;\n"  \
	"                   default: SHIFT_KV, or else a file of this user on this machine\n"
#define HELP_BACKUP                                                                                \
	"  --backup MAP     auto, spread, pair, or DEFAULT=BACKUP[:BACKUP]...[,...], as\n"         \
	"                   mlx5_0=mlx5_1,mlx5_1=mlx5_0; default: SHIFT_BACKUP, or else auto\n"
#define HELP_LIBDIR "  --libdir DIR     the directory of SHIFT's libibverbs.so.1\n"
#define HELP_PID    "  --pid PID        only this process\n"

static const struct command commands[] = {
	{ "run", cmd_run, "run [OPTION]... [--] COMMAND [ARGUMENT]...",
	  "start COMMAND with SHIFT in place of libibverbs; its exit status is kept",
	  HELP_KV HELP_BACKUP
	  "  --log LEVEL      error, warn, info or debug\n"
	  "  --lazy           make standbys when they are needed, not ahead\n"
	  "  --require        start COMMAND only where doctor says that something is "
	  "protected\n"
	  "  --no-env         set no variables of NCCL, UCX and Open MPI\n"
	  "  --ll128          each backup is as near to the GPU as NCCL asks of the NIC: LL128 "
	  "stays\n" HELP_LIBDIR "\n"
	  "Where the user has not set them, run sets NCCL_PROTO, UCX_TLS and others that NCCL,\n"
	  "UCX and Open MPI need to be protected; --log info lists them.\n"
	  "When something is wrong with SHIFT, run says so in one line and starts COMMAND without\n"
	  "it.\n" },
	{ "doctor", cmd_doctor, "doctor [OPTION]...",
	  "say what would and what would not be protected here",
	  HELP_KV HELP_BACKUP HELP_LIBDIR
	  "  --memory SIZE    what the program registers, as 512K or 64M (4M)\n"
	  "\n"
	  "It names the engine that would drive each device, by SHIFT_ENGINE (auto, mlx5 or "
	  "ledger).\n"
	  "It exits 0 when something would be protected and 1 when nothing would.\n" },
	{ "status", cmd_status, "status [--json] [--pid PID] [--watch] [--interval SECONDS]",
	  "show the NICs and queue pairs of your running programs (root: of everybody's)",
	  HELP_PID
	  "  --json           for programs\n"
	  "  --watch          again and again; on a terminal a screen that q or control-C ends\n"
	  "  --interval SECONDS  between two looks of --watch (1)\n"
	  "\n"
	  "It exits 0 when all processes answered, and 1 when one did not or there is none.\n" },
	{ "events", cmd_events, "events [--json] [-f|--follow] [--since TIME] [--pid PID|PROGRAM]",
	  "show what has happened in them: switches, faults, lost protection",
	  HELP_PID
	  "  --json           for programs: one object a line\n"
	  "  --since TIME     those of the last 90s, 15m, 2h or 1d only\n"
	  "  -f, --follow     wait for more, of programs to come, too\n"
	  "\n"
	  "It exits 0 when all processes answered, and 1 when one did not or there is none.\n" },
	{ "why", cmd_why, "why QPN|PID|DEVICE",
	  "tell the story of one connection, process or NIC, and what to do",
	  "QPN is 0x... as in status; a number without 0x is a process, or else a queue pair.\n"
	  "\n"
	  "It exits 0 when some program has it, and 1 when none has.\n" },
	{ "report", cmd_report, "report [--pid PID] [--output FILE] [--directory]",
	  "make one archive for a bug report, for you to read before you send it",
	  HELP_PID
	  "  --output FILE    the archive (shift-report-DATE-TIME.tar.gz, here)\n"
	  "  --directory      leave it unpacked, in a directory of that name\n"
	  "\n"
	  "It has no command lines, passwords, keys, programs of other users or variables that\n"
	  "shiftctl(1) does not list, and prints what it has.\n" },
	{ "drain", cmd_drain, "drain DEVICE [--pid PID] [--wait SECONDS]",
	  "move their traffic off DEVICE, in order",
	  HELP_PID
	  "  --wait SECONDS   how long it waits for the last connection (10)\n"
	  "\n"
	  "It exits 0 when nothing uses DEVICE any more, 4 when something does, 3 when no\n"
	  "program was found, and 1 when one did not answer.\n" },
	{ "undrain", cmd_undrain, "undrain DEVICE [--pid PID]", "let it come back", HELP_PID },
	{ "version", cmd_version, "version [--libdir DIR]",
	  "of shiftctl, of the library that programs would get, and of what is underneath",
	  HELP_LIBDIR },
	{ "probe-hw", cmd_probe_hw, "probe-hw [--listen | HOST] [OPTION]...",
	  "try what SHIFT assumes about NICs, on one host or two", .more = NULL },
	{ .name = NULL },
};

static void help_all(FILE *to)
{
	const struct command *c;

	for (c = commands; c->name; c++)
		fprintf(to, "%s shiftctl %s\n", c == commands ? "usage:" : "      ", c->usage);
	fputs("       shiftctl [COMMAND] --help\n       shiftctl --version\n\n", to);
	for (c = commands; c->name; c++)
		fprintf(to, "%-10s%s\n", c->name, c->what);
}

static void help_of(const struct command *c)
{
	printf("usage: shiftctl %s\n\n%s: %s\n\n%s", c->usage, c->name, c->what, c->more);
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

int main(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2) {
		help_all(stderr);
		return CTL_USAGE;
	}
	if (is_help(argv[1]) || !strcmp(argv[1], "help")) {
		help_all(stdout);
		return CTL_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("shiftctl " SHIFT_VERSION);
		return CTL_OK;
	}
	for (c = commands; c->name && strcmp(argv[1], c->name); c++)
		;
	if (!c->name) {
		ctl_say("no command \"%s\"; see shiftctl --help", argv[1]);
		return CTL_USAGE;
	}
	if (argc > 2 && is_help(argv[2]) && c->more) {
		help_of(c);
		return CTL_OK;
	}
	return c->run(argc - 1, argv + 1);
}
