/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Handles of listeners, which NCCL brings from rank to rank; here by files of a directory. */
#ifndef SDR_TESTS_NCCL_HANDLE_H
#define SDR_TESTS_NCCL_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

/* handle: NCCL_HANDLE_MAX bytes; number: who or what it leads to. False: the file fails. */
bool handle_give(const char *dir, uint64_t number, const uint8_t *handle);
/* Waits until there is one. */
bool handle_take(const char *dir, uint64_t number, uint8_t *handle);

#endif
