/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rules broken on purpose, by name. */
#ifndef TESTS_SDR_SIM_MUTANTS_H
#define TESTS_SDR_SIM_MUTANTS_H

#include <stdbool.h>

void sim_mutants_list(void);
bool sim_mutants_choose(const char *name);

#endif
