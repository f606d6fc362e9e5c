/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The MAC of a value: made when it is written, checked when it is read. */
#ifndef KVCLIENT_SEAL_H
#define KVCLIENT_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "kvclient/kv.h"

#define KV_SEALED_MAX (12u + KV_VALUE_MAX + KV_MAC_LEN)

/* Reads the job's secret, if there is one. */
int kv_seal_open(struct kv *kv, const char *secret_file);

/* A put's value as it is stored. */
int kv_seal(struct kv *kv, struct kv_op *op, uint8_t out[KV_SEALED_MAX], size_t *len);

/* A get's answer as it was found: checked and copied, or refused. */
void kv_op_take(struct kv *kv, struct kv_op *op, const void *val, size_t len);

#endif
