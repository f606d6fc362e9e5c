/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tools/ctl_client.h"
#include "tools/proc.h"
#include "tools/reach.h"
#include "tools/shiftctl.h"

#define REACH_FOLDER   "/dev/infiniband"
#define REACH_FILE     REACH_FOLDER "/uverbs"
#define REACH_AGAIN_MS 300
#define REACH_PARENTS  8	  /* ancestors that a file may come from */
#define REACH_MAPS     (16 << 20) /* bytes of a process's mappings that are read */

static const struct ctl_patience reach_patient = { .idle_ms = 2000,
						   .total_ms = 5000,
						   .most = 64u << 10 };

struct reach_scan {
	struct reach *out;
	char root[PATH_MAX]; /* what this process's own /dev lies in: "", or a simulated host */
};

/* ---- the files that a process has open ------------------------------------------------------ */

/*
 * Reads the number of a device's file out of where an open file leads to. The file of a software
 * device is memory of that name. False: it is none, or one of another root.
 */
static bool file_is_node(const struct reach_scan *scan, const char *link, bool device,
			 unsigned *node)
{
	static const char memory[] = "/memfd:";
	const char *at;
	char tail[16];

	if (!strncmp(link, memory, sizeof(memory) - 1))
		link += sizeof(memory) - 1;
	at = strstr(link, REACH_FILE);
	if (!at || sscanf(at + strlen(REACH_FILE), "%u%15s", node, tail) < 1)
		return false;
	/* a container's devices are this host's, wherever its own /dev lies */
	return device || (strlen(scan->root) == (size_t)(at - link) &&
			  !strncmp(link, scan->root, (size_t)(at - link)));
}

static bool file_node(const struct reach_scan *scan, pid_t pid, const char *fd, unsigned *node)
{
	char name[32], path[PROC_PATH_MAX], link[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(name, sizeof(name), "fd/%.20s", fd);
	n = readlink(proc_path(path, pid, name), link, sizeof(link) - 1);
	if (n <= 0)
		return false;
	link[n] = '\0';
	return strstr(link, REACH_FILE) &&
	       file_is_node(scan, link, !stat(path, &st) && S_ISCHR(st.st_mode), node);
}

/* Where the kernel does not compare files, their nodes are compared. */
static bool file_is_same(const struct reach_scan *scan, pid_t a, pid_t b, const char *fd)
{
	unsigned long number = strtoul(fd, NULL, 10);
	long order = syscall(SYS_kcmp, a, b, KCMP_FILE, number, number);
	unsigned node, other;

	if (order >= 0 || errno == EBADF)
		return !order;
	return file_node(scan, a, fd, &node) && file_node(scan, b, fd, &other) && node == other;
}

/* True if the file came with a fork: it is an ancestor's, under the same number. */
static bool file_is_inherited(const struct reach_scan *scan, pid_t pid, const char *fd)
{
	pid_t parent = pid;

	for (int i = 0; i < REACH_PARENTS; i++) {
		parent = proc_parent(parent);
		if (parent <= 0)
			return false;
		if (file_is_same(scan, pid, parent, fd))
			return true;
	}
	return false;
}

static void device_name(struct reach_device *device)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/uverbs%u/ibdev", device->node);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fscanf(file, "%63s", device->name) != 1)
		device->name[0] = '\0';
	fclose(file);
}

static void process_opened(struct reach_process *process, unsigned node)
{
	struct reach_device *device = process->device;

	while (device < process->device + process->n && device->node != node)
		device++;
	if (device == process->device + REACH_DEVICES)
		return;
	if (device == process->device + process->n) {
		process->n++;
		*device = (struct reach_device){ .node = node };
		device_name(device);
	}
	device->opened++;
}

static void process_files(const struct reach_scan *scan, struct reach_process *process)
{
	char path[PROC_PATH_MAX];
	DIR *dir = opendir(proc_path(path, process->pid, "fd"));
	struct dirent *entry;
	unsigned node;

	while (dir && (entry = readdir(dir)))
		if (file_node(scan, process->pid, entry->d_name, &node) &&
		    !file_is_inherited(scan, process->pid, entry->d_name))
			process_opened(process, node);
	if (dir)
		closedir(dir);
}

