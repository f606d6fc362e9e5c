/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Runs the main() of a shared object, which is loaded as Python loads an extension module: with all
 * that it needs, in a scope of its own. usage: wheel MODULE [ARGUMENT]...
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char *argv[])
{
	int (*module_main)(int argc, char *argv[]);
	void *module;

	if (argc < 2) {
		fprintf(stderr, "usage: wheel MODULE [ARGUMENT]...\n");
		return 2;
	}
	module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	*(void **)&module_main = module ? dlsym(module, "main") : NULL;
	if (!module_main) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return module_main(argc - 1, argv + 1);
}
