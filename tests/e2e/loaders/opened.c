/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Opens the library at run time: `opened versions NAME...` asks for nodes by dlvsym(), as NCCL and
 * UCCL do; `opened plain NAME...` by dlsym(), as TensorPipe does. The first NAME that can be opened
 * counts.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "tests/e2e/loaders/script.h"

static void *library_open(char *const *names)
{
	void *library = NULL;

	for (; *names && !library; names++)
		library = dlopen(*names, RTLD_NOW);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	LOADER_CHECK(library != NULL);
	return library;
}

static void *find(void *library, bool versions, const char *name, const char *node)
{
	void *symbol = versions ? dlvsym(library, name, node) : dlsym(library, name);

	if (!symbol)
		fprintf(stderr, "%s@%s: %s\n", name, versions ? node : "", dlerror());
	LOADER_CHECK(symbol != NULL);
	return symbol;
}

#define FIND(field, node) *(void **)&v->field = find(library, versions, "ibv_" #field, node)

static void verbs_find(struct loader_verbs *v, void *library, bool versions)
{
	FIND(get_device_list, "IBVERBS_1.1");
	FIND(free_device_list, "IBVERBS_1.1");
	FIND(open_device, "IBVERBS_1.1");
	FIND(close_device, "IBVERBS_1.1");
	FIND(alloc_pd, "IBVERBS_1.1");
	FIND(dealloc_pd, "IBVERBS_1.1");
	FIND(reg_mr, "IBVERBS_1.1");
	FIND(reg_mr_iova2, "IBVERBS_1.8");
	FIND(dereg_mr, "IBVERBS_1.1");
	FIND(create_comp_channel, "IBVERBS_1.0");
	FIND(destroy_comp_channel, "IBVERBS_1.0");
	FIND(create_cq, "IBVERBS_1.1");
	FIND(destroy_cq, "IBVERBS_1.1");
	FIND(create_qp, "IBVERBS_1.1");
	FIND(modify_qp, "IBVERBS_1.1");
	FIND(query_qp, "IBVERBS_1.1");
	FIND(destroy_qp, "IBVERBS_1.1");
}

/* What NCCL asks for besides, and takes as absent where the library has it not. */
static void optional_found(void *library)
{
	LOADER_CHECK(dlvsym(library, "ibv_query_ece", "IBVERBS_1.10") != NULL);
	LOADER_CHECK(dlvsym(library, "ibv_reg_dmabuf_mr", "IBVERBS_1.12") != NULL);
	LOADER_CHECK(dlvsym(library, "ibv_no_such_verb", "IBVERBS_1.1") == NULL);
	LOADER_CHECK(dlvsym(library, "ibv_open_device", "IBVERBS_1.2") == NULL);
}

int main(int argc, char *argv[])
{
	struct loader_verbs verbs;
	bool versions;
	void *library;

	if (argc < 3 || (strcmp(argv[1], "versions") && strcmp(argv[1], "plain"))) {
		fprintf(stderr, "usage: opened versions|plain NAME...\n");
		return 2;
	}
	versions = !strcmp(argv[1], "versions");
	library = library_open(&argv[2]);
	verbs_find(&verbs, library, versions);
	if (versions)
		optional_found(library);
	return loader_script(&verbs);
}
