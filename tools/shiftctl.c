/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shiftctl: start programs under SHIFT, see and steer those that run, and say what SHIFT would do. */
#include <stdio.h>
#include <string.h>

#include "tools/shiftctl.h"

static const char help[] =
	"usage: shiftctl run [OPTION]... [--] COMMAND [ARGUMENT]...\n"
	"       shiftctl doctor [OPTION]...\n"
	"       shiftctl status [--json] [--pid PID] [--watch] [--interval SECONDS]\n"
	"       shiftctl events [--json] [-f|--follow] [--since TIME] [--pid PID|PROGRAM]\n"
	"       shiftctl drain DEVICE [--pid PID] [--wait SECONDS]\n"
	"       shiftctl undrain DEVICE [--pid PID]\n"
	"       shiftctl version [--libdir DIR]\n"
	"       shiftctl --help\n"
	"\n"
	"run      start COMMAND with SHIFT in place of libibverbs; its exit status is kept\n"
	"doctor   say what would and what would not be protected here\n"
	"status   show the NICs and queue pairs of your running programs (root: of everybody's)\n"
	"events   show what has happened in them: switches, faults, lost protection\n"
	"drain    move their traffic off DEVICE, in order; undrain lets it come back\n"
	"version  of shiftctl, of the library that programs would get, and of what is underneath\n"
	"\n"
	"  --kv URL         where peers find each other: redis://HOST:PORT[/DB] or lmdb:/PATH;\n"
	"                   default: SHIFT_KV, or else a file of this user on this machine\n"
	"  --backup MAP     auto, or DEFAULT=BACKUP[:BACKUP]...[,...], such as\n"
	"                   mlx5_0=mlx5_1,mlx5_1=mlx5_0; default: SHIFT_BACKUP, or else auto\n"
	"  --log LEVEL      error, warn, info or debug (run only)\n"
	"  --lazy           make standbys when they are needed, not ahead (run only)\n"
	"  --libdir DIR     the directory of SHIFT's libibverbs.so.1\n"
	"  --pid PID        only this process\n"
	"  --wait SECONDS   how long drain waits for the last connection (10)\n"
	"  --watch          again and again; on a terminal a screen that q or control-C ends\n"
	"  --interval SECONDS  between two looks of --watch (1)\n"
	"  --since TIME     events of the last 90s, 15m, 2h or 1d only\n"
	"  -f, --follow     wait for more events, of programs to come, too\n"
	"  --json           for programs; events: one object a line\n"
	"\n"
	"When something is wrong with SHIFT, run says so in one line and starts COMMAND without\n"
	"it. doctor exits 0 when something would be protected and 1 when nothing would.\n"
	"drain exits 0 when nothing uses DEVICE any more and 1 when something does; status exits "
	"0\n"
	"when all processes answered, and 1 when one did not or there is none.\n";

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {
		{ "run", cmd_run },	    { "doctor", cmd_doctor },	{ "status", cmd_status },
		{ "drain", cmd_drain },	    { "undrain", cmd_undrain }, { "events", cmd_events },
		{ "version", cmd_version },
	};

	if (argc < 2) {
		fputs(help, stderr);
		return CTL_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		fputs(help, stdout);
		return CTL_OK;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	ctl_say("no command \"%s\"; see shiftctl --help", argv[1]);
	return CTL_USAGE;
}
