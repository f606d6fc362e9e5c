/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The network interfaces behind the NICs, which may lose their link before the port says so. */
#include <errno.h>
#include <string.h>
#include "shiftlib/nic/internal.h"
#include "shiftlib/nic/link.h"

#define LINK_SYSFS "/sys"

/* Counts for the marks of carriers: when the NIC is opened, and whenever its interface changes. */
static void link_count(struct sh_nic *nic)
{
	struct sh_netdev_state state;

	if (!sh_netdev_state(LINK_SYSFS, nic->ifindex, &state))
		nic->ifdowns = state.downs;
}

static void link_changed(void *arg, int ifindex, bool running) SH_LOCKED
{
	uint32_t i;

	(void)arg;
	for (i = 0; i < sh_nics.n; i++)
		if (sh_nics.nic[i].ifindex == ifindex) {
			link_count(&sh_nics.nic[i]);
			sh_nic_link(&sh_nics.nic[i], running);
		}
}

static void link_readable(void *arg)
{
	struct sh_netdev_monitor *monitor = arg;

	if (!sh_netdev_read(monitor))
		return;
	sh_log(SH_LOG_INFO, "network interfaces cannot be monitored any more");
	sh_loop_remove(sh_netdev_fd(monitor));
}

static bool link_monitor_open(void)
{
	int ret;

	if (sh_nics.netdevs)
		return true;
	ret = sh_netdev_open(link_changed, NULL, &sh_nics.netdevs);
	if (ret) {
		sh_info_once("network interfaces are not monitored: %s",
			     ret == -ENOENT ? "libnl is not installed" : strerror(-ret));
		return false;
	}
	sh_nics.netdev_handler = (struct sh_handler){ link_readable, sh_nics.netdevs };
	sh_loop_add(sh_netdev_fd(sh_nics.netdevs), &sh_nics.netdev_handler);
	return true;
}

/*
 * Finds the interface; not on InfiniBand, where an interface that is down says nothing of the port.
 */
void sh_nic_link_find(struct sh_nic *nic)
{
	nic->link_lost = nic->ifrunning = false;
	nic->ifindex = 0;
	if (nic->address.link_layer != IBV_LINK_LAYER_ETHERNET || !link_monitor_open())
		return;
	nic->ifindex = sh_netdev_of(LINK_SYSFS, nic->name);
	if (!nic->ifindex)
		return;
	link_count(nic);
	sh_netdev_ask(sh_nics.netdevs);
}

void sh_nic_link_mark(const struct sh_nic *nic, struct sh_link_mark *mark)
{
	if (!mark->ifindex)
		*mark = (struct sh_link_mark){ nic->ifindex, nic->ifdowns };
}

/* True if the link was lost. Another interface, or none, means that the NIC's own went away. */
bool sh_nic_link_was_lost(const struct sh_nic *nic, const struct sh_link_mark *mark)
{
	struct sh_netdev_state state;

	if (!mark->ifindex)
		return false;
	return nic->ifindex != mark->ifindex ||
	       sh_netdev_state(LINK_SYSFS, mark->ifindex, &state) || !state.up ||
	       state.downs != mark->downs;
}
