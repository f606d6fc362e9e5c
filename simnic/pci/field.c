/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reads and writes fields of any number of bits at any bit of a big-endian layout. */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "simnic/pci/field.h"

static uint32_t first_bit(enum sn_field field)
{
	return (uint32_t)field >> 12;
}

static uint32_t bits_of(enum sn_field field)
{
	return (uint32_t)field & 0xfff;
}

uint64_t sn_field_get(const void *layout, enum sn_field field)
{
	const uint8_t *bytes = layout;
	uint32_t bit = first_bit(field), end = bit + bits_of(field);
	uint64_t value = 0;

	assert(bits_of(field) && bits_of(field) <= 64);
	for (; bit < end; bit++)
		value = value << 1 | (bytes[bit / 8] >> (7 - bit % 8) & 1);
	return value;
}

void sn_field_set(void *layout, enum sn_field field, uint64_t value)
{
	uint8_t *bytes = layout;
	uint32_t begin = first_bit(field), bit = begin + bits_of(field);

	assert(bits_of(field) && bits_of(field) <= 64);
	for (; bit-- > begin; value >>= 1) {
		uint8_t mask = 0x80 >> bit % 8;

		bytes[bit / 8] = value & 1 ? bytes[bit / 8] | mask : bytes[bit / 8] & ~mask;
	}
}

uint32_t sn_load32(const void *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

uint64_t sn_load64(const void *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return be64toh(value);
}

void sn_store32(void *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

void sn_store64(void *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}
