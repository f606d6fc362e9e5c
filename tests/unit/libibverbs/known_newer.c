/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A libibverbs of a later release, as far as its dynamic symbols go. */
#define VERB(name)                                                                                 \
	int name(void);                                                                            \
	__attribute__((visibility("default"))) int name(void)                                      \
	{                                                                                          \
		return 0;                                                                          \
	}

VERB(ibv_create_cq)
VERB(ibv_reg_mr)
VERB(ibv_reg_mr_ex)
VERB(ibv_reg_mr_newest)
VERB(ibv_alloc_dmah)
VERB(ibv_dealloc_dmah)
VERB(ibv_create_comp_cntr)
VERB(ibv_alloc_newest)
VERB(ibv_dealloc_newest)
VERB(ibv_register_driver)
VERB(ibv_query_port)
