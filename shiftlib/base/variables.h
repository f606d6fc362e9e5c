/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The variables of NCCL, UCX and Open MPI that let SHIFT protect what these libraries do
 * (docs/environment.md says why each). `shiftctl run` sets those that the user has set nowhere.
 * They are the same on all hosts: NCCL ranks that disagree hang, UCX ends with other transports do
 * not reach each other.
 */
#ifndef SHIFTLIB_VARIABLES_H
#define SHIFTLIB_VARIABLES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum sh_variable_of {
	SH_VARIABLE_OF_NCCL,
	SH_VARIABLE_OF_UCX,
	SH_VARIABLE_OF_OPEN_MPI,
	SH_VARIABLE_OWNERS,
};

struct sh_variable {
	enum sh_variable_of of;
	const char *name, *value;
	const char *unless[2]; /* NULL, or names of variables beside which the value is wrong */
};

#define SH_VARIABLES	7
#define SH_VARIABLE_MAX 256 /* bytes of all of one library, as "NAME=VALUE NAME=VALUE" */

extern const struct sh_variable sh_variables[SH_VARIABLES];

/* "NCCL", and the file of all its processes on this host. */
const char *sh_variable_library(enum sh_variable_of of);
const char *sh_variable_file(enum sh_variable_of of);

/*
 * True if the user has set it: in the environment, or in a file that the library reads. @home: of
 * NCCL's own file, where HOME is not set; NULL: none. Reads files; any thread.
 */
bool sh_variable_is_set(const struct sh_variable *variable, const char *home);

/* True if it is to be set: neither the user nor SHIFT_ENV or SHIFT_LL128 has said otherwise. */
bool sh_variable_wanted(const struct sh_variable *variable, const char *home);

/* Writes those of a library that are to be set. Returns how many. */
size_t sh_variables_missing(enum sh_variable_of of, const char *home, char text[SH_VARIABLE_MAX]);

/*
 * Warns once in a process that has such a library loaded without its variables: SHIFT came in
 * otherwise than by `shiftctl run`, and cannot set them any more. In the first rank of an MPI job
 * over UCX the log also names what only its user can decide.
 */
void sh_variables_judge(void);

/* True if that library is loaded now. Takes the loader's lock; none of SHIFT's may be held. */
bool sh_variable_library_found(enum sh_variable_of of);

/* True if a line of a file sets that variable, as the library reads it. */
bool sh_variable_in_line(const struct sh_variable *variable, const char *line);

#endif
