/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The start of a program on a glibc before 2.34, which leaves it to the program to run its own
 * constructors. The start code of a later glibc hands none over, so the linker puts this in between
 * (--wrap=__libc_start_main). Later systems run them in the same way when they are handed over.
 */
#include <stddef.h>

typedef int main_fn(int argc, char **argv, char **envp);
typedef void init_fn(int argc, char **argv, char **envp);

/* Made by the linker: the constructors of this program. */
extern init_fn *__init_array_start[] __attribute__((visibility("hidden")));
extern init_fn *__init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void);

int __real___libc_start_main(main_fn *entry, int argc, char **argv, init_fn *init,
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
int __wrap___libc_start_main(main_fn *entry, int argc, char **argv, init_fn *init,
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

static void run_constructors(int argc, char **argv, char **envp)
{
	ptrdiff_t i, n = __init_array_end - __init_array_start;

	_init();
	for (i = 0; i < n; i++)
		__init_array_start[i](argc, argv, envp);
}

int __wrap___libc_start_main(main_fn *entry, int argc, char **argv, init_fn *init,
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	return __real___libc_start_main(entry, argc, argv, run_constructors, fini, rtld_fini,
					stack_end);
}
