/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What every store must do, whatever is behind it. */
#ifndef TESTS_UNIT_KVCLIENT_COMMON_H
#define TESTS_UNIT_KVCLIENT_COMMON_H

struct kv;

/* Opens a store that must be there. */
struct kv *kv_common_open(const char *url);

void kv_common_basics(const char *url);
void kv_common_arguments(const char *url);
void kv_common_batch(const char *url);
void kv_common_lease(const char *url);
void kv_common_inherited(const char *url);
void kv_common_processes(const char *url);
void kv_common_threads(const char *url);

#endif
