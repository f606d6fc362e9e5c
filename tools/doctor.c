/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* shiftctl doctor: one line a finding, then what would be protected. */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvclient/kv.h"
#include "shiftlib/backup/auto.h"
#include "shiftlib/backup/room.h"
#include "shiftlib/base/settings.h"
#include "tools/doctor.h"
#include "tools/shiftctl.h"

#define DOCTOR_KV_TIMEOUT_MS 2000u
#define DOCTOR_SHOWN_GIDS    4u
#define DOCTOR_MEMORY	     (4u << 20) /* registered by a small program: buffers of a few MiB */

static const char *finding_name(enum finding f)
{
	switch (f) {
	case FINDING_OK: return "ok";
	case FINDING_NOTE: return "note";
	case FINDING_NO: return "NO";
	}
	return "?";
}

void doctor_say(struct doctor *d, const char *what, enum finding f, const char *fmt, ...)
{
	va_list ap;

	printf("%-12s %-4s ", what, finding_name(f));
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void doctor_block(struct doctor *d, const char *what, const char *fmt, ...)
{
	char text[CTL_ERR_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	doctor_say(d, what, FINDING_NO, "%s", text);
	d->blocked = true;
}

static void doctor_nodes(struct doctor *d, const struct elf_file *ours,
			 const struct elf_file *distro)
{
	char missing[CTL_ERR_MAX] = "";
	size_t used = 0;

	for (unsigned i = 0; i < distro->n_nodes; i++) {
		if (elf_has_node(ours, distro->node[i]) || used >= sizeof(missing) - 64)
			continue;
		used += (size_t)snprintf(missing + used, sizeof(missing) - used, " %.40s",
					 distro->node[i]);
	}
	if (used) {
		doctor_block(d, "version map",
			     "programs of this distribution may need%s, which SHIFT's library "
			     "does not define; it needs a newer SHIFT",
			     missing);
		return;
	}
	doctor_say(d, "version map", FINDING_OK,
		   "all %u nodes of the distribution's library (to %s)", distro->n_nodes,
		   distro->n_nodes ? distro->node[distro->n_nodes - 1] : "none");
}

static void doctor_version_map(struct doctor *d)
{
	struct elf_file ours, distro;

	if (elf_open(d->lib.ours, &ours))
		return;
	if (!elf_open(d->lib.distro, &distro)) {
		doctor_nodes(d, &ours, &distro);
		elf_close(&distro);
	}
	elf_close(&ours);
}

/* Loads the library in a process of its own, so that its work at load does not meet ours. */
static void doctor_try_load(const char *path, int out)
{
	const char *why;

	setenv("SHIFT_DISABLE", "1", 1);
	if (dlopen(path, RTLD_NOW | RTLD_LOCAL))
		_exit(0);
	why = dlerror();
	if (write(out, why, strlen(why)) < 0)
		_exit(2);
	_exit(1);
}

static void doctor_load(struct doctor *d)
{
	char why[CTL_ERR_MAX] = "it ended the process";
	int pipefd[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(pipefd))
		return;
	pid = fork();
	if (!pid)
		doctor_try_load(d->lib.ours, pipefd[1]);
	close(pipefd[1]);
	n = read(pipefd[0], why, sizeof(why) - 1);
	if (n > 0)
		why[n] = '\0';
	close(pipefd[0]);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status))
		doctor_say(d, "loading", FINDING_OK, "the loader accepts it");
	else
		doctor_block(d, "loading", "the loader refuses it: %s", why);
}

static void doctor_library(struct doctor *d)
{
	char err[CTL_ERR_MAX], version[64];

	if (library_find(d->libdir, &d->lib, err)) {
		doctor_block(d, "library", "%s", err);
		return;
	}
	library_distro_version(d->lib.distro, version, sizeof(version));
	doctor_say(d, "library", FINDING_OK, "%s", d->lib.ours);
	doctor_say(d, "underneath", FINDING_OK, "%s%s", d->lib.distro, version);
	doctor_version_map(d);
	doctor_load(d);
}

static void doctor_kv(struct doctor *d)
{
	const char *url = d->kv ? d->kv : sh_setting("SHIFT_KV");
	const struct kv_options options = { .timeout_ms = DOCTOR_KV_TIMEOUT_MS,
					    .password_file = sh_setting("SHIFT_KV_PASSWORD_FILE"),
					    .secret_file = sh_setting("SHIFT_SECRET_FILE") };
	char err[KV_ERR_MAX];
	struct kv *kv;

	if (kv_open_with(url, &options, &kv, err, sizeof(err))) {
		doctor_block(d, "kv", "%s", err);
		return;
	}
	if (kv_ping(kv))
		doctor_block(d, "kv", "%s; protection begins once it answers", kv_last_error(kv));
	else
		doctor_say(d, "kv", FINDING_OK, "%s answers", kv_where(kv));
	kv_close(kv);
}

