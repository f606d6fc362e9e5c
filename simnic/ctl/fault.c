/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* simnicctl fault, reprobe, script, release, heal */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "simnic/ctl/simnicctl.h"

#define SCRIPT_LINE  256
#define SCRIPT_WORDS 16

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Sets one option. Until the fault is armed, its time and message count are relative to now. */
static bool fault_option(int opt, struct sn_fault *fault)
{
	double value;

	switch (opt) {
	case 'a':
		if (!ctl_number("--after", optarg, 0, 1e6, &value))
			return false;
		fault->at_ns = value * 1e9;
		return true;
	case 'm':
		if (!ctl_number("--at-message", optarg, 1, 1e15, &value))
			return false;
		fault->at_message = value;
		return true;
	case 'f':
		if (!ctl_number("--for", optarg, 1e-6, 1e6, &value))
			return false;
		fault->for_ns = value * 1e9;
		return true;
	default: ctl_usage("bad option"); return false;
	}
}

static int fault_options(int argc, char **argv, struct sn_fault *fault)
{
	static const struct option options[] = {
		{ "after", required_argument, NULL, 'a' },
		{ "at-message", required_argument, NULL, 'm' },
		{ "for", required_argument, NULL, 'f' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	optind = 0; /* a script has many of these */
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!fault_option(opt, fault))
			return CTL_USAGE;
	if (fault->at_ns && fault->at_message)
		return ctl_usage("--after and --at-message exclude each other");
	return CTL_OK;
}

static int fault_check(const char *name, const struct ctl_target *target,
		       const struct sn_fault *fault)
{
	if (target->rail != sn_fault_is_rail(fault->kind))
		return ctl_usage("%s wants %s", name,
				 target->rail ? "a NIC, like h0/mlx5_0" : "a switch, like rail0");
	if (target->rail && fault->at_message)
		return ctl_usage("--at-message counts the messages of a NIC, a switch has none");
	if (fault->for_ns && !sn_fault_can_end(fault->kind))
		return ctl_usage("%s is no condition that could end: --for means nothing", name);
	return CTL_OK;
}

static int fault_build(const struct sn_fabric *fabric, const char *name, const char *where,
		       struct sn_fault *fault)
{
	struct ctl_target target;
	int kind = sn_fault_find(name);

	if (kind < 0)
		return ctl_usage("no fault '%s'", name);
	if (!ctl_target(fabric, where, &target))
		return CTL_FAILED;
	fault->kind = kind;
	fault->host = target.host;
	fault->nic = target.nic;
	return fault_check(name, &target, fault);
}

static int fault_start(struct sn_fabric *fabric, struct sn_fault *fault, uint64_t base_ns)
{
	if (!fault->at_message && !fault->at_ns) {
		sn_fault_apply(fabric, fault->kind, fault->host, fault->nic, fault->for_ns);
		return CTL_OK;
	}
	if (fault->at_message)
		fault->at_message += fabric->nic[fault->host][fault->nic].count.tx_messages;
	else
		fault->at_ns += base_ns;
	if (sn_fault_arm(fabric, fault))
		return ctl_fail("the fault table is full (%d); heal all empties it", SN_MAX_FAULTS);
	return CTL_OK;
}

/* Runs one fault of the command line; kind: NULL if a word before the target names it. */
static int fault_command(int argc, char **argv, const char *kind, const char *wants)
{
	struct sn_fault fault = { .kind = SN_FAULT_NONE };
	struct sn_fabric *fabric;
	int err;

	err = fault_options(argc, argv, &fault);
	if (err)
		return err;
	if (argc - optind != (kind ? 1 : 2))
		return ctl_usage("%s", wants);
	fabric = ctl_attach();
	if (!fabric)
		return CTL_FAILED;
	err = fault_build(fabric, kind ? kind : argv[optind], argv[argc - 1], &fault);
	return err ? err : fault_start(fabric, &fault, now_ns());
}

int ctl_fault(int argc, char **argv)
{
	return fault_command(argc, argv, NULL, "fault wants KIND TARGET");
}

int ctl_reprobe(int argc, char **argv)
{
	return fault_command(argc, argv, "nic-reprobe", "reprobe wants a NIC");
}

/* ---- scripts -------------------------------------------------------------------------------- */

struct script {
	struct sn_fault fault[SN_MAX_FAULTS];
	int n, line;
};

/* A line is what would follow "simnicctl fault". */
static int script_line(const struct sn_fabric *fabric, struct script *script, char *text)
{
	char *words[SCRIPT_WORDS + 1] = { "fault" }, *save;
	struct sn_fault *fault = &script->fault[script->n];
	int n = 1, err;

	text[strcspn(text, "#\n")] = '\0';
	for (char *word = strtok_r(text, " \t", &save); word && n < SCRIPT_WORDS;
	     word = strtok_r(NULL, " \t", &save))
		words[n++] = word;
	if (n == 1)
		return CTL_OK;
	if (script->n == SN_MAX_FAULTS)
		return ctl_fail("a script has at most %d faults", SN_MAX_FAULTS);
	err = fault_options(n, words, fault);
	if (!err && n - optind != 2)
		err = ctl_usage("a line is: KIND TARGET [options]");
	if (!err)
		err = fault_build(fabric, words[optind], words[optind + 1], fault);
	script->n += !err;
	return err;
}

static int script_read(const struct sn_fabric *fabric, FILE *file, struct script *script)
{
	char text[SCRIPT_LINE];
	int err = CTL_OK;

	while (!err && fgets(text, sizeof(text), file)) {
		script->line++;
		err = script_line(fabric, script, text);
	}
	if (err)
		fprintf(stderr, "simnicctl: in line %d; nothing was started\n", script->line);
	return err;
}

/* All of it or nothing; one moment is the zero of all its times. */
static int script_start(struct sn_fabric *fabric, struct script *script)
{
	uint64_t base = now_ns();
	int err = CTL_OK;

	for (int i = 0; i < script->n && !err; i++)
		err = fault_start(fabric, &script->fault[i], base);
	return err;
}

int ctl_script(int argc, char **argv)
{
	static struct script script;
	struct sn_fabric *fabric;
	FILE *file;
	int err;

	if (argc != 2)
		return ctl_usage("script wants a FILE, or - for standard input");
	fabric = ctl_attach();
	if (!fabric)
		return CTL_FAILED;
	file = strcmp(argv[1], "-") ? fopen(argv[1], "re") : stdin;
	if (!file)
		return ctl_fail("cannot read %s: %s", argv[1], strerror(errno));
	err = script_read(fabric, file, &script);
	if (file != stdin)
		fclose(file);
	return err ? err : script_start(fabric, &script);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void heal_all(struct sn_fabric *fabric)
{
	sn_fault_cancel(fabric, SN_HOST_ANY, 0);
	for (uint32_t nic = 0; nic < fabric->n_nics; nic++) {
		sn_fault_apply(fabric, SN_FAULT_SWITCH_UP, 0, nic, 0);
		for (uint32_t host = 0; host < fabric->n_hosts; host++)
			sn_fault_apply(fabric, SN_FAULT_HEAL, host, nic, 0);
	}
}

int ctl_heal(int argc, char **argv)
{
	struct ctl_target target;
	struct sn_fabric *fabric;

	if (argc != 2)
		return ctl_usage("heal wants a TARGET or all");
	fabric = ctl_attach();
	if (!fabric)
		return CTL_FAILED;
	if (!strcmp(argv[1], "all")) {
		heal_all(fabric);
		return CTL_OK;
	}
	if (!ctl_target(fabric, argv[1], &target))
		return CTL_FAILED;
	sn_fault_cancel(fabric, target.rail ? SN_HOST_RAIL : target.host, target.nic);
	sn_fault_apply(fabric, target.rail ? SN_FAULT_SWITCH_UP : SN_FAULT_HEAL, target.host,
		       target.nic, 0);
	return CTL_OK;
}

int ctl_release(int argc, char **argv)
{
	struct ctl_nic nic;

	if (argc != 2)
		return ctl_usage("release wants a NIC");
	if (!ctl_nic(argv[1], &nic))
		return CTL_FAILED;
	sn_fault_end(nic.fabric, SN_FAULT_HOLD_REQUESTS, nic.nic->host, nic.nic->index);
	sn_fault_end(nic.fabric, SN_FAULT_HOLD_ACKS, nic.nic->host, nic.nic->index);
	return CTL_OK;
}
