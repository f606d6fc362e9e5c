/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* simnicctl: makes a fabric of software NICs, runs programs on its hosts, and breaks it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/ctl/simnicctl.h"

static const char help[] =
	"usage: simnicctl COMMAND ...        (the fabric is named by SIMNIC_FABRIC)\n"
	"\n"
	"  create [--hosts 2] [--nics 2] [--link-layer eth|ib] [--cmd-cost-us N] [--seed N]\n"
	"         [--card-ports N] [--numa-nodes N] [--netdev NIC=INTERFACE]...\n"
	"         [--joined] [--direct] [--gpu-switch N]\n"
	"  destroy\n"
	"  run --host h0 -- COMMAND...       run a program on a host of the fabric\n"
	"  real DEVICE [--host h0]           the host has a real device of this machine, too\n"
	"  fault KIND TARGET [--after SEC] [--at-message N] [--for SEC]\n"
	"  script FILE|-                     lines of KIND TARGET [options], started together\n"
	"  heal TARGET|all                   all well again; scheduled faults are cancelled\n"
	"  release NIC                       lets the packets go that it holds\n"
	"  reprobe NIC [--after SEC] [--at-message N]\n"
	"                                    well again as another device: new keys and QPNs\n"
	"  netdev NIC INTERFACE|none         its network interface\n"
	"  gids NIC v1|v2|both [ipv4|ipv6]   which RoCE GIDs its port has\n"
	"  move-gid NIC INDEX                its RoCE v2 GID gets another index\n"
	"  vlan NIC INDEX VLAN               a RoCE v2 GID on that VLAN at that index; 0: none "
	"there\n"
	"  pkeys NIC P_KEY...                its partition table (InfiniBand), from index 0\n"
	"  cost TARGET USEC                  time that every command of the NIC takes\n"
	"  timeout TARGET SECONDS            after which a command of a NIC that hangs fails\n"
	"  slow TARGET register|region|route USEC\n"
	"                                    more, for each MiB registered; for each region; to "
	"find a way\n"
	"  retry TARGET TIMES                its retry timers take so many times their nominal "
	"time\n"
	"  posted-writes TARGET USEC         payload is visible so long after its completion\n"
	"  posted-writes TARGET USEC lost    acknowledged so long before it is in memory\n"
	"  posted-writes TARGET USEC unflushed  so long behind the end of its queue pair\n"
	"  torn-lines NIC on|off             a reader may see half a line of 128 bytes\n"
	"  clock NIC SECONDS [PPB]           its clock, at boot; how much too fast it is\n"
	"  atomic-scope NIC hca|glob         atomic to its own atomics only, or to all\n"
	"  link NIC [out|in] [--rate 1G] [--delay 12.5ms] [--loss 1e-3] [--burst N] [--reorder "
	"P:T]\n"
	"           [--duplicate P] [--queue 4M] | off\n"
	"                                    its cable, or one direction of it; alone: shows it\n"
	"  speed NIC port 1X [SDR...HDR] | pci x8 [2.5|5.0|8.0|16.0] | whole\n"
	"                                    lanes of its port, or of its PCI link, and their "
	"speed\n"
	"  limit TARGET pds|mrs|cqs|qps|srqs N   what one process may have of it; 0: no limit\n"
	"  limit TARGET qp-wr|sge N          requests of a queue pair, pieces of a request\n"
	"  limit TARGET cqe|cq-resize N      entries of a completion queue, made or resized\n"
	"  mtu TARGET BYTES                  what its port can\n"
	"  removal NIC MSEC [backwards] [fatal-first]\n"
	"                                    how the kernel takes it from each file that has it "
	"open\n"
	"  swap NIC NIC                      two that are taken away get each other's names\n"
	"  quirk NIC NAME|none               it differs from what is documented: stale-psn,\n"
	"                                    data-behind-log, glob-claimed and others of "
	"simnicctl(1)\n"
	"  status [--json]\n"
	"\n"
	"TARGET: a NIC (h0/mlx5_0) or, for switch faults, a rail switch (rail0)\n"
	"KIND:   port-down port-up cable-down cable-up switch-down switch-up\n"
	"        lose-tx lose-rx lose-acks lose-loopback hold-requests hold-acks pause\n"
	"        cut-message nic-blind nic-hang nic-internal-error nic-zombie nic-unplug\n"
	"        nic-pci-error nic-disassociate nic-removed nic-reprobe heal\n"
	"--at-message N: when the NIC has sent N more messages. --for SEC: it ends after that "
	"time.\n";

