/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Client libraries are loaded when a store is first used, and apart from the application.
 *
 * This code lives inside every verbs program. Were hiredis or LMDB linked, an application with
 * another version of either would get our copy or we its copy, and where they are not installed
 * the program would not start at all.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvclient/dl.h"
#include "kvclient/kv.h"

const char kv_dl_no_files[] = "no file descriptor was left (ulimit -n)";

/* Sanitizer runtimes end the program at a dlopen() with RTLD_DEEPBIND. */
static int kv_dl_flags(void)
{
	int flags = RTLD_NOW | RTLD_LOCAL;

	if (!dlsym(RTLD_DEFAULT, "__sanitizer_print_stack_trace"))
		flags |= RTLD_DEEPBIND;
	return flags;
}

/*
 * Forks wait for a load (kv_fork_before()). A thread of SHIFT's opens stores, and a child that is
 * forked in the middle of that inherits a library that is known and not relocated, and would jump
 * into nowhere.
 */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER; /* see kv_fork_hold() */
static bool fork_calling; /* the fork under way holds calling; guarded by loading */

#define FORK_WAIT_NS 100000000L

void kv_fork_hold(void)
{
	pthread_mutex_lock(&calling);
}

void kv_fork_release(void)
{
	pthread_mutex_unlock(&calling);
}

void kv_fork_before(void)
{
	struct timespec until;

	pthread_mutex_lock(&loading);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += FORK_WAIT_NS;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	fork_calling = !pthread_mutex_clocklock(&calling, CLOCK_MONOTONIC, &until);
}

void kv_fork_after(void)
{
	if (fork_calling)
		pthread_mutex_unlock(&calling);
	pthread_mutex_unlock(&loading);
}

/*
 * Makes both locks anew, whatever locked them: a program that registers no kv_fork_before() may
 * have forked in the middle of a load or call.
 */
static void fork_anew(void)
{
	pthread_mutex_init(&calling, NULL);
	pthread_mutex_init(&loading, NULL);
}

/*
 * Runs at load: a handler that is registered while another thread forks is not called for that
 * child.
 */
static void __attribute__((constructor)) kv_mind_forks(void)
{
	pthread_atfork(NULL, NULL, fork_anew);
}

static void *dl_open(const char *soname, int flags)
{
	void *handle;

	pthread_mutex_lock(&loading);
	handle = dlopen(soname, flags);
	pthread_mutex_unlock(&loading);
	return handle;
}

static int dl_names(void *handle, const char *const *names, void **slots)
{
	for (; *names; names++, slots++) {
		*slots = dlsym(handle, *names);
		if (!*slots)
			return -ENOSYS;
	}
	return 0;
}

/* The loader's own words say why, in the language of strerror(). */
static int dl_why(void)
{
	const char *error = dlerror();

	return error && strstr(error, strerror(EMFILE)) ? -EMFILE : -ENOENT;
}

int kv_dl_load(const char *const *sonames, const char *const *names, void **slots)
{
	void *handle;
	int rc = -ENOENT;

	for (; *sonames; sonames++) {
		handle = dl_open(*sonames, kv_dl_flags());
		if (!handle && rc == -ENOENT)
			rc = dl_why();
		if (!handle)
			continue;
		rc = dl_names(handle, names, slots);
		if (!rc)
			break;
		dlclose(handle);
	}
	return rc;
}

/*
 * Opens @library in modules/ near the folder in which the file of this code really is: beside the
 * drop-in, beside the folder of the package's other one, and below that of shiftctl.
 */
static void *dl_open_beside(const char *library)
{
	static const char *const folders[] = { "modules", "../modules", "../lib/shift/modules" };
	char real[PATH_MAX], path[PATH_MAX + 64];
	void *handle = NULL;
	Dl_info own;

	if (!dladdr(&loading, &own) || !own.dli_fname || !realpath(own.dli_fname, real))
		return NULL;
	*strrchr(real, '/') = '\0';
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && !handle; i++) {
		snprintf(path, sizeof(path), "%s/%s/%s", real, folders[i], library);
		handle = dl_open(path, kv_dl_flags());
	}
	return handle;
}

const void *kv_dl_own(const char *library, const char *name, char *why, size_t n)
{
	void *handle = dl_open(library, kv_dl_flags()), *found = NULL;
	const char *error = handle ? NULL : dlerror();

	snprintf(why, n, "%s", error ? error : "");
	if (!handle)
		handle = dl_open_beside(library);
	if (handle)
		found = dlsym(handle, name);
	if (handle && !found)
		snprintf(why, n, "%s", dlerror());
	return found;
}