static const struct device *doctor_backup_of(const struct doctor *d, unsigned i)
{
	return d->map.n_backups[i] ? &d->devices.dev[d->map.backups[i][0]] : NULL;
}

/* NULL: none, and *why. */
static const char *doctor_engine(const struct doctor *d, unsigned i, const char **why)
{
	const struct device *backups[BACKUP_MAP_MAX_BACKUPS];
	unsigned n = d->map.n_backups[i], k;
	const char *engine;

	for (k = 0; k < n; k++)
		backups[k] = &d->devices.dev[d->map.backups[i][k]];
	engine = device_engine(&d->devices.dev[i], backups, n);
	*why = engine ? NULL : device_no_engine(&d->devices.dev[i], backups, n);
	return engine;
}

/* NULL: protected by @backup; otherwise the reason why not. */
static const char *doctor_why_not(const struct device *dev, const struct device *backup)
{
	if (dev->open_errno)
		return "it cannot be opened";
	if (!dev->active)
		return "its port is not active";
	if (!backup)
		return "it has no backup";
	if (backup->open_errno)
		return "its backup cannot be opened";
	if (!backup->active)
		return "its backup's port is not active";
	return NULL;
}

/* Returns NULL if one backup serves; else the first one's fault. */
static const char *doctor_why_no_backup(const struct doctor *d, unsigned i)
{
	const struct device *dev = &d->devices.dev[i];
	const char *first = doctor_why_not(dev, doctor_backup_of(d, i)), *why = first;

	for (unsigned k = 1; k < d->map.n_backups[i] && why; k++)
		why = doctor_why_not(dev, &d->devices.dev[d->map.backups[i][k]]);
	return why ? first : NULL;
}

static void doctor_gids(const struct device *dev)
{
	unsigned shown = dev->n_gids < DOCTOR_SHOWN_GIDS ? dev->n_gids : DOCTOR_SHOWN_GIDS;

	for (unsigned i = 0; i < shown; i++)
		printf("%-17s gid %u: %s (%s)\n", "", dev->gid[i].index, dev->gid[i].text,
		       dev->gid[i].type);
	if (dev->n_gids > shown)
		printf("%-17s and %u more\n", "", dev->n_gids - shown);
}

static bool doctor_device(struct doctor *d, unsigned i)
{
	const struct device *dev = &d->devices.dev[i], *backup = doctor_backup_of(d, i);
	enum backup_near near =
		backup ? backup_near(&dev->place, &backup->place) : BACKUP_NOT_KNOWN;
	const char *why, *engine = doctor_engine(d, i, &why);
	char more[24] = "";
	enum finding f;

	why = why ? why : doctor_why_no_backup(d, i);
	if (backup && d->map.n_backups[i] > 1)
		snprintf(more, sizeof(more), " and %u more", d->map.n_backups[i] - 1u);
	f = why ? FINDING_NO : FINDING_OK;
	if (dev->open_errno)
		doctor_say(d, dev->name, f, "cannot be opened: %s", strerror(dev->open_errno));
	else
		doctor_say(d, dev->name, f, "%s, port %s, %s, LID %u; backup %s%s%s%s%s%s",
			   engine ? engine : "no engine", dev->state, dev->layer_name, dev->lid,
			   backup ? backup->name : "none", backup ? ", " : "",
			   backup ? backup_near_text(near) : "", more, why ? "; " : "",
			   why ? why : "");
	if (backup && near == BACKUP_SAME_CARD)
		doctor_say(
			d, dev->name, FINDING_NOTE,
			"%s is on the same card and fails with it; a NIC of another card is better",
			backup->name);
	doctor_gids(dev);
	return !why;
}

static void doctor_auto(struct doctor *d)
{
	uint64_t wants = devices_backup_wants(&d->devices);

	if (d->map.spread)
		doctor_say(d, "backup", FINDING_OK, "auto: spread");
	else if (wants)
		doctor_say(d, "backup", FINDING_NOTE,
			   "auto: pair, as no more than %llu KiB may be locked (ulimit -l), and "
			   "spread wants %llu",
			   (unsigned long long)backup_lockable() / 1024,
			   (unsigned long long)wants / 1024);
	else
		doctor_say(d, "backup", FINDING_OK, "auto: pair, as no NIC has two others like it");
}