int ctl_fail(const char *format, ...)
{
	va_list args;

	fputs("simnicctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return CTL_FAILED;
}

int ctl_usage(const char *format, ...)
{
	va_list args;

	fputs("simnicctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("; see simnicctl --help\n", stderr);
	return CTL_USAGE;
}

const char *ctl_fabric_name(void)
{
	const char *name = getenv("SIMNIC_FABRIC");

	if (name && *name)
		return name;
	ctl_fail("set SIMNIC_FABRIC to the fabric's name, for example SIMNIC_FABRIC=demo");
	return NULL;
}

struct sn_fabric *ctl_attach(void)
{
	const char *name = ctl_fabric_name();
	struct sn_fabric *fabric;
	int err;

	if (!name)
		return NULL;
	err = sn_fabric_attach(name, &fabric);
	if (!err)
		return fabric;
	if (err == -ENOENT)
		ctl_fail("no fabric '%s'; make it with simnicctl create", name);
	else if (err == -EPROTO)
		ctl_fail("fabric '%s' was made by another version of simnic; destroy it and create "
			 "it anew",
			 name);
	else
		ctl_fail("fabric '%s': %s", name, strerror(-err));
	return NULL;
}

bool ctl_number(const char *what, const char *text, double min, double max, double *out)
{
	char *end;

	errno = 0;
	*out = text ? strtod(text, &end) : 0;
	if (text && *text && !*end && !errno && *out >= min && *out <= max)
		return true;
	ctl_usage("%s wants a number from %.0f to %.0f, not '%s'", what, min, max,
		  text ? text : "nothing");
	return false;
}

bool ctl_target(const struct sn_fabric *fabric, const char *text, struct ctl_target *out)
{
	unsigned int host, nic;
	int end = 0;

	if (sscanf(text, "h%u/mlx5_%u%n", &host, &nic, &end) == 2 && !text[end]) {
		*out = (struct ctl_target){ .host = host, .nic = nic };
		if (host < fabric->n_hosts && nic < fabric->n_nics)
			return true;
	} else if (sscanf(text, "rail%u%n", &nic, &end) == 1 && !text[end]) {
		*out = (struct ctl_target){ .rail = true, .nic = nic };
		if (nic < fabric->n_nics)
			return true;
	}
	ctl_fail("no target '%s': this fabric has h0..h%u with mlx5_0..mlx5_%u, and rail0..rail%u",
		 text, fabric->n_hosts - 1, fabric->n_nics - 1, fabric->n_nics - 1);
	return false;
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/*
 * Prints the command's lines of the help text, with their continuation lines, and the notes on
 * targets and kinds.
 */
static void help_of(const char *name)
{
	const char *line, *end;
	size_t len = strlen(name);
	bool mine = false;

	for (line = help; *line; line = end + 1) {
		end = strchr(line, '\n');
		if (!strncmp(line, "  ", 2) && line[2] != ' ')
			mine = !strncmp(line + 2, name, len) && strchr(" \n", line[2 + len]);
		else if (line == help || line[0] != ' ')
			mine = line == help || line[0] == '\n' || strchr(line, ':');
		if (mine)
			printf("%.*s\n", (int)(end - line), line);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {
		{ "create", ctl_create },
		{ "destroy", ctl_destroy },
		{ "run", ctl_run },
		{ "fault", ctl_fault },
		{ "heal", ctl_heal },
		{ "cost", ctl_cost },
		{ "timeout", ctl_timeout },
		{ "limit", ctl_limit },
		{ "status", ctl_status },
		{ "script", ctl_script },
		{ "release", ctl_release },
		{ "reprobe", ctl_reprobe },
		{ "netdev", ctl_netdev },
		{ "mtu", ctl_mtu },
		{ "gids", ctl_gids },
		{ "move-gid", ctl_move_gid },
		{ "posted-writes", ctl_posted_writes },
		{ "quirk", ctl_quirk },
		{ "removal", ctl_removal },
		{ "swap", ctl_swap },
		{ "slow", ctl_slow },
		{ "vlan", ctl_vlan },
		{ "pkeys", ctl_pkeys },
		{ "real", ctl_real },
		{ "atomic-scope", ctl_atomic_scope },
		{ "link", ctl_link },
		{ "speed", ctl_speed },
		{ "retry", ctl_retry },
		{ "clock", ctl_clock },
		{ "torn-lines", ctl_torn_lines },
	};

	if (argc < 2)
		return ctl_usage("a command is missing");
	if (is_help(argv[1]) || !strcmp(argv[1], "help")) {
		fputs(help, stdout);
		return CTL_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("simnicctl " SHIFT_VERSION);
		return CTL_OK;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		if (argc > 2 && is_help(argv[2])) {
			help_of(commands[i].name);
			return CTL_OK;
		}
		return commands[i].run(argc - 1, argv + 1);
	}
	return ctl_usage("unknown command '%s'", argv[1]);
}
