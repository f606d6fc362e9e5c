/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The variables of NCCL, UCX and Open MPI: which, and whether the user has set them. */
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/log.h"
#include "shiftlib/base/settings.h"
#include "shiftlib/base/variables.h"

#define OPEN_MPI_PREFIX "OMPI_MCA_" /* of variables, not in its files */

const struct sh_variable sh_variables[SH_VARIABLES] = {
	{ SH_VARIABLE_OF_NCCL, "NCCL_PROTO", "^LL128", { NULL } },
	{ SH_VARIABLE_OF_UCX, "UCX_TLS", "^rc_x,dc_x,ud_x,ud_mlx5:aux", { NULL } },
	{ SH_VARIABLE_OF_UCX, "UCX_RC_MAX_NUM_EPS", "inf", { NULL } },
	{ SH_VARIABLE_OF_UCX, "UCX_IB_MLX5_DEVX", "n", { NULL } },
	/* a fence of one QP orders one QP */
	{ SH_VARIABLE_OF_UCX,
	  "UCX_FENCE_MODE",
	  "weak",
	  { "UCX_MAX_RMA_RAILS", "UCX_MAX_RMA_LANES" } },
	{ SH_VARIABLE_OF_OPEN_MPI, "OMPI_MCA_btl_uct_memory_domains", "none", { NULL } },
	/* once it was opened, UCX does not hear that memory is given back */
	{ SH_VARIABLE_OF_OPEN_MPI, "OMPI_MCA_btl_ofi_provider_include", "none", { NULL } },
};

static const struct {
	const char *library, *file, *object;
} owners[SH_VARIABLE_OWNERS] = {
	[SH_VARIABLE_OF_NCCL] = { "NCCL", "/etc/nccl.conf", "/libnccl" },
	[SH_VARIABLE_OF_UCX] = { "UCX", "/etc/ucx/ucx.conf", "/libuct_ib" },
	[SH_VARIABLE_OF_OPEN_MPI] = { "Open MPI", "/etc/openmpi/openmpi-mca-params.conf",
				      "/libopen-pal" },
};

const char *sh_variable_library(enum sh_variable_of of)
{
	return owners[of].library;
}

const char *sh_variable_file(enum sh_variable_of of)
{
	return owners[of].file;
}

/* ---- files ---------------------------------------------------------------------------------- */

/*
 * NCCL takes all before the first = as the name. In other files blanks do not count. In UCX's,
 * which are INI, a value may be for some kinds of processors only; it counts as set everywhere.
 */
bool sh_variable_in_line(const struct sh_variable *variable, const char *line)
{
	bool blanks = variable->of != SH_VARIABLE_OF_NCCL;
	const char *name = variable->name;

	if (variable->of == SH_VARIABLE_OF_OPEN_MPI)
		name += strlen(OPEN_MPI_PREFIX);
	line += blanks ? strspn(line, " \t") : 0;
	if (strncmp(line, name, strlen(name)))
		return false;
	line += strlen(name);
	line += blanks ? strspn(line, " \t") : 0;
	return *line == '=' || (variable->of == SH_VARIABLE_OF_UCX && *line == ':');
}

/* Nothing large is on the stack: it is the program's, in whose thread a device is opened. */
static bool variable_in_file(const struct sh_variable *variable, const char *path)
{
	FILE *file = fopen(path, "re");
	bool found = false;
	char *line = NULL;
	size_t size = 0;

	if (!file)
		return false;
	while (!found && getline(&line, &size, file) >= 0)
		found = sh_variable_in_line(variable, line);
	free(line);
	fclose(file);
	return found;
}

static bool variable_in_folder(const struct sh_variable *variable, const char *folder, int length,
			       const char *name)
{
	char *path = NULL;
	bool found;

	if (!folder || asprintf(&path, "%.*s/%s", length, folder, name) < 0)
		return false;
	found = variable_in_file(variable, path);
	free(path);
	return found;
}

/* NCCL 2.23 and later take NCCL_CONF_FILE instead of the user's file. */
static bool variable_in_nccl_files(const struct sh_variable *variable, const char *home)
{
	const char *conf = secure_getenv("NCCL_CONF_FILE");

	if (conf && *conf ? variable_in_file(variable, conf)
			  : variable_in_folder(variable, home, PATH_MAX, ".nccl.conf"))
		return true;
	return variable_in_file(variable, owners[SH_VARIABLE_OF_NCCL].file);
}

/* UCX looks beside its own library: in a folder of the loader's list, or not known here. */
static bool variable_beside_ucx(const struct sh_variable *variable)
{
	static const char *const names[] = { "../etc/ucx/ucx.conf", "../etc/ucx.conf" };
	const char *list = secure_getenv("LD_LIBRARY_PATH");

	while (list && *list) {
		int length = (int)strcspn(list, ":;");

		for (size_t i = 0; length && i < sizeof(names) / sizeof(names[0]); i++)
			if (variable_in_folder(variable, list, length, names[i]))
				return true;
		list += length + (list[length] != '\0');
	}
	return false;
}

