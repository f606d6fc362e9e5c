/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* VLANs of interfaces, from files as the kernel writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shiftlib/control/vlan.h"

static char root[] = "/tmp/shift-vlan-XXXXXX";

static void make(const char *folder, const char *file, const char *text)
{
	char command[512], path[256];
	FILE *f;

	snprintf(command, sizeof(command), "mkdir -p %s/%s", root, folder);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/%s/%s", root, folder, file);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int setup(void **state)
{
	if (!mkdtemp(root))
		return -1;
	make("proc/net/vlan", "eth0.100",
	     "eth0.100  VID: 100\t REORDER_HDR: 1  dev->priv_flags: 1021\n"
	     "         total frames received            0\nDevice: eth0\n");
	make("proc/net/vlan", "broken", "nothing of it\n");
	make("sys/class/net/eth0", "mtu", "1500\n");
	make("sys/class/net/macvlan0", "lower_eth0.100", "");
	make("sys/class/net/macvlan1", "lower_eth0", "");
	make("sys/class/net/deeper", "lower_macvlan0", "");
	return 0;
}

static int teardown(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void found(void **state)
{
	assert_int_equal(sh_vlan_of(root, "eth0.100"), 100);
	assert_int_equal(sh_vlan_of(root, "macvlan0"), 100);
}

static void none(void **state)
{
	assert_int_equal(sh_vlan_of(root, "eth0"), 0);
	assert_int_equal(sh_vlan_of(root, "macvlan1"), 0);
	assert_int_equal(sh_vlan_of(root, "deeper"), 0); /* nor does the kernel look so far */
	assert_int_equal(sh_vlan_of(root, "broken"), 0);
	assert_int_equal(sh_vlan_of(root, "in-another-namespace"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found),
		cmocka_unit_test(none),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