static int process_add(struct reach *out, const struct reach_process *process)
{
	struct reach_process *grown = realloc(out->all, (out->n + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	out->all = grown;
	grown[out->n++] = *process;
	return 0;
}

static int process_scan(pid_t pid, void *arg)
{
	struct reach_process process = { .pid = pid };
	struct reach_scan *scan = arg;

	process_files(scan, &process);
	return process.n ? process_add(scan->out, &process) : 0;
}

/* Writes what the path of this process's own /dev/infiniband begins with. */
static void scan_root(struct reach_scan *scan)
{
	int fd = open(REACH_FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[PROC_PATH_MAX], name[32];
	ssize_t n = -1;

	snprintf(name, sizeof(name), "fd/%d", fd);
	if (fd >= 0)
		n = readlink(proc_path(path, getpid(), name), scan->root, sizeof(scan->root) - 1);
	if (fd >= 0)
		close(fd);
	n -= (ssize_t)strlen(REACH_FOLDER);
	scan->root[n > 0 && !strcmp(scan->root + n, REACH_FOLDER) ? n : 0] = '\0';
}

/* ---- what SHIFT knows of them --------------------------------------------------------------- */

static struct reach_process *reach_by_pid(const struct reach *reach, pid_t pid)
{
	for (unsigned i = 0; i < reach->n; i++)
		if (reach->all[i].pid == pid)
			return &reach->all[i];
	return NULL;
}

/* Takes away the files that SHIFT has contexts for. */
static void process_known(struct reach_process *process, const json_t *answer)
{
	const json_t *open = json_object_get(answer, "open");
	unsigned kept = 0;

	for (unsigned i = 0; i < process->n; i++) {
		struct reach_device *device = &process->device[i];
		char node[32];

		snprintf(node, sizeof(node), "uverbs%u", device->node);
		if ((long long)device->opened > ctl_int(open, node))
			process->device[kept++] = *device;
	}
	process->n = kept;
}

static int reach_ask(struct reach *reach, const struct ctl_processes *processes)
{
	struct ctl_question *questions = calloc(processes->n + 1, sizeof(*questions));
	int rc;

	if (!questions)
		return -ENOMEM;
	for (unsigned i = 0; i < processes->n; i++)
		questions[i].process = &processes->all[i];
	rc = ctl_ask_all(questions, processes->n, &reach_patient, "open");
	for (unsigned i = 0; i < processes->n; i++) {
		struct reach_process *process = reach_by_pid(reach, questions[i].here);

		if (!rc && process && !questions[i].rc)
			process_known(process, questions[i].answer);
		else if (!rc && process)
			process->n = 0; /* it has SHIFT, and is only slow */
		ctl_ask_end(&questions[i]);
	}
	free(questions);
	return rc;
}

static void reach_drop_known(struct reach *reach)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < reach->n; i++)
		if (reach->all[i].n)
			reach->all[kept++] = reach->all[i];
	reach->n = kept;
}

static int reach_once(struct reach *out)
{
	struct reach_scan scan = { .out = out };
	struct ctl_processes processes;
	int rc;

	scan_root(&scan);
	rc = proc_each(process_scan, &scan);
	if (rc || !out->n)
		return rc;
	rc = ctl_find(0, &processes);
	if (!rc)
		rc = reach_ask(out, &processes);
	ctl_processes_free(&processes);
	reach_drop_known(out);
	return rc;
}

/* ---- why ------------------------------------------------------------------------------------ */

struct reach_libraries {
	bool shift, installed;
	char renamed[64]; /* "": there is none of another name */
};

/* True if the file is SHIFT's library, which alone needs the one underneath by that name. */
static bool library_is_shift(pid_t pid, const char *path)
{
	char inside[PATH_MAX];
	struct elf_file elf;
	bool is;

	if (snprintf(inside, sizeof(inside), "/proc/%d/root%s", (int)pid, path) >=
		    (int)sizeof(inside) ||
	    elf_open(inside, &elf))
		return false;
	is = elf_needs(&elf, "libibverbs-distro.so.1");
	elf_close(&elf);
	return is;
}

static void library_note(struct reach_libraries *libraries, pid_t pid, const char *path)
{
	static const char installed[] = "libibverbs.so.1";
	const char *base = strrchr(path, '/') + 1;

	if (strncmp(base, "libibverbs", strlen("libibverbs")))
		return;
	if (strncmp(base, installed, sizeof(installed) - 1))
		snprintf(libraries->renamed, sizeof(libraries->renamed), "%s", base);
	else if (library_is_shift(pid, path))
		libraries->shift = true;
	else
		libraries->installed = true;
}

static void libraries_read(struct reach_libraries *libraries, pid_t pid)
{
	size_t length;
	char *text = proc_read(pid, "maps", REACH_MAPS, &length), *line, *rest = text;

	while (text && (line = strsep(&rest, "\n"))) {
		char *path = strchr(line, '/');

		/* each file has several mappings: that of its beginning counts */
		if (path && strstr(path, "/libibverbs") && strstr(line, " 00000000 "))
			library_note(libraries, pid, path);
	}
	free(text);
}

static void process_why(struct reach_process *process)
{
	struct reach_libraries libraries = { 0 };

	libraries_read(&libraries, process->pid);
	if (libraries.renamed[0])
		snprintf(process->why, sizeof(process->why), "it uses %s; start it by shiftctl run",
			 libraries.renamed);
	else if (libraries.shift)
		snprintf(process->why, sizeof(process->why), "%s",
			 "SHIFT is in it, and turned off, or its socket was not found "
			 "(SHIFT_DISABLE, SHIFT_RUN_DIR)");
	else
		snprintf(process->why, sizeof(process->why), "%s",
			 libraries.installed ? "it runs without SHIFT"
					     : "it has no libibverbs that SHIFT could replace");
}

/* Tames a byte: the text is shown to root, too. */
static char command_byte(char c)
{
	if (!c)
		return ' ';
	return c < 0x20 || c > 0x7e ? '?' : c;
}

static void process_command(struct reach_process *process)
{
	size_t length;
	char *text = proc_read(process->pid, "cmdline", sizeof(process->command) - 1, &length);

	for (size_t i = 0; text && i < length; i++)
		process->command[i] = command_byte(text[i]);
	while (length && process->command[length - 1] == ' ')
		process->command[--length] = '\0';
	free(text);
}

/* ---- all ------------------------------------------------------------------------------------ */

/* Keeps those that the second look has found, too. */
static void reach_confirm(struct reach *reach, const struct reach *again)
{
	for (unsigned i = 0; i < reach->n; i++) {
		const struct reach_process *still = reach_by_pid(again, reach->all[i].pid);

		if (still)
			reach->all[i] = *still;
		else
			reach->all[i].n = 0;
	}
	reach_drop_known(reach);
}

static int reach_order(const void *a, const void *b)
{
	const struct reach_process *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int reach_find(bool sure, struct reach *out)
{
	const struct timespec pause = { .tv_nsec = REACH_AGAIN_MS * 1000000l };
	struct reach again = { 0 };
	int rc;

	*out = (struct reach){ 0 };
	rc = reach_once(out);
	if (!rc && out->n && sure) {
		nanosleep(&pause, NULL);
		rc = reach_once(&again);
		reach_confirm(out, &again);
		reach_free(&again);
	}
	if (out->n)
		qsort(out->all, out->n, sizeof(*out->all), reach_order);
	for (unsigned i = 0; i < out->n; i++) {
		process_command(&out->all[i]);
		process_why(&out->all[i]);
	}
	return rc;
}

void reach_free(struct reach *reach)
{
	free(reach->all);
	*reach = (struct reach){ 0 };
}

bool reach_uses(const struct reach_process *process, const char *device)
{
	for (unsigned i = 0; i < process->n; i++)
		if (!strcmp(process->device[i].name, device))
			return true;
	return false;
}

json_t *reach_json(const struct reach *reach)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < reach->n; i++) {
		const struct reach_process *process = &reach->all[i];
		json_t *devices = json_array();

		for (unsigned k = 0; k < process->n; k++)
			json_array_append_new(devices, json_string(process->device[k].name));
		json_array_append_new(all, json_pack("{s:i, s:s, s:o, s:s}", "pid",
						     (int)process->pid, "command", process->command,
						     "devices", devices, "why", process->why));
	}
	return all;
}
