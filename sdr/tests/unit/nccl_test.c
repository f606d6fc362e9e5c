/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The settings of the plugin for NCCL: numbers, networks of far peers, interfaces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sdr/nccl/address.h"
#include "sdr/nccl/log.h"
#include "sdr/nccl/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

static void test_numbers(void **state)
{
	static const struct {
		const char *text, *kind;
		uint64_t value;
	} good[] = {
		{ "64M", "bytes", 64 << 20 },
		{ "1", "bytes", 1 },
		{ "1.5k", "bytes", 1536 },
		{ "10G", "rate", 10000000000ull },
		{ "0.4m", "rate", 400000 },
		{ "25ms", "time", 25000000 },
		{ "1s", "time", 1000000000ull },
		{ "7us", "time", 7000 },
		{ "0", "number", 0 },
	};
	static const char *const bad[][2] = { { "", "bytes" },	 { "M", "bytes" },
					      { "-1", "bytes" }, { "1T", "bytes" },
					      { "5", "time" },	 { "5 ms", "time" },
					      { "nan", "rate" }, { "1e30", "rate" },
					      { "3K", "number" } };
	uint64_t value;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(plug_number_read(good[i].text, good[i].kind, &value));
		assert_true(value == good[i].value);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(plug_number_read(bad[i][0], bad[i][1], &value));
}

static bool is_far(const struct plug_far *far, const char *address)
{
	struct sockaddr_storage peer = { 0 };
	struct sockaddr_in *four = (void *)&peer;
	struct sockaddr_in6 *six = (void *)&peer;

	peer.ss_family = strchr(address, ':') ? AF_INET6 : AF_INET;
	assert_int_equal(inet_pton(peer.ss_family, address,
				   peer.ss_family == AF_INET ? (void *)&four->sin_addr
							     : (void *)&six->sin6_addr),
			 1);
	return plug_is_far(far, &peer, 5000000);
}

static void test_far(void **state)
{
	static const char *const bad[] = { "10.0.0.0/33", "10.0.0/8",	 "x",
					   ",",		  "10.0.0.0/8,", "::/129",
					   "10.0.0.0/",	  "10.0.0.0/8x", "10.0.0.0/-1" };
	struct plug_far far = { 0 };

	assert_true(is_far(&far, "10.1.2.3")); /* nothing was asked */
	far.asked = true;
	assert_false(is_far(&far, "10.1.2.3"));
	assert_true(plug_nets_read("10.2.0.0/15,192.168.1.7,fd00:2::/33", &far));
	assert_true(is_far(&far, "10.3.255.255"));
	assert_false(is_far(&far, "10.4.0.0"));
	assert_true(is_far(&far, "192.168.1.7"));
	assert_false(is_far(&far, "192.168.1.6"));
	assert_true(is_far(&far, "::ffff:10.2.0.1"));
	assert_true(is_far(&far, "fd00:2:7fff::1"));
	assert_false(is_far(&far, "fd00:2:8000::1"));
	far.rtt_ns = 5000001;
	assert_false(is_far(&far, "1.1.1.1"));
	far.rtt_ns = 5000000;
	assert_true(is_far(&far, "1.1.1.1"));
	far.rtt_ns = 0;
	assert_true(plug_nets_read("0.0.0.0/0", &far));
	assert_true(is_far(&far, "1.1.1.1"));
	assert_false(is_far(&far, "fd00::1"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(plug_nets_read(bad[i], &far));
	assert_true(plug_nets_read("", &far));
	assert_int_equal(far.n_nets, 0);
}

static void test_interfaces(void **state)
{
	assert_true(plug_interface_named("eth,ib", "ib0"));
	assert_false(plug_interface_named("eth,ib", "lo"));
	assert_true(plug_interface_named("=eth0", "eth0"));
	assert_false(plug_interface_named("=eth0", "eth01"));
	assert_false(plug_interface_named("^docker,lo", "docker0"));
	assert_true(plug_interface_named("^docker,lo", "eth0"));
}

static void test_settings(void **state)
{
	static const char *const bad[][2] = {
		{ "NCCL_SDR_SCHEME", "best" },	  { "NCCL_SDR_BACKEND", "gpu" },
		{ "NCCL_SDR_SLOTS", "1000" },	  { "NCCL_SDR_SLOTS", "64" },
		{ "NCCL_SDR_IN_FLIGHT", "1024" }, { "NCCL_SDR_RTT", "5" },
		{ "NCCL_SDR_FAR", "somewhere" },  { "NCCL_SDR_RC_TIMEOUT", "32" },
		{ "NCCL_SDR_GID_INDEX", "-1" },	  { "NCCL_SDR_MAX_MESSAGE", "1" },
	};
	struct plug_settings s;

	assert_int_equal(plug_settings_read(&s), 0);
	assert_false(s.far.asked);
	assert_true(s.max_message == 64 << 20 && s.gid_index == -1 && !s.rate_bps);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv(bad[i][0], bad[i][1], 1);
		assert_int_equal(plug_settings_read(&s), -EINVAL);
		setenv(bad[i][0], "", 1);
	}
	/* An empty text is no setting, but of NCCL_SDR_FAR, which then has no network. */
	assert_int_equal(plug_settings_read(&s), 0);
	assert_true(s.far.asked && !s.far.n_nets);
	setenv("NCCL_SOCKET_IFNAME", "eth", 1);
	setenv("NCCL_SDR_RATE", "10G", 1);
	assert_int_equal(plug_settings_read(&s), 0);
	assert_string_equal(s.ifname, "eth");
	assert_true(s.rate_bps == 10000000000ull);
	setenv("NCCL_SDR_RATE", "auto", 1);
	assert_int_equal(plug_settings_read(&s), 0);
	assert_true(s.rate_bps == SDR_RATE_AUTO);
	setenv("NCCL_SDR_RATE", "10G", 1);
	setenv("NCCL_SDR_IFNAME", "ib", 1);
	assert_int_equal(plug_settings_read(&s), 0);
	assert_string_equal(s.ifname, "ib");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_interfaces),
		cmocka_unit_test(test_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
