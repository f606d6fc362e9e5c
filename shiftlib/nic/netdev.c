/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* after the C library's net/if.h, which lacks IFF_LOWER_UP */
#include <linux/if.h>
#include <linux/rtnetlink.h>

#include "shiftlib/base/aside.h"
#include "shiftlib/nic/netdev.h"

#define NETDEV_LIBNL "libnl-3.so.200"

/* ---- libnl ---------------------------------------------------------------------------------- */

static struct {
	__typeof__(nl_socket_alloc) *socket_alloc;
	__typeof__(nl_socket_free) *socket_free;
	__typeof__(nl_socket_set_fd) *socket_set_fd;
	__typeof__(nl_socket_get_fd) *socket_get_fd;
	__typeof__(nl_socket_set_nonblocking) *socket_set_nonblocking;
	__typeof__(nl_socket_disable_seq_check) *socket_disable_seq_check;
	__typeof__(nl_socket_modify_cb) *socket_modify_cb;
	__typeof__(nl_socket_add_membership) *socket_add_membership;
	__typeof__(nl_send_simple) *send_simple;
	__typeof__(nl_recvmsgs_default) *recvmsgs;
	__typeof__(nlmsg_hdr) *msg_hdr;
} nl;

static const struct {
	const char *name;
	void *slot;
} nl_names[] = {
	{ "nl_socket_alloc", &nl.socket_alloc },
	{ "nl_socket_free", &nl.socket_free },
	{ "nl_socket_set_fd", &nl.socket_set_fd },
	{ "nl_socket_get_fd", &nl.socket_get_fd },
	{ "nl_socket_set_nonblocking", &nl.socket_set_nonblocking },
	{ "nl_socket_disable_seq_check", &nl.socket_disable_seq_check },
	{ "nl_socket_modify_cb", &nl.socket_modify_cb },
	{ "nl_socket_add_membership", &nl.socket_add_membership },
	{ "nl_send_simple", &nl.send_simple },
	{ "nl_recvmsgs_default", &nl.recvmsgs },
	{ "nlmsg_hdr", &nl.msg_hdr },
};

static bool nl_loaded;

/* Loads libnl, for ever. Most installed libibverbs have loaded it already, for their own use. */
static void nl_load(void)
{
	void *handle = dlopen(NETDEV_LIBNL, RTLD_NOW | RTLD_LOCAL), *found;
	size_t i;

	for (i = 0; handle && i < sizeof(nl_names) / sizeof(nl_names[0]); i++) {
		found = dlsym(handle, nl_names[i].name);
		if (!found) {
			dlclose(handle);
			return;
		}
		memcpy(nl_names[i].slot, &found, sizeof(found));
	}
	nl_loaded = handle;
}

/* ---- the monitor ----------------------------------------------------------------------------- */

struct sh_netdev_monitor {
	struct nl_sock *socket;
	sh_netdev_changed changed;
	void *arg;
	bool answering; /* the kernel goes over all interfaces, one question at a time */
	bool ask_again; /* ask after that */
};

static int netdev_message(struct nl_msg *msg, void *arg)
{
	struct sh_netdev_monitor *monitor = arg;
	const struct nlmsghdr *header = nl.msg_hdr(msg);
	const struct ifinfomsg *info = NLMSG_DATA(header);
	unsigned int wanted = IFF_UP | IFF_LOWER_UP;

	if (header->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return NL_OK;
	if (header->nlmsg_type == RTM_NEWLINK)
		monitor->changed(monitor->arg, info->ifi_index,
				 (info->ifi_flags & wanted) == wanted);
	else if (header->nlmsg_type == RTM_DELLINK && info->ifi_family == AF_UNSPEC)
		monitor->changed(monitor->arg, info->ifi_index, false);
	return NL_OK;
}

static void netdev_ask(struct sh_netdev_monitor *monitor)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC };

	/* without the answer, the next change is the first that is known */
	monitor->ask_again = false;
	monitor->answering =
		nl.send_simple(monitor->socket, RTM_GETLINK, NLM_F_DUMP, &info, sizeof(info)) >= 0;
}

static int netdev_answered(struct nl_msg *msg, void *arg)
{
	struct sh_netdev_monitor *monitor = arg;

	(void)msg;
	monitor->answering = false;
	if (monitor->ask_again)
		netdev_ask(monitor);
	return NL_OK;
}

/* Makes a socket of our own, as one of libnl cannot be moved aside. */
static int netdev_socket(struct sh_netdev_monitor *monitor)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	sh_aside_one(&fd);
	if (!bind(fd, (struct sockaddr *)&address, sizeof(address)) &&
	    !nl.socket_set_fd(monitor->socket, NETLINK_ROUTE, fd))
		return 0;
	close(fd);
	return -EPROTONOSUPPORT;
}

