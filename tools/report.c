/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shiftctl report: one archive for a bug report. Each part is written by a process of its own, is
 * scrubbed on its way into a file, and is named with what it has, for the person who reads it
 * before it is sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/report.h"
#include "tools/scrub.h"

#define REPORT_ARCHIVE ".tar.gz"
#define REPORT_LIST    "CONTENTS"

struct report_options {
	pid_t pid;
	bool directory;
	const char *output; /* NULL: named by the time, in the current directory */
};

/* Where it is made. */
struct report_place {
	char output[PATH_MAX]; /* archive or directory, as the user gets it */
	char above[PATH_MAX];  /* temporary directory around the folder; "": none */
	char folder[PATH_MAX];
};

static const struct report_part {
	const char *name, *has;
	void (*write)(struct report *report);
} report_parts[] = {
	{ "versions.txt", "versions of SHIFT, of the libraries, of kernel and distribution",
	  report_versions },
	{ "doctor.txt",
	  "what shiftctl doctor finds; addresses of this host's NICs and of the store", NULL },
	{ "settings.txt",
	  "SHIFT's settings, and those variables of others that shiftctl(1) lists; passwords cut "
	  "out",
	  report_settings },
	{ "nics.txt", "sysfs of the NICs: firmware, ports, partitions, counters", report_nics },
	{ "status.txt", "NICs and queue pairs of the programs; addresses of their peers",
	  report_status },
	{ "status.json", "status.txt for programs, complete", report_status_json },
	{ "events.txt", "what has happened in them; addresses of their peers", report_events },
	{ "events.json", "events.txt for programs, complete", report_events_json },
	{ "why.txt", "the story of each NIC and connection that is not well", report_why },
	{ "log.txt", "last lines that SHIFT wrote to SHIFT_LOG_FILE; addresses in them",
	  report_log },
};

#define REPORT_PARTS (sizeof(report_parts) / sizeof(*report_parts))

static const char report_without[] =
	"Not within: command lines, programs of other users, other environment variables, "
	"passwords, keys,\nwhat SHIFT_ON_EVENT runs, the name of this host, and lines of a log "
	"file that are not SHIFT's.\n";

/* ---- options -------------------------------------------------------------------------------- */

