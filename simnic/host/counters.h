/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Counters of a port, as files: each opening finds the values of its moment. */
#ifndef SIMNIC_HOST_COUNTERS_H
#define SIMNIC_HOST_COUNTERS_H

#include <stdbool.h>

bool sn_counters_named(int dir, const char *path); /* may it be one? */
/* A file that was just opened: one with the value instead, if it is a counter; else the same. */
int sn_counters_open(int fd);

#endif