static bool variable_in_ucx_files(const struct sh_variable *variable)
{
	const char *const folders[] = { secure_getenv("HOME"), secure_getenv("UCX_CONFIG_DIR"),
					"." };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (variable_in_folder(variable, folders[i], PATH_MAX, "ucx.conf"))
			return true;
	return variable_in_file(variable, owners[SH_VARIABLE_OF_UCX].file) ||
	       variable_beside_ucx(variable);
}

/* ---- set, and to be set --------------------------------------------------------------------- */

static bool variable_in_open_mpi_files(const struct sh_variable *variable)
{
	return variable_in_folder(variable, secure_getenv("HOME"), PATH_MAX,
				  ".openmpi/mca-params.conf") ||
	       variable_in_file(variable, owners[SH_VARIABLE_OF_OPEN_MPI].file);
}

bool sh_variable_is_set(const struct sh_variable *variable, const char *home)
{
	const char *of_environment = secure_getenv("HOME");

	if (secure_getenv(variable->name))
		return true;
	switch (variable->of) {
	case SH_VARIABLE_OF_NCCL:
		return variable_in_nccl_files(variable, of_environment ? of_environment : home);
	case SH_VARIABLE_OF_UCX: return variable_in_ucx_files(variable);
	case SH_VARIABLE_OF_OPEN_MPI: return variable_in_open_mpi_files(variable);
	case SH_VARIABLE_OWNERS: break;
	}
	return false;
}

static bool variable_unless(const struct sh_variable *variable, const char *home)
{
	struct sh_variable other = { .of = variable->of };

	for (size_t i = 0; i < sizeof(variable->unless) / sizeof(variable->unless[0]); i++) {
		other.name = variable->unless[i];
		if (other.name && sh_variable_is_set(&other, home))
			return true;
	}
	return false;
}

static bool setting_is(const char *name, const char *word, const char *number)
{
	const char *value = sh_setting(name);

	return value && (!strcmp(value, word) || !strcmp(value, number));
}

bool sh_variable_wanted(const struct sh_variable *variable, const char *home)
{
	if (setting_is("SHIFT_ENV", "off", "0"))
		return false;
	if (variable->of == SH_VARIABLE_OF_NCCL && setting_is("SHIFT_LL128", "on", "1"))
		return false;
	return !sh_variable_is_set(variable, home) && !variable_unless(variable, home);
}

size_t sh_variables_missing(enum sh_variable_of of, const char *home, char text[SH_VARIABLE_MAX])
{
	size_t used = 0, n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < SH_VARIABLES; i++) {
		const struct sh_variable *variable = &sh_variables[i];

		if (variable->of != of || !sh_variable_wanted(variable, home))
			continue;
		used += (size_t)snprintf(text + used, SH_VARIABLE_MAX - used, "%s%s=%s",
					 n++ ? " " : "", variable->name, variable->value);
	}
	return n;
}

/* ---- in a program --------------------------------------------------------------------------- */

static int variables_look(struct dl_phdr_info *info, size_t size, void *found)
{
	(void)size;
	for (size_t of = 0; info->dlpi_name && of < SH_VARIABLE_OWNERS; of++)
		if (strstr(info->dlpi_name, owners[of].object))
			((bool *)found)[of] = true;
	return 0;
}

static void variables_judge(enum sh_variable_of of)
{
	char text[SH_VARIABLE_MAX];

	if (!sh_variables_missing(of, NULL, text))
		return;
	if (of == SH_VARIABLE_OF_NCCL)
		sh_log(SH_LOG_WARN,
		       "NCCL runs without %s: its LL128 is right only where each backup is as near "
		       "to the GPU as the default NIC (SHIFT_LL128=on says so); start all ranks by "
		       "shiftctl run, or set it in %s on all hosts",
		       text, owners[of].file);
	else
		sh_log(SH_LOG_WARN,
		       "%s runs without %s: it may post to NICs past the verbs, and is not "
		       "protected then; start the program by shiftctl run, or set this in %s",
		       owners[of].library, text, owners[of].file);
}

/* True in the first rank of an MPI job: one process speaks for all. */
static bool first_of_job(void)
{
	static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *rank = secure_getenv(names[i]);

		if (rank)
			return !strcmp(rank, "0");
	}
	return false;
}

/* What `shiftctl run` does not set: whether a job uses such atomics only its user knows. */
static void variables_of_job(void)
{
	static const struct sh_variable mode = { .of = SH_VARIABLE_OF_UCX,
						 .name = "UCX_ATOMIC_MODE" };

	if (first_of_job() && !sh_variable_is_set(&mode, NULL))
		sh_log(SH_LOG_WARN,
		       "if this MPI job uses one-sided accumulates or locks, set %s=cpu: without "
		       "it UCX lets the NIC run them, and one under way at a fault ends the job",
		       mode.name);
}

static void variables_judge_all(void)
{
	bool found[SH_VARIABLE_OWNERS] = { false };

	dl_iterate_phdr(variables_look, found);
	if (found[SH_VARIABLE_OF_UCX])
		variables_of_job();
	for (int of = 0; of < SH_VARIABLE_OWNERS; of++)
		if (found[of])
			variables_judge((enum sh_variable_of)of);
}

void sh_variables_judge(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, variables_judge_all);
}

bool sh_variable_library_found(enum sh_variable_of of)
{
	bool found[SH_VARIABLE_OWNERS] = { false };

	dl_iterate_phdr(variables_look, found);
	return found[of];
}
