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

#include "kvclient/backend.h"

/* Sanitizer runtimes end the program at a dlopen() with RTLD_DEEPBIND. */
static int kv_dl_flags(void)
{
	int flags = RTLD_NOW | RTLD_LOCAL;

	if (!dlsym(RTLD_DEFAULT, "__sanitizer_print_stack_trace"))
		flags |= RTLD_DEEPBIND;
	return flags;
}

int kv_dl_load(const char *soname, const char *const *names, void **slots)
{
	void *handle = dlopen(soname, kv_dl_flags());

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
