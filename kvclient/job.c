/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The job that this process belongs to, when nobody says so: docs/man/shift.7 argues each
 * variable.
 *
 * A name is taken only where all processes that may connect to each other surely have the same
 * one. Two ends that look under different names never meet, which is worse than a name that is
 * shared with another job of the same user.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/kv.h"

struct kv_job_source {
	const char *variable;
	const char *kind;
	const char *none; /* a value that says nothing */
	char end;	  /* the name ends before this character; 0: at its end */
};

static const struct kv_job_source kv_job_sources[] = {
	/* Parts of a heterogeneous job have an id each; this is the one of the whole. */
	{ "SLURM_HET_JOB_ID", "slurm", NULL, 0 },
	{ "SLURM_JOB_ID", "slurm", NULL, 0 },
	{ "PBS_JOBID", "pbs", NULL, 0 },
	{ "LSB_JOBID", "lsf", NULL, 0 },
	/* torchrun's default is "none", for everybody's jobs. */
	{ "TORCHELASTIC_RUN_ID", "torch", "none", 0 },
	/* Programs that MPI_Comm_spawn() starts have the same name up to the @. */
	{ "PMIX_NAMESPACE", "pmix", NULL, '@' },
};

static bool kv_job_take(const struct kv_job_source *source, const char *value, char *buf,
			size_t cap)
{
	size_t i, n = source->end ? strcspn(value, (char[]){ source->end, '\0' }) : strlen(value);
	int at;

	if (!n || (source->none && !strcmp(value, source->none)))
		return false;
	at = snprintf(buf, cap, "%s-", source->kind);
	if (at < 0 || (size_t)at + n >= cap)
		return false;
	for (i = 0; i < n; i++)
		buf[(size_t)at + i] = isalnum((unsigned char)value[i]) || strchr("._-", value[i])
					      ? value[i]
					      : '_';
	buf[(size_t)at + n] = '\0';
	return true;
}

const char *kv_job_default(char *buf, size_t cap)
{
	for (size_t i = 0; i < sizeof(kv_job_sources) / sizeof(kv_job_sources[0]); i++) {
		const char *value = secure_getenv(kv_job_sources[i].variable);

		if (value && kv_job_take(&kv_job_sources[i], value, buf, cap))
			return kv_job_sources[i].variable;
	}
	return NULL;
}
