/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shiftctl run: the environment in which the loader gives a program our libibverbs.so.1. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvclient/kv.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/settings.h"
#include "shiftlib/base/variables.h"
#include "tools/shiftctl.h"

struct run_options {
	const char *kv, *backup, *log, *libdir, *lazy, *env, *ll128;
	bool require; /* no protection, no start */
};

static bool run_log_ok(const char *level)
{
	static const char *const levels[] = { "error", "warn", "info", "debug" };

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (!strcmp(level, levels[i]))
			return true;
	return false;
}

/* 0, or the exit status with a line said. */
static int run_options_parse(int argc, char **argv, struct run_options *opt)
{
	static const struct option longopts[] = {
		{ "kv", required_argument, NULL, 'k' },
		{ "backup", required_argument, NULL, 'b' },
		{ "log", required_argument, NULL, 'l' },
		{ "libdir", required_argument, NULL, 'd' },
		{ "lazy", no_argument, NULL, 'z' },
		{ "require", no_argument, NULL, 'r' },
		{ "no-env", no_argument, NULL, 'n' },
		{ "ll128", no_argument, NULL, '1' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	/* The + stops at the command, whose options are its own. */
	while ((c = getopt_long(argc, argv, "+", longopts, NULL)) != -1) {
		switch (c) {
		case 'k': opt->kv = optarg; break;
		case 'b': opt->backup = optarg; break;
		case 'l': opt->log = optarg; break;
		case 'd': opt->libdir = optarg; break;
		case 'z': opt->lazy = "on"; break;
		case 'r': opt->require = true; break;
		case 'n': opt->env = "off"; break;
		case '1': opt->ll128 = "on"; break;
		default: ctl_say("see shiftctl --help"); return CTL_RUN_USAGE;
		}
	}
	if (opt->log && !run_log_ok(opt->log)) {
		ctl_say("--log is error, warn, info or debug, not \"%s\"", opt->log);
		return CTL_RUN_USAGE;
	}
	if (optind == argc) {
		ctl_say("a command is missing; see shiftctl --help");
		return CTL_RUN_USAGE;
	}
	return 0;
}

static int run_check_kv(const char *url, char err[CTL_ERR_MAX])
{
	struct kv *kv;
	int rc = kv_open(url, 1, &kv, err, CTL_ERR_MAX);

	if (!rc)
		kv_close(kv);
	return rc;
}

/*
 * Where no device is seen the names are left to the library: the command may well see some, when
 * it is itself a launcher.
 */
static int run_check_backup(const char *text, const struct library *lib, char err[CTL_ERR_MAX])
{
	struct device_list list;
	struct backup_map map;
	int rc;

	if (backup_is_auto(text) || !strcmp(text, "spread") || !strcmp(text, "pair"))
		return 0;
	if (devices_list(lib->distro, false, &list, err))
		list.n = 0;
	rc = devices_backup_map(text, &list, &map, err);
	return rc == -ENODEV && list.n == 0 ? 0 : rc;
}

static bool run_list_has(const char *list, const char *entry)
{
	size_t len = strlen(entry);

	while (*list) {
		size_t n = strcspn(list, ": ");

		if (n == len && !memcmp(list, entry, n))
			return true;
		list += n + (list[n] != '\0');
	}
	return false;
}

/* "@first:@second" into a variable; either may be empty. */
static int run_env_join(const char *name, const char *first, const char *second)
{
	size_t len = strlen(first) + strlen(second) + 2;
	char *text = malloc(len);
	int rc;

	if (!text)
		return -ENOMEM;
	snprintf(text, len, "%s%s%s", first, *first && *second ? ":" : "", second);
	rc = setenv(name, text, 1) ? -errno : 0;
	free(text);
	return rc;
}

/* Appends a library to LD_PRELOAD, unless it is there. */
static int run_preload(const char *library)
{
	const char *old = sh_setting("LD_PRELOAD");

	return run_list_has(old ? old : "", library)
		       ? 0
		       : run_env_join("LD_PRELOAD", old ? old : "", library);
}

/*
 * Ours comes behind what is there already, such as a software device, which must be found first by
 * the distribution's library, too. That library is the very last: a program that was linked to a
 * renamed copy of libibverbs, as wheels bring one, then takes all verbs from ours and that library,
 * and none from its copy. A sanitizer's run time insists on the very first place.
 */
static int run_set_preload(const struct library *lib)
{
	char distro[PATH_MAX];
	int rc;

	snprintf(distro, sizeof(distro), "%s/libibverbs-distro.so.1", lib->dir);
	rc = run_preload(lib->ours);
	if (!rc)
		rc = run_preload(distro);
	if (!rc && *SHIFT_SANITIZER_PRELOAD &&
	    !run_list_has(getenv("LD_PRELOAD"), SHIFT_SANITIZER_PRELOAD))
		rc = run_env_join("LD_PRELOAD", SHIFT_SANITIZER_PRELOAD, getenv("LD_PRELOAD"));
	return rc;
}

/* The first entry wins there, so another libibverbs in a later directory does no harm. */
static int run_set_library_path(const struct library *lib)
{
	const char *old = sh_setting("LD_LIBRARY_PATH");

	if (old && !strncmp(old, lib->dir, strlen(lib->dir)) &&
	    (old[strlen(lib->dir)] == ':' || !old[strlen(lib->dir)]))
		return 0;
	return run_env_join("LD_LIBRARY_PATH", lib->dir, old ? old : "");
}

static int run_set_option(const char *name, const char *value)
{
	return value && setenv(name, value, 1) ? -errno : 0;
}

static int run_environment(const struct run_options *opt, char err[CTL_ERR_MAX])
{
	const char *kv = opt->kv ? opt->kv : sh_setting("SHIFT_KV");
	const char *backup = opt->backup ? opt->backup : sh_setting("SHIFT_BACKUP");
	struct library lib;
	int rc;

	rc = library_find(opt->libdir, &lib, err);
	if (!rc)
		rc = run_check_kv(kv, err);
	if (!rc)
		rc = run_check_backup(backup, &lib, err);
	if (rc)
		return rc;
	rc = run_set_option("SHIFT_KV", opt->kv);
	if (!rc)
		rc = run_set_option("SHIFT_BACKUP", opt->backup);
	if (!rc)
		rc = run_set_option("SHIFT_LOG", opt->log);
	if (!rc)
		rc = run_set_option("SHIFT_LAZY", opt->lazy);
	if (!rc)
		rc = run_set_library_path(&lib);
	if (!rc)
		rc = run_set_preload(&lib);
	return rc ? ctl_err(err, rc, "cannot set the environment: %s", strerror(-rc)) : 0;
}

/* ---- variables of other libraries ----------------------------------------------------------- */

/* NCCL before 2.28 finds the user's file so, and not by HOME. */
static const char *run_home(void)
{
	const struct passwd *user = getpwuid(getuid());

	return user ? user->pw_dir : NULL;
}

/* A level that is none is the library's to warn of, once. */
static bool run_logs(void)
{
	const char *level = sh_setting("SHIFT_LOG");

	return level && (!strcmp(level, "info") || !strcmp(level, "debug"));
}

static void run_set_wanted(const char *home)
{
	for (size_t i = 0; i < SH_VARIABLES; i++)
		if (sh_variable_wanted(&sh_variables[i], home) &&
		    setenv(sh_variables[i].name, sh_variables[i].value, 0))
			ctl_say("cannot set %s: %s", sh_variables[i].name, strerror(errno));
}

/* They are the same for all ranks, so they are also set where SHIFT itself cannot run. */
static void run_set_variables(const struct run_options *opt)
{
	char text[SH_VARIABLE_MAX], all[SH_VARIABLE_OWNERS * SH_VARIABLE_MAX] = "";
	const char *home = run_home();
	size_t used = 0;

	if (run_set_option("SHIFT_LOG", opt->log) || run_set_option("SHIFT_ENV", opt->env) ||
	    run_set_option("SHIFT_LL128", opt->ll128))
		ctl_say("cannot set the environment: %s", strerror(errno));
	for (int of = 0; of < SH_VARIABLE_OWNERS; of++)
		if (sh_variables_missing((enum sh_variable_of)of, home, text))
			used += (size_t)snprintf(all + used, sizeof(all) - used, " %s", text);
	run_set_wanted(home);
	if (used && run_logs())
		sh_log(SH_LOG_INFO, "set for NCCL, UCX and MPI:%s (--no-env sets none)", all);
}

/* ---- --require ------------------------------------------------------------------------------ */

/* Runs doctor, in a process of its own: what doctor loads is nothing to the command. */
static void __attribute__((noreturn)) run_doctor(const struct run_options *opt, int out)
{
	char *argv[] = { "doctor", "--libdir", (char *)opt->libdir, NULL };

	dup2(out, STDOUT_FILENO);
	optind = 0; /* getopt() begins anew */
	exit(cmd_doctor(opt->libdir ? 3 : 1, argv));
}

/* Repeats the findings that stand against protection. */
static void run_repeat(FILE *findings)
{
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, findings) > 0)
		if (strstr(line, " NO "))
			fputs(line, stderr);
	free(line);
}

