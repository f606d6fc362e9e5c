/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Preloaded into tests that TSan is not asked about, as they have one thread: another one ends them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	fputs("a test that is ONE_THREAD in its CMakeLists.txt starts a thread: TSan has to see "
	      "it\n",
	      stderr);
	abort();
}
