/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Signed control datagrams: SipHash by its authors' vectors; what is not signed, or changed, is not believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sdr/shell/mac.h"

static struct sdr_qp qp;

static void key_of_vectors(uint8_t key[SDR_MAC_KEY])
{
	for (uint8_t i = 0; i < SDR_MAC_KEY; i++)
		key[i] = i;
}

/* Key 00 01 .. 0f, texts 00 01 .. of 0, 1, 8 and 15 bytes: "SipHash", appendix A, and the reference implementation. */
static void is_siphash(void **state)
{
	static const struct {
		size_t n;
		uint64_t mac;
	} vectors[] = { { 0, 0x726fdb47dd0e0e31ull },
			{ 1, 0x74f839c593dc67fdull },
			{ 8, 0x93f5f5799a932462ull },
			{ 15, 0xa129ca6149be45e5ull } };
	uint8_t key[SDR_MAC_KEY], text[16];

	key_of_vectors(key);
	for (uint8_t i = 0; i < sizeof(text); i++)
		text[i] = i;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		assert_true(sdr_mac(key, text, vectors[i].n) == vectors[i].mac);
}

static void changed_is_not_believed(void **state)
{
	uint8_t datagram[100 + SDR_MAC_SIZE];
	size_t n;

	key_of_vectors(qp.mac_key);
	qp.is_signed = true;
	memset(datagram, 7, sizeof(datagram));
	assert_int_equal(sdr_mac_put(&qp, datagram, 100), sizeof(datagram));
	n = sizeof(datagram);
	assert_true(sdr_mac_check(&qp, datagram, &n));
	assert_int_equal(n, 100);
	for (size_t bit = 0; bit < 8 * sizeof(datagram); bit++) {
		datagram[bit / 8] ^= (uint8_t)(1 << bit % 8);
		n = sizeof(datagram);
		assert_false(sdr_mac_check(&qp, datagram, &n));
		datagram[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t shorter = 0; shorter < sizeof(datagram); shorter++) {
		n = shorter;
		assert_false(sdr_mac_check(&qp, datagram, &n));
	}
	qp.mac_key[3] ^= 1;
	n = sizeof(datagram);
	assert_false(sdr_mac_check(&qp, datagram, &n));
}

static void without_a_key_nothing_changes(void **state)
{
	uint8_t datagram[8] = { 1 };
	size_t n = sizeof(datagram);

	qp.is_signed = false;
	assert_int_equal(sdr_mac_put(&qp, datagram, n), n);
	assert_true(sdr_mac_check(&qp, datagram, &n));
	assert_int_equal(n, sizeof(datagram));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_siphash),
		cmocka_unit_test(changed_is_not_believed),
		cmocka_unit_test(without_a_key_nothing_changes),
	};

	return cmocka_run_group_tests_name("mac", tests, NULL, NULL);
}
