/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sdr/core/imm.h"

static void test_layouts(void **state)
{
	struct sdr_imm_layout l = { 0 };

	assert_true(sdr_imm_layout_make(&l, 10, 18));
	assert_int_equal(l.fragment_bits, 4);
	assert_int_equal(sdr_imm_fragments(&l), 8);
	assert_true(sdr_imm_layout_make(&l, 8, 22));
	assert_int_equal(sdr_imm_fragments(&l), 16);
	assert_false(sdr_imm_layout_make(&l, 10, 19)); /* 3 bits are no whole part of 32 */
	assert_false(sdr_imm_layout_make(&l, 16, 16));
	assert_false(sdr_imm_layout_make(&l, 0, 28));
	assert_false(sdr_imm_layout_make(&l, 200, 100));
}

static void test_parts(void **state)
{
	static const uint8_t layouts[][2] = { { 10, 18 }, { 8, 22 }, { 12, 18 }, { 4, 20 } };
	struct sdr_imm_layout l = { 0 };

	for (int i = 0; i < 4; i++) {
		assert_true(sdr_imm_layout_make(&l, layouts[i][0], layouts[i][1]));
		for (uint32_t id = 0; id < 1u << l.id_bits; id += 7)
			for (uint32_t o = 0; o < 1u << l.offset_bits; o += 4099) {
				uint32_t imm = sdr_imm_make(&l, id, o, 0xdeadbeef);

				assert_int_equal(sdr_imm_id(&l, imm), id);
				assert_int_equal(sdr_imm_offset(&l, imm), o);
			}
	}
}

/* Bits 4 (o mod 8) and on of the user's immediate. */
static void test_fragments(void **state)
{
	struct sdr_imm_layout l = { 0 };
	uint32_t sum = 0, n;

	assert_true(sdr_imm_layout_make(&l, 10, 18));
	assert_int_equal(sdr_imm_make(&l, 1, 0, 0x12345678), 1u << 22 | 0x8);
	assert_int_equal(sdr_imm_make(&l, 1, 9, 0x12345678), 1u << 22 | 9 << 4 | 0x7);
	for (uint32_t o = 16; o < 24; o++) {
		n = o % 8;
		sum |= sdr_imm_fragment(&l, sdr_imm_make(&l, 3, o, 0x12345678)) << (4 * n);
	}
	assert_int_equal(sum, 0x12345678);
}

/* Behind what the receive has room for, whatever the send has. */
static void test_fillers(void **state)
{
	struct sdr_imm_layout l = { 0 };
	uint32_t o;

	assert_true(sdr_imm_layout_make(&l, 10, 18));
	for (uint32_t packets = 1; packets < 40; packets++)
		for (uint32_t n = 0; n < 8; n++) {
			assert_true(sdr_imm_filler(&l, packets, n, &o));
			assert_true(o >= packets && o < packets + 16);
			assert_int_equal(o % 8, n);
		}
	assert_false(sdr_imm_filler(&l, 10, 8, &o));
	assert_false(sdr_imm_filler(&l, 1u << 18, 0, &o)); /* no offset is left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_fragments),
		cmocka_unit_test(test_fillers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
