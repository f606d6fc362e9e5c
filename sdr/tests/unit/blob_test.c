/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What an end tells the other before they are connected: there and back, and whatever else may stand there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "sdr/shell/blob.h"

enum { ROUNDS = 200000 };

static const struct sdr_blob some = {
	.connection = 0x12345678,
	.packet = 4096,
	.max_msgs = 64,
	.chunk = 65536,
	.channels = 3,
	.generations = 2,
	.qkey = 0x1122,
	.n_nics = 2,
	.max_msg_size = 1ull << 33,
	.id_bits = 10,
	.offset_bits = 18,
	.mtu = IBV_MTU_4096,
	.is_signed = 1,
	.chunk_by_default = 1,
	.nics = { { .gid.raw = { 1, 2, 3, [15] = 9 }, .lid = 5 },
		  { .gid.raw = { 9, [15] = 1 }, .lid = 6 } },
	.control_qpn = { 77, 78, 79 },
	.qpn = { 10, 11, 12, 13, 14, 15 },
};

static void comes_back_as_it_was(void **state)
{
	uint8_t bytes[SDR_QP_INFO_MAX];
	size_t len = sizeof(bytes);
	struct sdr_blob back;

	assert_int_equal(sdr_blob_write(&some, bytes, &len), 0);
	assert_int_equal(sdr_blob_read(&back, bytes, len), 0);
	assert_memory_equal(&back, &some, sizeof(back));
}

static void needs_its_room_and_its_length(void **state)
{
	uint8_t bytes[SDR_QP_INFO_MAX];
	size_t len = sizeof(bytes), room;
	struct sdr_blob back;

	assert_int_equal(sdr_blob_write(&some, bytes, &len), 0);
	room = len - 1;
	assert_int_equal(sdr_blob_write(&some, bytes, &room), -ENOSPC);
	for (size_t n = 0; n < len; n++)
		assert_int_equal(sdr_blob_read(&back, bytes, n), -EBADMSG);
	assert_int_equal(sdr_blob_read(&back, bytes, len + 1), -EBADMSG);
}

static void tells_another_version_from_noise(void **state)
{
	uint8_t bytes[SDR_QP_INFO_MAX];
	size_t len = sizeof(bytes);
	struct sdr_blob back;

	assert_int_equal(sdr_blob_write(&some, bytes, &len), 0);
	bytes[4]++;
	assert_int_equal(sdr_blob_read(&back, bytes, len), -EPROTONOSUPPORT);
	assert_int_equal(sdr_blob_read(&back, bytes, 8), -EPROTONOSUPPORT);
	bytes[0]++;
	assert_int_equal(sdr_blob_read(&back, bytes, len), -EBADMSG);
}

/* Bytes changed at random: refused, or of as many queue pairs as there is room for. */
static void nothing_breaks_it(void **state)
{
	const char *wanted = getenv("SDR_BLOB_SEED");
	uint64_t seed = wanted ? strtoull(wanted, NULL, 0) : (uint64_t)time(NULL);
	uint8_t good[SDR_QP_INFO_MAX], bytes[SDR_QP_INFO_MAX];
	size_t len = sizeof(good);
	struct sdr_blob back;
	uint32_t taken = 0;

	printf("SDR_BLOB_SEED=%llu\n", (unsigned long long)seed);
	assert_int_equal(sdr_blob_write(&some, good, &len), 0);
	srand48((long)seed);
	for (int i = 0; i < ROUNDS; i++) {
		memcpy(bytes, good, len);
		for (long n = 1 + lrand48() % 3; n; n--)
			bytes[8 + (size_t)lrand48() % (len - 8)] = (uint8_t)lrand48();
		if (sdr_blob_read(&back, bytes, len))
			continue;
		taken++;
		assert_in_range(back.channels, 1, SDR_RAILS_MAX);
		assert_in_range(back.channels * back.generations, 1, SDR_CHANNELS_MAX);
		assert_in_range(back.n_nics, 1, SDR_NICS_MAX);
	}
	assert_in_range(taken, ROUNDS / 10, ROUNDS - 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back_as_it_was),
		cmocka_unit_test(needs_its_room_and_its_length),
		cmocka_unit_test(tells_another_version_from_noise),
		cmocka_unit_test(nothing_breaks_it),
	};

	return cmocka_run_group_tests_name("blob", tests, NULL, NULL);
}
