/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The declarations that the commands of shiftctl share. One thread; strings live as long as the
 * process.
 */
#ifndef TOOLS_SHIFTCTL_H
#define TOOLS_SHIFTCTL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shiftlib/backup/map.h"
#include "shiftlib/control/version.h"

/*
 * Exit statuses. Those of `run` are as in env(1) and timeout(1): our own failure is told apart
 * from the command's.
 */
enum {
	CTL_OK = 0,
	CTL_NOTHING_PROTECTED = 1,
	CTL_NOT_ALL = 1, /* not all that was asked for */
	CTL_USAGE = 2,
	CTL_NOBODY = 3, /* drain: no program was found that could be asked */
	CTL_STAYS = 4,	/* drain: something still uses the device */
	CTL_RUN_USAGE = 125,
	CTL_CANNOT_EXECUTE = 126,
	CTL_NOT_FOUND = 127,
};

#define CTL_ERR_MAX 512u

int cmd_run(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_drain(int argc, char **argv);
int cmd_undrain(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_probe_hw(int argc, char **argv);

/* The program's name and what it has to say, on stderr, one line. */
void ctl_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Fills an error sentence and returns @rc. */
int ctl_err(char err[CTL_ERR_MAX], int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- elf.c: what the dynamic section of a shared object says -------------------------------- */

#define ELF_MAX_NODES  256u
#define ELF_MAX_NEEDED 64u

struct elf_file {
	void *map;
	size_t size;
	const char *soname; /* NULL: none */
	const char *needed[ELF_MAX_NEEDED];
	const char *node[ELF_MAX_NODES]; /* version definitions, the file's own name left out */
	unsigned n_needed, n_nodes;
};

/* 0, -errno of the file, or -ENOEXEC: no shared object of this machine, or a damaged one. */
int elf_open(const char *path, struct elf_file *out);
void elf_close(struct elf_file *elf);
bool elf_needs(const struct elf_file *elf, const char *soname);
bool elf_has_node(const struct elf_file *elf, const char *name);

/* ---- library.c: our libibverbs.so.1 and the links beside it --------------------------------- */

/* Room behind the directory for the names of the files in it. */
#define LIBRARY_DIR_MAX (PATH_MAX - 64)

struct library {
	char dir[LIBRARY_DIR_MAX];
	char ours[PATH_MAX];
	char distro[PATH_MAX]; /* the distribution's file that the symlink leads to */
};

/*
 * Finds the directory (@libdir, or ../lib/shift beside this program, or the installed one) and
 * checks all that a program needs to start with it. 0, or -errno with one sentence that says what
 * to do; @lib then has what was found, the rest empty.
 */
int library_find(const char *libdir, struct library *lib, char err[CTL_ERR_MAX]);

/* " (rdma-core 44.0)", by the name of the file that links lead to, or "". */
void library_distro_version(const char *path, char *buf, size_t cap);

#define LIBRARY_VERSION_MAX 32

/* Reads our library's version out of its file. 0; -ENOENT: the file says nothing; -errno. */
int library_version(const struct library *lib, char version[LIBRARY_VERSION_MAX],
		    char protocol[LIBRARY_VERSION_MAX]);

/* ---- devices.c: RDMA devices as the distribution's libibverbs shows them -------------------- */

#define DEVICE_MAX_GIDS 16u

struct device_gid {
	unsigned index;
	const char *type;
	char text[48];
};

struct device {
	char name[64];
	bool mlx5, plain; /* engines that serve it: the ring engine; the ledger, over plain verbs */
	bool iwarp;
	struct backup_nic place; /* name is the one above */
	int open_errno;
	bool active; /* port 1 */
	const char *state;
	const char *layer_name;
	unsigned lid;
	unsigned n_gids; /* all that are set; the first DEVICE_MAX_GIDS are kept */
	struct device_gid gid[DEVICE_MAX_GIDS];
};

struct device_list {
	unsigned n;
	struct device dev[BACKUP_MAP_MAX_NICS];
};

/* SHIFT_ENGINE; auto if it is not set. Known: there is such an engine. */
const char *devices_engine_choice(void);
bool devices_engine_known(void);
/* The reason why device_engine() finds none. */
const char *device_no_engine(const struct device *nic, const struct device *const *backups,
			     unsigned n);
/*
 * The engine that drives @nic with those backups, by SHIFT_ENGINE; NULL: none is for all of them.
 */
const char *device_engine(const struct device *nic, const struct device *const *backups,
			  unsigned n);

/*
 * Lists devices through the libibverbs at @library (NULL: what the loader finds), by name only or
 * with @probe each opened and its port 1 asked. 0, or -errno with a sentence.
 */
int devices_list(const char *library, bool probe, struct device_list *list, char err[CTL_ERR_MAX]);

/*
 * Parses the backup map of @text for these devices, for a process that may lock as much memory as
 * this one. Errors as of backup_map_parse().
 */
int devices_backup_map(const char *text, const struct device_list *list, struct backup_map *map,
		       char err[CTL_ERR_MAX]);
/* backup_auto_wants() for these devices */
uint64_t devices_backup_wants(const struct device_list *list);

#endif
