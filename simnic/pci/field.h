/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Access to the fields of commands, contexts and registers. A field is named by its layout and its
 * name, as the PRM and the driver name them; the lists fields_*.h say where each lies.
 * tests/unit/simnic/fields_test.py holds the lists against the driver's own header.
 *
 * All fields are big-endian, bit 0 is the highest bit of the first byte. A field of 0 bits is where
 * a list of unknown length begins.
 */
#ifndef SIMNIC_PCI_FIELD_H
#define SIMNIC_PCI_FIELD_H

#include <stdint.h>

#include "simnic/pci/fields_cap.h"
#include "simnic/pci/fields_cmd.h"
#include "simnic/pci/fields_ctx.h"
#include "simnic/pci/fields_reg.h"

#define SN_FIELDS(F) SN_FIELDS_CAP(F) SN_FIELDS_CMD(F) SN_FIELDS_CTX(F) SN_FIELDS_REG(F)

#define SN_FIELD_ENUM(layout, name, bit, width) SN_F_##layout##_##name = (bit) << 12 | (width),
enum sn_field { SN_FIELDS(SN_FIELD_ENUM) };

/* Where a field begins, in bytes from the start of its layout. */
#define SN_FIELD_BYTE(layout, name) ((uint32_t)SN_F_##layout##_##name >> 15)

/* Reads and writes a field of at most 64 bits. The buffer is as long as the field's layout. */
uint64_t sn_field_get(const void *layout, enum sn_field field);
void sn_field_set(void *layout, enum sn_field field, uint64_t value);

#define SN_GET(layout, at, name)	sn_field_get(at, SN_F_##layout##_##name)
#define SN_SET(layout, at, name, value) sn_field_set(at, SN_F_##layout##_##name, value)
/* The address of a part that begins at a byte: a context inside a command, a list. */
#define SN_AT(layout, at, name) ((uint8_t *)(at) + SN_FIELD_BYTE(layout, name))

/* Whole big-endian words, for what is no field of a layout. */
uint32_t sn_load32(const void *at);
uint64_t sn_load64(const void *at);
void sn_store32(void *at, uint32_t value);
void sn_store64(void *at, uint64_t value);

#endif
