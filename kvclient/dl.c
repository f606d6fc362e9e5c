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
#include <pthread.h>

#include "kvclient/dl.h"

/* Sanitizer runtimes end the program at a dlopen() with RTLD_DEEPBIND. */
static int kv_dl_flags(void)
{
	int flags = RTLD_NOW | RTLD_LOCAL;

	if (!dlsym(RTLD_DEFAULT, "__sanitizer_print_stack_trace"))
		flags |= RTLD_DEEPBIND;
	return flags;
}

/*
 * Stores are opened by a thread of SHIFT's. A child that is forked in the middle of it inherits a
 * library that is known and not relocated, and would jump into nowhere: forks wait.
 */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static void fork_wait(void)
{
	pthread_mutex_lock(&loading);
}

static void fork_done(void)
{
	pthread_mutex_unlock(&loading);
}

/* At load: a handler that is registered while another thread forks is not called for that child. */
static void __attribute__((constructor)) hold_forks(void)
{
	pthread_atfork(fork_wait, fork_done, fork_done);
}

static void *dl_open(const char *soname, int flags)
{
	void *handle;

	pthread_mutex_lock(&loading);
	handle = dlopen(soname, flags);
	pthread_mutex_unlock(&loading);
	return handle;
}

int kv_dl_share(const char *soname)
{
	return dl_open(soname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) ? 0 : -ENOENT;
}

int kv_dl_load(const char *soname, const char *const *names, void **slots)
{
	void *handle = dl_open(soname, kv_dl_flags());

	if (!handle)
		return -ENOENT;
	for (; *names; names++, slots++) {
		*slots = dlsym(handle, *names);
		if (!*slots) {
			dlclose(handle);
			return -ENOSYS;
		}
	}
	return 0;
}
