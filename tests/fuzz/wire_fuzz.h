/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTS_FUZZ_WIRE_FUZZ_H
#define TESTS_FUZZ_WIRE_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shiftlib/control/wire.h"

/* libFuzzer's entry. Aborts when a rule is broken. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* For records that were read: all that their type means. */
bool wire_record_same(const struct sh_wire_record *a, const struct sh_wire_record *b);

#endif
