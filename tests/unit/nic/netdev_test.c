/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A pair of real (virtual) interfaces in a network namespace of our own: when the end of one goes
 * down, the other loses its carrier.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "shiftlib/nic/netdev.h"

#define SKIPPED	    77
#define PATIENCE_MS 10000

static char folder[] = "/tmp/shift-netdev-XXXXXX";

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool command(const char *text)
{
	return system(text) == 0;
}

/* As a user, root of a namespace; as root, of the present one. */
static bool enter_network(void)
{
	char map[64];

	snprintf(map, sizeof(map), "0 %u 1", geteuid());
	if (unshare(CLONE_NEWNET)) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
			return false;
		write_text("/proc/self/setgroups", "deny");
		if (!write_text("/proc/self/uid_map", map))
			return false;
	}
	return command("ip link add carrier0 type veth peer name carrier1 2>/dev/null");
}

/* ---- what the watch says -------------------------------------------------------------------- */

struct heard {
	int ifindex;
	int running; /* -1: nothing yet */
	unsigned int times;
};

static void heard_changed(void *arg, int ifindex, bool running)
{
	struct heard *heard = arg;

	if (ifindex != heard->ifindex)
		return;
	heard->running = running;
	heard->times++;
}

static bool hear(struct sh_netdev_monitor *watch, struct heard *heard, int running)
{
	struct pollfd fd = { .fd = sh_netdev_fd(watch), .events = POLLIN };

	while (heard->running != running) {
		if (poll(&fd, 1, PATIENCE_MS) != 1)
			return false;
		if (sh_netdev_read(watch))
			return false;
	}
	return true;
}

static void test_carrier(void **state)
{
	struct heard heard = { .ifindex = (int)if_nametoindex("carrier0"), .running = -1 };
	struct sh_netdev_monitor *watch;

	assert_int_not_equal(heard.ifindex, 0);
	assert_int_equal(sh_netdev_open(heard_changed, &heard, &watch), 0);
	for (int i = 0; i < 4; i++) /* as many NICs were opened, before anything is read */
		sh_netdev_ask(watch);
	assert_true(hear(watch, &heard, 0));
	assert_true(command("ip link set carrier0 up && ip link set carrier1 up"));
	assert_true(hear(watch, &heard, 1));
	assert_true(command("ip link set carrier1 down"));
	assert_true(hear(watch, &heard, 0));
	assert_true(command("ip link set carrier1 up"));
	assert_true(hear(watch, &heard, 1));
	assert_int_equal(sh_netdev_read(watch), 0); /* nothing there: at once */
	assert_true(command("ip link del carrier1"));
	assert_true(hear(watch, &heard, 0));
	sh_netdev_close(watch);
}

/* A watch that was not read for long: the socket overran, and it asks how things are. */
static void test_overrun(void **state)
{
	struct heard heard = { .running = -1 };
	struct sh_netdev_monitor *watch;
	int small = 1;

	assert_true(command("ip link add carrier0 type veth peer name carrier1 && "
			    "ip link set carrier0 up"));
	heard.ifindex = (int)if_nametoindex("carrier0");
	assert_int_equal(sh_netdev_open(heard_changed, &heard, &watch), 0);
	assert_int_equal(
		setsockopt(sh_netdev_fd(watch), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	assert_true(command("for i in 1 2 3 4 5 6 7 8 9; do ip link set carrier1 up;"
			    "ip link set carrier1 down; done; ip link set carrier1 up"));
	assert_true(hear(watch, &heard, 1));
	sh_netdev_close(watch);
	assert_true(command("ip link del carrier1"));
}

/* ---- which interface ------------------------------------------------------------------------ */

static void test_ifindex(void **state)
{
	int lo = (int)if_nametoindex("lo");
	char text[512];

	snprintf(text, sizeof(text),
		 "cd %s && mkdir -p class/infiniband/a/ports/1/gid_attrs/ndevs "
		 "class/infiniband/b/device/net/lo class/infiniband/c/device/net/lo "
		 "class/infiniband/c/device/net/lo0 class/infiniband/d/device/net "
		 "class/infiniband/e/ports/1/gid_attrs/ndevs && "
		 "echo lo >class/infiniband/a/ports/1/gid_attrs/ndevs/0 && "
		 "echo nowhere0 >class/infiniband/e/ports/1/gid_attrs/ndevs/0",
		 folder);
	assert_true(command(text));
	assert_int_equal(sh_netdev_of(folder, "a"), lo);
	assert_int_equal(sh_netdev_of(folder, "b"), lo);
	assert_int_equal(sh_netdev_of(folder, "c"), 0);
	assert_int_equal(sh_netdev_of(folder, "d"), 0);
	assert_int_equal(sh_netdev_of(folder, "e"), 0);
	assert_int_equal(sh_netdev_of(folder, "none"), 0);
}

/* ---- how it is ------------------------------------------------------------------------------ */

static void test_state(void **state)
{
	int lo = (int)if_nametoindex("lo");
	struct sh_netdev_state is;
	char text[256];

	assert_int_equal(sh_netdev_state(folder, lo, &is), -ENOENT);
	snprintf(text, sizeof(text),
		 "cd %s && mkdir -p class/net/lo && echo 0x1003 >class/net/lo/flags && "
		 "echo 17 >class/net/lo/carrier_down_count",
		 folder);
	assert_true(command(text));
	assert_int_equal(sh_netdev_state(folder, lo, &is), 0);
	assert_true(is.up && is.downs == 17);
	snprintf(text, sizeof(text), "echo 0x1002 >%s/class/net/lo/flags", folder);
	assert_true(command(text));
	assert_int_equal(sh_netdev_state(folder, lo, &is), 0);
	assert_true(!is.up && is.downs == 17);
	assert_int_equal(sh_netdev_state(folder, 0, &is), -ENODEV);
	assert_int_equal(sh_netdev_state(folder, 1 << 20, &is), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ifindex),
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_carrier),
		cmocka_unit_test(test_overrun),
	};
	char text[64];
	int ret;

	if (!enter_network()) {
		fprintf(stderr, "no network namespace with virtual interfaces here: skipped\n");
		return SKIPPED;
	}
	if (!mkdtemp(folder))
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(text, sizeof(text), "rm -r %s", folder);
	return command(text) ? ret : 1;
}