static int report_options_parse(int argc, char **argv, struct report_options *opt)
{
	static const struct option longopts[] = {
		{ "pid", required_argument, NULL, 'p' },
		{ "output", required_argument, NULL, 'o' },
		{ "directory", no_argument, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	long number;
	int c;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		switch (c) {
		case 'd': opt->directory = true; break;
		case 'o': opt->output = optarg; break;
		case 'p':
			if (ctl_number(optarg, 1, INT_MAX, &number)) {
				ctl_say("--pid takes a process id, not \"%s\"", optarg);
				return CTL_USAGE;
			}
			opt->pid = (pid_t)number;
			break;
		default: ctl_say("see shiftctl --help"); return CTL_USAGE;
		}
	}
	if (optind == argc)
		return 0;
	ctl_say("report takes no argument \"%s\"; see shiftctl --help", argv[optind]);
	return CTL_USAGE;
}

/* ---- place ---------------------------------------------------------------------------------- */

static int place_complain(const char *path, int error)
{
	ctl_say("%s: %s", path, strerror(error));
	return -error;
}

static void place_name(const struct report_options *opt, struct report_place *place)
{
	time_t now = time(NULL);
	struct tm tm;
	char date[32];

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%Y%m%d-%H%M%S", &tm);
	if (opt->output)
		snprintf(place->output, sizeof(place->output), "%s", opt->output);
	else
		snprintf(place->output, sizeof(place->output), "shift-report-%s%s", date,
			 opt->directory ? "" : REPORT_ARCHIVE);
}

/* The archive's one folder has the archive's name. */
static int place_archive(struct report_place *place)
{
	const char *tmp = getenv("TMPDIR");
	char copy[PATH_MAX], *name;
	int fd = open(place->output, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t length;

	if (fd < 0)
		return place_complain(place->output, errno);
	close(fd);
	snprintf(place->above, sizeof(place->above), "%s/shift-report-XXXXXX",
		 tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(place->above))
		return place_complain(place->above, errno);
	snprintf(copy, sizeof(copy), "%s", place->output);
	name = basename(copy);
	length = strlen(name);
	if (length > strlen(REPORT_ARCHIVE) &&
	    !strcmp(name + length - strlen(REPORT_ARCHIVE), REPORT_ARCHIVE))
		name[length - strlen(REPORT_ARCHIVE)] = '\0';
	if ((size_t)snprintf(place->folder, sizeof(place->folder), "%s/%s", place->above, name) >=
	    sizeof(place->folder))
		return place_complain(place->output, ENAMETOOLONG);
	return mkdir(place->folder, 0700) ? place_complain(place->folder, errno) : 0;
}

static int place_make(const struct report_options *opt, struct report_place *place)
{
	place_name(opt, place);
	if (!opt->directory)
		return place_archive(place);
	memcpy(place->folder, place->output, sizeof(place->folder));
	return mkdir(place->folder, 0700) ? place_complain(place->folder, errno) : 0;
}

static int place_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* The doctor is one that has not found anything yet. */
static void __attribute__((noreturn))
part_run(const struct report_part *part, struct report *report, int out)
{
	char *argv[] = { "doctor", NULL };

	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	optind = 0;
	if (part->write)
		part->write(report);
	else
		cmd_doctor(1, argv);
	fflush(stdout);
	_exit(0);
}

static char *part_read(int fd)
{
	char *text = NULL, piece[4096];
	size_t length;
	FILE *to = open_memstream(&text, &length);
	ssize_t n;

	while (to && ((n = read(fd, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0)
			fwrite(piece, 1, (size_t)n, to);
	if (to && fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

/* What a part writes, scrubbed. NULL: it cannot be had. The caller's to free. */
static char *part_text(const struct report_part *part, struct report *report)
{
	int pipefd[2], status = 0;
	char *text, *clean;
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC))
		return NULL;
	fflush(stdout);
	pid = fork();
	if (!pid)
		part_run(part, report, pipefd[1]);
	close(pipefd[1]);
	text = pid > 0 ? part_read(pipefd[0]) : NULL;
	close(pipefd[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	clean = text ? scrub(text) : NULL;
	free(text);
	if (clean && status)
		ctl_say("%s is incomplete: what writes it ended with status %d", part->name,
			status);
	return clean;
}

static int file_write(const struct report_place *place, const char *name, const char *text)
{
	char path[PATH_MAX + 64];
	int fd, rc = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", place->folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!file)
		return place_complain(path, errno);
	if (fputs(text, file) < 0)
		rc = -EIO;
	return fclose(file) || rc ? place_complain(path, errno ? errno : EIO) : 0;
}

static void list_print(FILE *to)
{
	for (size_t i = 0; i < REPORT_PARTS; i++)
		fprintf(to, "  %-13s %s\n", report_parts[i].name, report_parts[i].has);
	fprintf(to, "  %-13s this list, and what is not within\n\n%s", REPORT_LIST, report_without);
}

static int list_write(const struct report_place *place)
{
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);
	int rc = -ENOMEM;

	if (to) {
		fputs("A report of SHIFT for its developers: read it before you send it.\n\n", to);
		list_print(to);
		if (!fclose(to))
			rc = file_write(place, REPORT_LIST, text);
	}
	free(text);
	return rc;
}

static int parts_write(struct report *report, const struct report_place *place)
{
	int rc = list_write(place);
	char *text;

	for (size_t i = 0; !rc && i < REPORT_PARTS; i++) {
		text = part_text(&report_parts[i], report);
		if (!text)
			ctl_say("%s: out of memory or processes", report_parts[i].name);
		rc = file_write(place, report_parts[i].name,
				text ? text : "It could not be written.\n");
		free(text);
	}
	return rc;
}

/* ---- the archive ---------------------------------------------------------------------------- */

static int archive_make(struct report_place *place)
{
	char *name = strrchr(place->folder, '/') + 1;
	char *argv[] = { "tar",	      "-czf",	    place->output,
			 "--owner=0", "--group=0",  "--numeric-owner",
			 "-C",	      place->above, "--",
			 name,	      NULL };
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		ctl_say("tar: %s; --directory does without", strerror(errno));
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (status)
		ctl_say("tar could not write %s", place->output);
	return status ? -EIO : 0;
}

static void place_tidy(const struct report_place *place, bool failed)
{
	if (*place->above) {
		nftw(place->above, place_remove_one, 8, FTW_DEPTH | FTW_PHYS);
		if (failed)
			unlink(place->output);
	}
}

static void report_say(const struct report_options *opt, const struct report_place *place)
{
	printf("%s has:\n", place->output);
	list_print(stdout);
	if (opt->directory)
		printf("Look through the files before you send them.\n");
	else
		printf("Look through it before you send it: tar -xzf %s\n", place->output);
}

/* ---- the programs --------------------------------------------------------------------------- */

/* Keeps those of this user, or the one that was asked for. */
static int report_find(struct report *report)
{
	struct ctl_processes *found = &report->processes;
	unsigned kept = 0;

	if (ctl_find(report->pid, found)) {
		ctl_say("out of memory");
		return -ENOMEM;
	}
	for (unsigned i = 0; i < found->n; i++) {
		if (report->pid || found->all[i].uid == geteuid()) {
			found->all[kept++] = found->all[i];
			continue;
		}
		free(found->all[i].socket);
		report->left_out++;
	}
	found->n = kept;
	if (report->pid && !kept) {
		ctl_say("no program with SHIFT has the number %d", (int)report->pid);
		return -ESRCH;
	}
	return 0;
}

int cmd_report(int argc, char **argv)
{
	struct report_options opt = { 0 };
	static struct report_place place;
	struct report report = { 0 };
	int rc = report_options_parse(argc, argv, &opt);

	if (rc)
		return rc;
	report.pid = opt.pid;
	rc = report_find(&report);
	if (rc)
		goto free_processes;
	report_learn(&report);
	rc = place_make(&opt, &place);
	if (rc)
		goto tidy;
	rc = parts_write(&report, &place);
	if (!rc && !opt.directory)
		rc = archive_make(&place);
	if (!rc)
		report_say(&opt, &place);
tidy:
	place_tidy(&place, rc);
	scrub_forget();
free_processes:
	ctl_processes_free(&report.processes);
	return rc ? CTL_NOT_ALL : CTL_OK;
}
