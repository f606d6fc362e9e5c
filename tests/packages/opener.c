/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that opens a library by name, says in which file it has found the verbs, and holds the
 * library until its input ends; it then uses what it has.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	void *library = dlopen(argc > 1 ? argv[1] : "libibverbs.so.1", RTLD_NOW);
	void *(*list)(int *n);
	Dl_info info;
	char c;
	int n;

	if (!library) {
		printf("%s\n", dlerror());
		return 1;
	}
	if (!dladdr(dlsym(library, "ibv_open_device"), &info))
		return 2;
	printf("%s\n", info.dli_fname);
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	list = (void *(*)(int *))dlsym(library, "ibv_get_device_list");
	printf("%s\n", list && (list(&n) || n == 0) ? "used" : "not to be used");
	return 0;
}