/* True if something would be protected here, in the environment that the command gets. */
static bool run_protects(const struct run_options *opt)
{
	int pipefd[2], status = -1;
	FILE *findings;
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC))
		return false;
	pid = fork();
	if (!pid)
		run_doctor(opt, pipefd[1]);
	close(pipefd[1]);
	findings = fdopen(pipefd[0], "r");
	if (findings) {
		run_repeat(findings);
		fclose(findings);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == CTL_OK;
}

int cmd_run(int argc, char **argv)
{
	struct run_options opt = { 0 };
	char err[CTL_ERR_MAX];
	int rc;

	rc = run_options_parse(argc, argv, &opt);
	if (rc)
		return rc;
	rc = run_environment(&opt, err);
	run_set_variables(&opt);
	if (opt.require && rc)
		ctl_say("%s", err);
	if (opt.require && (rc || !run_protects(&opt))) {
		ctl_say("%s is not started: nothing would be protected here (--require)",
			argv[optind]);
		return CTL_RUN_USAGE;
	}
	if (rc) {
		ctl_say("%s; %s runs without SHIFT", err, argv[optind]);
		/* A library that is found by other means shall not say the same once more. */
		setenv("SHIFT_DISABLE", "1", 1);
	}
	execvp(argv[optind], argv + optind);
	rc = errno == ENOENT ? CTL_NOT_FOUND : CTL_CANNOT_EXECUTE;
	ctl_say("cannot run %s: %s", argv[optind], strerror(errno));
	return rc;
}
