/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How fast links are, from files as the kernel writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "shiftlib/nic/rates.h"

#define CLASS "class/infiniband"

static char root[] = "/tmp/shift-rates-XXXXXX";

static void make(const char *folder)
{
	char command[256];

	snprintf(command, sizeof(command), "mkdir -p %s/%s", root, folder);
	assert_int_equal(system(command), 0);
}

static void put(const char *file, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, file);
	f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f, "%s\n", text);
	fclose(f);
}

static void put_link(const char *from, const char *to)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, from);
	unlink(path);
	assert_int_equal(symlink(to, path), 0);
}

static void put_pci(const char *function, const char *which, const char *speed, const char *lanes)
{
	char file[128];

	snprintf(file, sizeof(file), "devices/%s/%s_link_speed", function, which);
	put(file, speed);
	snprintf(file, sizeof(file), "devices/%s/%s_link_width", function, which);
	put(file, lanes);
}

static void put_port(const char *rate, const char *state)
{
	put(CLASS "/a/ports/1/rate", rate);
	put(CLASS "/a/ports/1/state", state);
}

/* a is a function behind a bridge. */
static int setup(void **state)
{
	if (!mkdtemp(root))
		return -1;
	make(CLASS "/a/ports/1");
	make(CLASS "/b/ports/1");
	make("devices/bridge/function/sub");
	put_link(CLASS "/a/device", "../../../devices/bridge/function");
	return 0;
}

static int teardown(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static struct sh_slow_rates rates(void)
{
	struct sh_slow_rates out;

	sh_rates_read(root, "a", &out);
	return out;
}

static void a_port_tells_its_rate(void **state)
{
	static const struct {
		const char *text;
		uint32_t mbps;
	} all[] = {
		{ "2.5 Gb/sec (1X SDR)", 2500 },
		{ "100 Gb/sec (4X EDR)", 100000 },
		{ "800 Gb/sec (4X XDR)", 800000 },
		{ "400 Gb/sec (4X NDR)", 400000 },
		{ "0 Gb/sec (4X)", 0 },
		{ "", 0 },
		{ "nonsense", 0 },
		{ "1e300 Gb/sec", 0 },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		put_port(all[i].text, "4: ACTIVE");
		assert_int_equal(rates().port, all[i].mbps);
	}
	/* what it tells of a port that is down is not what it would have */
	put_port("10 Gb/sec (4X SDR)", "1: DOWN");
	assert_int_equal(rates().port, 0);
	put_port("10 Gb/sec (4X SDR)", "2: INIT");
	assert_int_equal(rates().port, 0);
}

static void a_pci_link_is_known_by_both_ends(void **state)
{
	put_port("100 Gb/sec (4X EDR)", "4: ACTIVE");
	assert_int_equal(rates().bus, 0);
	put_pci("bridge/function", "current", "8.0 GT/s PCIe", "8");
	put_pci("bridge/function", "max", "32.0 GT/s PCIe", "16");
	assert_int_equal(rates().bus, 63015);
	assert_int_equal(rates().bus_most, 504123);
	put_pci("bridge", "max", "16.0 GT/s PCIe", "16"); /* the slot is older than the card */
	assert_int_equal(rates().bus_most, 252061);
	put_pci("bridge", "max", "64.0 GT/s PCIe", "16");
	assert_int_equal(rates().bus_most, 504123);
	put_pci("bridge/function", "current", "2.5 GT/s PCIe", "1");
	assert_int_equal(rates().bus, 2000);
}

static void a_virtual_function_has_its_parents_link(void **state)
{
	put_pci("bridge/function", "current", "16.0 GT/s PCIe", "16");
	make("devices/bridge/virtual");
	put_pci("bridge/virtual", "current", "Unknown", "0");
	put_pci("bridge/virtual", "max", "Unknown", "0");
	put_link(CLASS "/a/device", "../../../devices/bridge/virtual");
	assert_int_equal(rates().bus, 0); /* in a virtual machine: the bridge is none of hardware */
	put_link("devices/bridge/virtual/physfn", "../function");
	assert_int_equal(rates().bus, 252061);
	put_link(CLASS "/a/device", "../../../devices/bridge/function/sub");
	assert_int_equal(rates().bus, 252061);
	put_link(CLASS "/a/device", "../../../devices/bridge/function");
}

static void alike_is_who_has_the_same_board(void **state)
{
	assert_false(sh_rates_alike(root, "a", "b"));
	put(CLASS "/a/hca_type", "MT4129");
	put(CLASS "/b/hca_type", "MT4129");
	assert_true(sh_rates_alike(root, "a", "b"));
	put(CLASS "/a/board_id", "MT_0000000838");
	assert_false(sh_rates_alike(root, "a", "b"));
	put(CLASS "/b/board_id", "MT_0000000838");
	assert_true(sh_rates_alike(root, "a", "b"));
	put(CLASS "/a/ports/1/link_layer", "InfiniBand");
	put(CLASS "/b/ports/1/link_layer", "Ethernet");
	assert_false(sh_rates_alike(root, "a", "b"));
	assert_false(sh_rates_alike(root, "a", "none"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_tells_its_rate),
		cmocka_unit_test(a_pci_link_is_known_by_both_ends),
		cmocka_unit_test(a_virtual_function_has_its_parents_link),
		cmocka_unit_test(alike_is_who_has_the_same_board),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
