/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a port counts, from files as the kernel writes them; some of which cannot be read, now or ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "shiftlib/nic/counters.h"

#define PORT   "class/infiniband/a/ports/1"
#define NAKS   PORT "/hw_counters/packet_seq_err"
#define DAMAGE PORT "/counters/port_rcv_errors"
#define CRC    "class/net/lo/statistics/rx_crc_errors"
#define LOOKS  40

static const struct sh_gray_config config = {
	.least = 8,
	.per_million = 100,
	.hold_min_ns = 60000000000,
	.hold_max_ns = 60000000000,
};

static char root[] = "/tmp/shift-counters-XXXXXX";

static void run(const char *command)
{
	char text[512];

	snprintf(text, sizeof(text), "cd %s && %s", root, command);
	assert_int_equal(system(text), 0);
}

static void put(const char *file, uint64_t value)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, file);
	f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f, "%llu\n", (unsigned long long)value);
	fclose(f);
}

static int setup(void **state)
{
	if (!mkdtemp(root))
		return -1;
	run("mkdir -p " PORT "/counters " PORT "/hw_counters class/infiniband/a/device/net/lo "
	    "class/net/lo/statistics");
	put(PORT "/counters/port_xmit_packets", 1000);
	put(PORT "/counters/port_rcv_packets", 2000);
	put(NAKS, 100000);
	put(DAMAGE, 30000);
	return 0;
}

static int teardown(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static struct sh_gray_counts counts(void)
{
	struct sh_gray_counts out;

	assert_true(sh_counters_read(root, "a", &out));
	return out;
}

static void look(struct sh_gray *gray, uint64_t now)
{
	const struct sh_gray_counts told = counts();
	const struct sh_gray_trips trips = { 1, 0 };

	sh_gray_update(gray, &config, &told, &trips, now);
}

static void they_are_summed_up(void **state)
{
	struct sh_gray_counts none;

	assert_int_equal(counts().packets, 3000);
	assert_int_equal(counts().naks, 100000);
	put(PORT "/hw_counters/implied_nak_seq_err", 5);
	assert_int_equal(counts().naks, 100005);
	assert_int_equal(counts().timeouts, 0);
	assert_false(sh_counters_read(root, "none", &none));
	run("rm " PORT "/hw_counters/implied_nak_seq_err");
}

/* As on a RoCE port whose driver tells of damaged packets nowhere else. */
static void the_interface_tells_of_damage_too(void **state)
{
	const uint32_t files = counts().files;

	put(CRC, 7);
	assert_int_equal(counts().damaged, 30007);
	assert_int_not_equal(counts().files, files);
	run("rm -r class/infiniband/a/device/net/lo"); /* in a network namespace of its own */
	assert_int_equal(counts().damaged, 30000);
	assert_int_equal(counts().files, files);
	run("mkdir class/infiniband/a/device/net/lo");
	run("rm " CRC);
}

/* For a moment, while the device is asked something else; or it is removed, and comes back. */
static const char *const gone[][2] = {
	{ "mv " NAKS " x && mkdir " NAKS, "rmdir " NAKS " && mv x " NAKS }, /* read() fails */
	{ "mv " NAKS " x && : >" NAKS, "mv x " NAKS },
	{ "mv " NAKS " x && echo N/A >" NAKS, "mv x " NAKS },
	{ "mv " NAKS " x", "mv x " NAKS },
	{ "mv " PORT "/hw_counters x && mv " DAMAGE " y",
	  "mv x " PORT "/hw_counters && mv y " DAMAGE },
};

/* All that it has ever counted is not what it counted since the last look. */
static void one_that_cannot_be_read_begins_nothing(void **state)
{
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
		struct sh_gray gray = { 0 };
		uint64_t errors, packets;

		for (uint64_t now = 1; now < LOOKS; now++) {
			put(PORT "/counters/port_xmit_packets", now * 1000);
			if (now % 5 == 3)
				run(gone[i][0]);
			look(&gray, now);
			if (now % 5 == 3)
				run(gone[i][1]);
			sh_gray_share(&gray, &errors, &packets);
			assert_int_equal(errors, 0);
			assert_int_equal(gray.state, SH_GRAY_HEALTHY);
		}
	}
}

/* One that is never there: the others are judged all the same. */
static void what_is_never_told_is_not_missed(void **state)
{
	struct sh_gray gray = { 0 };

	run("mkdir " PORT "/hw_counters/local_ack_timeout_err");
	for (uint64_t now = 1; now < LOOKS; now++) {
		put(PORT "/counters/port_xmit_packets", now * 1000);
		put(NAKS, 100000 + now * 10);
		put(DAMAGE, 30000 + now * 10);
		look(&gray, now);
	}
	assert_int_equal(gray.state, SH_GRAY_SICK);
	assert_true(gray.proven);
}

/* What holds requests up: of mlx5, of rxe, and of a port that counts neither. */
static void what_holds_up_is_read(void **state)
{
	struct sh_counters_held held;

	assert_false(sh_counters_read_held(root, "none", &held));
	assert_false(sh_counters_read_held(root, "a", &held));
	put(PORT "/counters/port_xmit_wait", 70);
	assert_true(sh_counters_read_held(root, "a", &held));
	assert_true(held.has_waits && held.waits == 70 && !held.has_rnr_naks);
	put(PORT "/hw_counters/rcvd_rnr_err", 3);
	assert_true(sh_counters_read_held(root, "a", &held));
	assert_true(held.has_rnr_naks && held.rnr_naks == 3);
	run("rm " PORT "/hw_counters/rcvd_rnr_err");
	put(PORT "/hw_counters/rnr_nak_retry_err", 4);
	assert_true(sh_counters_read_held(root, "a", &held));
	assert_true(held.has_rnr_naks && held.rnr_naks == 4);
	run("echo 'N/A (no PMA)' > " PORT "/counters/port_xmit_wait");
	assert_true(sh_counters_read_held(root, "a", &held));
	assert_false(held.has_waits);
	run("rm " PORT "/hw_counters/rnr_nak_retry_err " PORT "/counters/port_xmit_wait");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_holds_up_is_read),
		cmocka_unit_test(they_are_summed_up),
		cmocka_unit_test(the_interface_tells_of_damage_too),
		cmocka_unit_test(one_that_cannot_be_read_begins_nothing),
		cmocka_unit_test(what_is_never_told_is_not_missed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