static int netdev_connect(struct sh_netdev_monitor *monitor)
{
	int ret;

	/* Events carry no number that we know. */
	nl.socket_disable_seq_check(monitor->socket);
	if (nl.socket_modify_cb(monitor->socket, NL_CB_VALID, NL_CB_CUSTOM, netdev_message,
				monitor) ||
	    nl.socket_modify_cb(monitor->socket, NL_CB_FINISH, NL_CB_CUSTOM, netdev_answered,
				monitor))
		return -ENOMEM;
	ret = netdev_socket(monitor);
	if (ret)
		return ret;
	if (nl.socket_add_membership(monitor->socket, RTNLGRP_LINK) < 0)
		return -EPERM;
	return nl.socket_set_nonblocking(monitor->socket) < 0 ? -EIO : 0;
}

int sh_netdev_open(sh_netdev_changed changed, void *arg, struct sh_netdev_monitor **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sh_netdev_monitor *monitor;
	int ret = -ENOMEM;

	pthread_once(&once, nl_load);
	if (!nl_loaded)
		return -ENOENT;
	monitor = calloc(1, sizeof(*monitor));
	if (!monitor)
		return -ENOMEM;
	*monitor = (struct sh_netdev_monitor){ .socket = nl.socket_alloc(),
					       .changed = changed,
					       .arg = arg };
	if (monitor->socket)
		ret = netdev_connect(monitor);
	if (ret) {
		sh_netdev_close(monitor);
		return ret;
	}
	*out = monitor;
	return 0;
}

void sh_netdev_close(struct sh_netdev_monitor *monitor)
{
	if (monitor->socket)
		nl.socket_free(monitor->socket);
	free(monitor);
}

int sh_netdev_fd(const struct sh_netdev_monitor *monitor)
{
	return nl.socket_get_fd(monitor->socket);
}

/* Asks: news of an interface may have come before its NIC was known. */
void sh_netdev_ask(struct sh_netdev_monitor *monitor)
{
	if (monitor->answering)
		monitor->ask_again = true;
	else
		netdev_ask(monitor);
}

int sh_netdev_read(struct sh_netdev_monitor *monitor)
{
	int budget = 64, ret;

	do {
		ret = nl.recvmsgs(monitor->socket);
	} while (ret >= 0 && --budget);
	switch (-ret) {
	case 0:
	case NLE_AGAIN:
	case NLE_INTR: return 0;
	case NLE_NOMEM: /* the socket's buffer overran: changes were lost, or the end of an
			 * answer */
	case NLE_DUMP_INTR: netdev_ask(monitor); return 0;
	case NLE_BUSY: /* the kernel is still answering, and says when it has */
		monitor->answering = monitor->ask_again = true;
		return 0;
	}
	return ret < 0 ? -EIO : 0;
}

/* ---- how an interface is --------------------------------------------------------------------- */

/* Reads a file, without waiting for the kernel's lock of the network. */
static int netdev_number(const char *sysfs, const char *name, const char *what, int base,
			 unsigned long *out)
{
	char path[512], text[32] = "", *end;
	FILE *file;

	snprintf(path, sizeof(path), "%s/class/net/%s/%s", sysfs, name, what);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	*out = strtoul(text, &end, base);
	return end == text ? -EIO : 0;
}

int sh_netdev_state(const char *sysfs, int ifindex, struct sh_netdev_state *out)
{
	unsigned long flags, downs;
	char name[IF_NAMESIZE];
	int ret;

	if (ifindex <= 0 || !if_indextoname((unsigned int)ifindex, name))
		return -ENODEV;
	ret = netdev_number(sysfs, name, "flags", 16, &flags);
	if (!ret)
		ret = netdev_number(sysfs, name, "carrier_down_count", 10, &downs);
	if (!ret)
		*out = (struct sh_netdev_state){ flags & IFF_UP, (uint32_t)downs };
	return ret;
}

/* ---- which interface a NIC has -------------------------------------------------------------- */

static int netdev_index_of(const char *path)
{
	char name[IF_NAMESIZE + 1] = "";
	FILE *file = fopen(path, "re");

	if (!file)
		return 0;
	if (!fgets(name, sizeof(name), file))
		name[0] = 0;
	fclose(file);
	name[strcspn(name, "\n")] = 0;
	return *name ? (int)if_nametoindex(name) : 0;
}

/*
 * Returns the interface if there is only one: a physical function may have representors of its
 * virtual functions.
 */
static int netdev_only_one(const char *path)
{
	struct dirent *entry;
	DIR *dir = opendir(path);
	int index = 0, n = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && ++n == 1)
			index = (int)if_nametoindex(entry->d_name);
	closedir(dir);
	return n == 1 ? index : 0;
}

int sh_netdev_of(const char *sysfs, const char *nic)
{
	char path[512];
	int index;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", sysfs,
		 nic);
	index = netdev_index_of(path);
	if (index)
		return index;
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/net", sysfs, nic);
	return netdev_only_one(path);
}

bool sh_netdev_damaged(const char *sysfs, const char *nic, uint64_t *out)
{
	int index = sh_netdev_of(sysfs, nic);
	unsigned long value;
	char name[IF_NAMESIZE];

	if (!index || !if_indextoname((unsigned int)index, name) ||
	    netdev_number(sysfs, name, "statistics/rx_crc_errors", 10, &value))
		return false;
	*out = value;
	return true;
}