static void doctor_backup_map(struct doctor *d)
{
	const char *text = d->backup ? d->backup : sh_setting("SHIFT_BACKUP");
	char err[CTL_ERR_MAX];

	if (devices_backup_map(text, &d->devices, &d->map, err))
		doctor_block(d, "backup", "%s", err);
	else if (backup_is_auto(text))
		doctor_auto(d);
	else
		doctor_say(d, "backup", FINDING_OK, "%s", text);
	doctor_room(d);
}

static void doctor_engine_choice(struct doctor *d)
{
	const char *choice = devices_engine_choice();

	if (!devices_engine_known())
		doctor_block(d, "engine", "SHIFT_ENGINE=%s is neither auto nor mlx5 nor ledger",
			     choice);
	else
		doctor_say(d, "engine", FINDING_OK, "%s", choice);
}

/* A word of the operator's about the program, which nobody can check. */
static void doctor_atomics(struct doctor *d)
{
	const char *text = sh_setting("SHIFT_ATOMICS");

	if (text && !strcmp(text, "owner"))
		doctor_say(d, "atomics", FINDING_NOTE,
			   "SHIFT_ATOMICS=owner: right only where each value that a "
			   "compare-and-swap puts "
			   "in is its owner's alone, and he alone changes it; see shift(7)");
	if (text && !strcmp(text, "uid"))
		doctor_say(d, "atomics", FINDING_NOTE,
			   "SHIFT_ATOMICS=uid: for programs with the calls of shift_uid(3), which "
			   "all that "
			   "change their words must use");
}

/*
 * Lists devices through the library underneath, so that SHIFT's own work does not color the
 * answer.
 */
static unsigned doctor_devices(struct doctor *d, bool protected[BACKUP_MAP_MAX_NICS])
{
	const char *library = d->lib.distro[0] ? d->lib.distro : NULL;
	char err[CTL_ERR_MAX];
	unsigned n = 0;

	if (devices_list(library, true, &d->devices, err)) {
		doctor_block(d, "devices", "%s", err);
		return 0;
	}
	if (!d->devices.n) {
		doctor_block(d, "devices", "this machine shows no RDMA device");
		return 0;
	}
	doctor_backup_map(d);
	doctor_engine_choice(d);
	for (unsigned i = 0; i < d->devices.n; i++) {
		protected[i] = doctor_device(d, i);
		n += protected[i];
	}
	doctor_gpus(d);
	return n;
}

static int doctor_verdict(const struct doctor *d, const bool protected[], unsigned n)
{
	if (d->blocked || !n) {
		printf("\nNothing would be protected here%s.\n",
		       d->blocked ? "; see the lines marked NO" : "");
		return CTL_NOTHING_PROTECTED;
	}
	printf("\nWould be protected: reliable connections on");
	for (unsigned i = 0; i < d->devices.n; i++)
		if (protected[i])
			printf(" %s", d->devices.dev[i].name);
	printf(", if the peer runs SHIFT too.\n");
	return CTL_OK;
}

/* "64M" -> bytes: 0 or -EINVAL. */
static int doctor_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMG";
	char *end;
	unsigned long long n = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (end == text || *text == '-' || !unit || end[1] || n > 1u << 30)
		return -EINVAL;
	*out = (uint64_t)n << (10 * (unit - units + 1));
	return 0;
}

static int doctor_options(int argc, char **argv, struct doctor *d)
{
	static const struct option longopts[] = {
		{ "kv", required_argument, NULL, 'k' },
		{ "backup", required_argument, NULL, 'b' },
		{ "libdir", required_argument, NULL, 'd' },
		{ "memory", required_argument, NULL, 'm' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		switch (c) {
		case 'k': d->kv = optarg; break;
		case 'b': d->backup = optarg; break;
		case 'd': d->libdir = optarg; break;
		case 'm':
			if (!doctor_size(optarg, &d->memory))
				break;
			ctl_say("--memory takes a size such as 512K, 64M or 8G, not \"%s\"",
				optarg);
			return CTL_USAGE;
		default: ctl_say("see shiftctl --help"); return CTL_USAGE;
		}
	}
	if (optind != argc) {
		ctl_say("doctor takes no \"%s\"; see shiftctl --help", argv[optind]);
		return CTL_USAGE;
	}
	return 0;
}

int cmd_doctor(int argc, char **argv)
{
	static struct doctor d;
	bool protected[BACKUP_MAP_MAX_NICS] = { false };
	unsigned n;
	int rc;

	d.memory = DOCTOR_MEMORY;
	rc = doctor_options(argc, argv, &d);
	if (rc)
		return rc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	doctor_library(&d);
	doctor_settings(&d);
	doctor_limits(&d);
	doctor_kv(&d);
	doctor_atomics(&d);
	n = doctor_devices(&d, protected);
	return doctor_verdict(&d, protected, n);
}
