/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

/* "lo" by name alone: an address of it serves nobody but this host. */
static const char *const others = "^lo,docker";

static bool is_listed(const char *list, const char *name, bool exact)
{
	size_t n;

	for (; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (!strncmp(list, name, n) && (!exact || strlen(name) == n))
			return true;
	}
	return false;
}

bool plug_interface_named(const char *ifname, const char *name)
{
	bool not_these = *ifname == '^', exact;

	ifname += not_these;
	exact = *ifname == '=';
	ifname += exact;
	return is_listed(ifname, name, exact) != not_these;
}

/* IPv6 of a link alone would need a scope, which the other end cannot know. */
static bool is_usable(const struct ifaddrs *i)
{
	const struct sockaddr_in6 *six = (const void *)i->ifa_addr;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return false;
	if (i->ifa_addr->sa_family == AF_INET)
		return true;
	return i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
}

socklen_t plug_address_size(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? sizeof(struct sockaddr_in)
					     : sizeof(struct sockaddr_in6);
}

/* IPv4 goes before IPv6. */
static bool find(const struct ifaddrs *all, const char *ifname, struct sockaddr_storage *address)
{
	static const int families[] = { AF_INET, AF_INET6 };

	for (int f = 0; f < 2; f++)
		for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
			if (!is_usable(i) || i->ifa_addr->sa_family != families[f] ||
			    !plug_interface_named(ifname, i->ifa_name))
				continue;
			memset(address, 0, sizeof(*address));
			address->ss_family = i->ifa_addr->sa_family;
			memcpy(address, i->ifa_addr, plug_address_size(address));
			return true;
		}
	return false;
}

int plug_address_own(const char *ifname, struct sockaddr_storage *address)
{
	struct ifaddrs *all;
	bool found;

	if (getifaddrs(&all))
		return -errno;
	if (*ifname)
		found = find(all, ifname, address);
	else
		found = find(all, others, address) || find(all, "=lo", address);
	freeifaddrs(all);
	return found ? 0 : -ENODEV;
}
