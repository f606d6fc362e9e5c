/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "simnic/cm/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <string.h>
#include <unistd.h>

#include "simnic/cm/file.h"
#include "simnic/cm/id.h"
#include "simnic/cm/retry.h"
#include "simnic/device/device.h"
#include "simnic/fabric/fabric.h"
#include "simnic/fabric/fd.h"
#include "simnic/fabric/path.h"

#define NET	    10 /* first byte of each address of a fabric */
#define IP4	    12 /* place of an IPv4 address in its GID */
#define PRIVILEGED  1024
#define ASK_EACH_NS 1000000000ULL /* net.ipv4.neigh.default.retrans_time_ms */
#define NS_PER_MS   1000000ULL

static const uint8_t mapped[IP4] = { [10] = 0xff, [11] = 0xff };

/* ---- forms of an address -------------------------------------------------------------------- */

uint32_t sn_cm_sockaddr_size(const void *address)
{
	switch (((const struct sockaddr *)address)->sa_family) {
	case AF_INET: return sizeof(struct sockaddr_in);
	case AF_INET6: return sizeof(struct sockaddr_in6);
	case AF_IB: return sizeof(struct sockaddr_ib);
	default: return 0;
	}
}

void sn_cm_addr_read(const struct sockaddr_storage *from, struct sn_cm_addr *to)
{
	const struct sockaddr_in *in = (const void *)from;
	const struct sockaddr_in6 *in6 = (const void *)from;
	const struct sockaddr_ib *ib = (const void *)from;

	*to = (struct sn_cm_addr){ .family = from->ss_family };
	if (from->ss_family == AF_INET) {
		to->port = ntohs(in->sin_port);
		memcpy(to->ip, mapped, sizeof(mapped));
		memcpy(to->ip + IP4, &in->sin_addr, 4);
	} else if (from->ss_family == AF_INET6) {
		to->port = ntohs(in6->sin6_port);
		memcpy(to->ip, &in6->sin6_addr, 16);
	} else {
		to->port = (uint16_t)be64toh(ib->sib_sid & ib->sib_sid_mask);
		memcpy(to->ip, &ib->sib_addr, 16);
	}
}

static void ib_port_set(struct sockaddr_ib *ib, uint16_t port)
{
	ib->sib_sid = htobe64((be64toh(ib->sib_sid) & ~0xffffULL) | port);
	ib->sib_sid_mask = ~0ULL;
}

void sn_cm_addr_write(const struct sn_cm_addr *from, struct sockaddr_storage *to)
{
	struct sockaddr_in *in = (void *)to;
	struct sockaddr_in6 *in6 = (void *)to;
	struct sockaddr_ib *ib = (void *)to;

	to->ss_family = from->family;
	if (from->family == AF_INET) {
		in->sin_port = htons(from->port);
		memcpy(&in->sin_addr, from->ip + IP4, 4);
	} else if (from->family == AF_INET6) {
		in6->sin6_port = htons(from->port);
		memcpy(&in6->sin6_addr, from->ip, 16);
	} else {
		ib_port_set(ib, from->port);
		memcpy(&ib->sib_addr, from->ip, 16);
	}
}

uint64_t sn_cm_service_id(uint16_t ps, const struct sockaddr_storage *address)
{
	struct sn_cm_addr addr;

	if (address->ss_family == AF_IB)
		return ((const struct sockaddr_ib *)(const void *)address)->sib_sid;
	sn_cm_addr_read(address, &addr);
	return htobe64((uint64_t)ps << 16 | addr.port);
}

/* True for the address that stands for all of a host's. */
static bool is_zero(const struct sn_cm_addr *addr)
{
	static const uint8_t zero[16];

	return !memcmp(addr->ip, zero, 16) ||
	       (addr->family == AF_INET && !memcmp(addr->ip + IP4, zero, 4));
}

static bool is_loopback(const struct sn_cm_addr *addr)
{
	static const uint8_t one[16] = { [15] = 1 };

	return addr->family == AF_INET ? addr->ip[IP4] == 127 : !memcmp(addr->ip, one, 16);
}

/* rdma_cm takes the loopback address for all addresses, too. */
static bool is_any(const struct sn_cm_addr *addr)
{
	return is_zero(addr) || is_loopback(addr);
}

/* ---- NICs and their addresses --------------------------------------------------------------- */

static void ipoib_ip(const struct sn_nic *nic, uint8_t ip[16])
{
	const uint8_t address[4] = { NET, (uint8_t)nic->rail, 0, (uint8_t)(nic->host + 1) };

	memcpy(ip, mapped, sizeof(mapped));
	memcpy(ip + IP4, address, sizeof(address));
}

/* The entry of the GID table for the address, RoCE v2 rather than v1; -ENOENT: none. */
static int gid_find(const struct sn_nic *nic, const uint8_t ip[16])
{
	int found = -ENOENT;
	uint8_t gid[16];

	for (uint32_t i = 0; i < SN_MAX_GIDS; i++) {
		uint32_t type = atomic_load(&nic->gid_type[i]);

		sn_nic_gid_at(nic, i, gid);
		if (type == SN_GID_NONE || memcmp(gid, ip, 16))
			continue;
		if (type == SN_GID_ROCE_V2)
			return (int)i;
		if (found < 0)
			found = (int)i;
	}
	return found;
}

static int nic_has(const struct sn_nic *nic, const uint8_t ip[16])
{
	uint8_t own[16];

	if (nic->link_layer == SN_LINK_ETH)
		return gid_find(nic, ip);
	ipoib_ip(nic, own);
	return memcmp(own, ip, 16) ? -ENOENT : 0;
}

uint32_t sn_cm_gid_index(const struct sn_nic *nic, const uint8_t ip[16])
{
	int index = nic_has(nic, ip);

	return index < 0 ? 0 : (uint32_t)index;
}

/* Finds the NIC of a host that has the address. A NIC that is taken away has none. */
static struct sn_nic *nic_of_host(uint32_t host, const uint8_t ip[16], uint32_t *gid_index)
{
	for (uint32_t n = 0; n < sn_cm.fabric->n_nics; n++) {
		struct sn_nic *nic = &sn_cm.fabric->nic[host][n];
		int index = nic_has(nic, ip);

		if (index < 0 || atomic_load(&nic->state) == SN_NIC_DISASSOCIATED)
			continue;
		*gid_index = (uint32_t)index;
		return nic;
	}
	return NULL;
}

static struct sn_nic *nic_of_fabric(const uint8_t ip[16])
{
	struct sn_nic *nic = NULL;
	uint32_t index;

	for (uint32_t host = 0; host < sn_cm.fabric->n_hosts && !nic; host++)
		nic = nic_of_host(host, ip, &index);
	return nic;
}

/* The address of a NIC in the family of another address. -ENODEV: it has none. */
static int own_ip(const struct sn_nic *nic, const struct sn_cm_addr *like, uint8_t ip[16])
{
	bool ip4 = like->family == AF_INET;

	if (nic->link_layer == SN_LINK_IB)
		ipoib_ip(nic, ip);
	else
		memcpy(ip, nic->gid, 16);
	return ip4 == !memcmp(ip, mapped, sizeof(mapped)) ? 0 : -ENODEV;
}

/* The rail whose network the address is in; -1: none. */
static int rail_of(const struct sn_cm_addr *addr)
{
	uint32_t rail = addr->ip[IP4 + 1];

	if (addr->ip[IP4] != NET || rail >= sn_cm.fabric->n_nics)
		return -1;
	if (addr->family == AF_INET)
		return (int)rail;
	return addr->family == AF_INET6 && addr->ip[0] == 0xfd ? (int)rail : -1;
}

void sn_cm_sgid(const struct sn_cm_id *id, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (id->nic)
		sn_nic_gid_at(id->nic, id->gid_index, gid);
}

void sn_cm_dgid(const struct sn_cm_id *id, uint8_t gid[16])
{
	const struct sn_nic *nic = &sn_cm.fabric->nic[id->peer.host][id->peer.nic];
	struct sn_cm_addr dst;

	memset(gid, 0, 16);
	if (!id->nic || !id->dst.ss_family)
		return;
	sn_cm_addr_read(&id->dst, &dst);
	memcpy(gid, id->nic->link_layer == SN_LINK_ETH && !is_any(&dst) ? dst.ip : nic->gid, 16);
}

/* ---- binding -------------------------------------------------------------------------------- */

/* No NIC has it: does another interface of this machine? */
static int not_a_nic(const struct sockaddr_storage *address)
{
	struct sockaddr_storage any_port = *address;
	int fd, ret;

	if (address->ss_family == AF_INET)
		((struct sockaddr_in *)&any_port)->sin_port = 0;
	else if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
	else
		return -ENODEV;
	fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -EADDRNOTAVAIL;
	ret = bind(fd, (struct sockaddr *)&any_port, sn_cm_sockaddr_size(address));
	sn_fd_close_own(fd);
	return ret ? -EADDRNOTAVAIL : -ENODEV;
}

static int nic_bind(struct sn_cm_id *id, const struct sockaddr_storage *address,
		    const struct sn_cm_addr *addr)
{
	uint32_t index;
	struct sn_nic *nic;

	if (is_any(addr))
		return 0;
	nic = nic_of_host(sn_cm.host, addr->ip, &index);
	if (!nic)
		return not_a_nic(address);
	sn_cm_id_take_nic(id, nic, index);
	return 0;
}

/* The port space that a service id of AF_IB names, where it fits the id's. */
static uint16_t ps_of_ib(const struct sn_cm_id *id, const struct sockaddr_storage *address)
{
	const struct sockaddr_ib *ib = (const void *)address;
	uint64_t mask = be64toh(ib->sib_sid_mask), sid = be64toh(ib->sib_sid) & mask;
	uint16_t named = (uint16_t)(sid >> 16);
	bool all = id->ps == RDMA_PS_IB;

	if (named == RDMA_PS_IB || !named)
		return all ? RDMA_PS_IB : 0;
	if (named == RDMA_PS_TCP || named == RDMA_PS_UDP)
		return all || id->ps == named ? named : 0;
	return 0;
}

static int port_bind(struct sn_cm_id *id, struct sn_cm_addr *addr)
{
	struct sn_cm_want want = {
		.host = sn_cm.host,
		.proc = sn_cm.slot,
		.id = id->comm_id,
		.nic = id->nic ? id->nic->index + 1 : 0,
		.ps = id->src.ss_family == AF_IB ? ps_of_ib(id, &id->src) : id->ps,
		.qp_type = id->qp_type,
		.any = is_any(addr),
		.reuse = id->options.reuse,
		.afonly = id->options.afonly,
		.addr = *addr,
	};
	int slot;

	if (!want.ps)
		return -EPROTONOSUPPORT;
	if (addr->port && addr->port < PRIVILEGED && geteuid())
		return -EACCES;
	slot = sn_cm_bind(sn_cm.fabric, &want);
	if (slot < 0)
		return slot;
	id->bind = slot;
	addr->port = want.addr.port;
	return 0;
}

int sn_cm_bind_id(struct sn_cm_id *id, const struct sockaddr_storage *address)
{
	struct sn_cm_addr addr;
	int err;

	if (id->state != SN_CM_IDLE)
		return -EINVAL;
	if (!sn_cm_sockaddr_size(address))
		return -EAFNOSUPPORT;
	sn_cm_addr_read(address, &addr);
	err = nic_bind(id, address, &addr);
	if (err)
		return err;
	memcpy(&id->src, address, sn_cm_sockaddr_size(address));
	if (!id->options.afonly_is_set)
		id->options.afonly = addr.family == AF_INET;
	err = port_bind(id, &addr);
	if (err) {
		id->nic = NULL;
		return err;
	}
	sn_cm_addr_write(&addr, &id->src);
	id->state = SN_CM_BOUND;
	return 0;
}

/* ---- finding the peer ----------------------------------------------------------------------- */

/* The first NIC with a port that is up, or else the first one. */
static struct sn_nic *nic_for_loopback(void)
{
	struct sn_nic *first = NULL;

	for (uint32_t n = 0; n < sn_cm.fabric->n_nics; n++) {
		struct sn_nic *nic = &sn_cm.fabric->nic[sn_cm.host][n];

		if (atomic_load(&nic->state) == SN_NIC_DISASSOCIATED)
			continue;
		if (atomic_load(&nic->port_up))
			return nic;
		first = first ? first : nic;
	}
	return first;
}

/* The id's own address becomes the loopback address of its family. */
static void loopback_write(struct sn_cm_id *id)
{
	struct sn_cm_addr self;

	sn_cm_addr_read(&id->src, &self);
	memset(self.ip, 0, sizeof(self.ip));
	self.ip[15] = 1;
	if (self.family == AF_INET) {
		memcpy(self.ip, mapped, sizeof(mapped));
		self.ip[IP4] = 127;
	}
	sn_cm_addr_write(&self, &id->src);
}

static int find_loopback(struct sn_cm_id *id)
{
	struct sn_nic *nic = id->nic ? id->nic : nic_for_loopback();

	if (!nic)
		return -ENODEV;
	if (!id->nic) {
		loopback_write(id);
		sn_cm_id_take_nic(id, nic, 0);
	}
	id->peer.host = nic->host;
	id->peer.nic = nic->index;
	return 0;
}

/* The own NIC on the way to the other one. -ENETUNREACH: the id is bound to one that is not. */
static int find_own(struct sn_cm_id *id, const struct sn_nic *peer, struct sn_nic **own)
{
	uint32_t rail = peer->rail;

	*own = id->nic;
	if (*own)
		return (*own)->rail == rail || sn_cm.fabric->joined || peer->host == sn_cm.host
			       ? 0
			       : -ENETUNREACH;
	*own = &sn_cm.fabric->nic[sn_cm.host][peer->index];
	return atomic_load(&(*own)->state) == SN_NIC_DISASSOCIATED ? -ENETUNREACH : 0;
}

/* Fills the own address, which a bind to all of them has left open. */
static int take_own(struct sn_cm_id *id, struct sn_nic *nic, const struct sn_cm_addr *to)
{
	struct sn_cm_addr self;
	int index;

	if (id->nic)
		return 0;
	sn_cm_addr_read(&id->src, &self);
	if (own_ip(nic, to, self.ip))
		return -ENODEV;
	if (nic->host == id->peer.host && nic->index == id->peer.nic)
		memcpy(self.ip, to->ip, 16); /* perhaps the address of a VLAN */
	index = nic_has(nic, self.ip);
	if (index < 0)
		return -ENODEV;
	sn_cm_addr_write(&self, &id->src);
	sn_cm_id_take_nic(id, nic, (uint32_t)index);
	return 0;
}

/* ARP, or its like: a question and its answer. */
static bool neighbour_answers(const struct sn_nic *own, const struct sn_nic *peer)
{
	return own == peer || (sn_path_open(sn_cm.fabric, own->host, own->index, peer->host,
					    peer->index, SN_PKT_CM) &&
			       sn_path_open(sn_cm.fabric, peer->host, peer->index, own->host,
					    own->index, SN_PKT_CM));
}

/* 0, -EAGAIN: nobody answers yet; or an error that stays. */
static int find_peer(struct sn_cm_id *id)
{
	struct sn_nic *own, *peer;
	struct sn_cm_addr to;
	int err;

	sn_cm_addr_read(&id->dst, &to);
	if (is_any(&to))
		return find_loopback(id);
	peer = nic_of_fabric(to.ip);
	if (!peer)
		return rail_of(&to) < 0 ? -ENODEV : -EAGAIN;
	err = find_own(id, peer, &own);
	if (err)
		return err;
	if (!neighbour_answers(own, peer))
		return -EAGAIN;
	id->peer.host = peer->host;
	id->peer.nic = peer->index;
	return take_own(id, own, &to);
}

static void addr_event(struct sn_cm_id *id, int err)
{
	id->state = err ? SN_CM_BOUND : SN_CM_ADDR_RESOLVED;
	sn_cm_tell(id, err ? SN_CM_EVENT_ADDR_ERROR : SN_CM_EVENT_ADDR_RESOLVED, err);
}

static int bind_for(struct sn_cm_id *id, const struct sockaddr_storage *source,
		    const struct sockaddr_storage *to)
{
	struct sockaddr_storage any = { .ss_family = to->ss_family };

	return sn_cm_bind_id(id, source && source->ss_family ? source : &any);
}

/* Waits for the next question, but not longer than the program wants. */
static void await_answer(struct sn_cm_id *id, uint64_t now_ns)
{
	uint64_t next = now_ns + ASK_EACH_NS;

	sn_cm_retry_at(id, next < id->retry.until_ns ? next : id->retry.until_ns);
}

int sn_cm_resolve(struct sn_cm_id *id, const struct sockaddr_storage *source,
		  const struct sockaddr_storage *to, uint32_t timeout_ms)
{
	uint64_t now = sn_clock_ns();
	int err = id->state == SN_CM_IDLE ? bind_for(id, source, to) : 0;

	if (err)
		return err;
	if (id->src.ss_family != to->ss_family || id->state != SN_CM_BOUND)
		return -EINVAL;
	if (to->ss_family == AF_IB)
		return -ENODEV; /* no port here has the addresses of AF_IB */
	memcpy(&id->dst, to, sn_cm_sockaddr_size(to));
	err = find_peer(id);
	if (err == -ENETUNREACH)
		return err;
	if (err != -EAGAIN) {
		addr_event(id, err);
		return 0;
	}
	id->state = SN_CM_ADDR_QUERY;
	id->retry.until_ns = now + timeout_ms * NS_PER_MS;
	await_answer(id, now);
	return 0;
}

/* ---- the route ------------------------------------------------------------------------------ */

/* InfiniBand asks the subnet manager, behind the rail's switch. */
static bool route_answers(const struct sn_cm_id *id)
{
	return id->nic->link_layer == SN_LINK_ETH ||
	       (atomic_load(&id->nic->port_up) &&
		!atomic_load(&sn_cm.fabric->rail[id->nic->rail].down));
}

static void route_event(struct sn_cm_id *id, int err)
{
	id->state = err ? SN_CM_ADDR_RESOLVED : SN_CM_ROUTE_RESOLVED;
	sn_cm_tell(id, err ? SN_CM_EVENT_ROUTE_ERROR : SN_CM_EVENT_ROUTE_RESOLVED, err);
}

/* A route of RoCE is that of an interface. A loopback address has none that is a NIC's. */
static int route_has_netdev(const struct sn_cm_id *id)
{
	struct sn_cm_addr to;

	sn_cm_addr_read(&id->dst, &to);
	return id->nic->link_layer == SN_LINK_IB || (id->nic->netdev[0] && !is_any(&to)) ? 0
											 : -ENODEV;
}

int sn_cm_resolve_route(struct sn_cm_id *id, uint32_t timeout_ms)
{
	uint64_t now = sn_clock_ns();
	int err;

	if (id->state != SN_CM_ADDR_RESOLVED)
		return -EINVAL;
	err = route_has_netdev(id);
	if (err)
		return err;
	if (route_answers(id)) {
		route_event(id, 0);
		return 0;
	}
	id->state = SN_CM_ROUTE_QUERY;
	id->retry.until_ns = now + timeout_ms * NS_PER_MS;
	await_answer(id, now);
	return 0;
}

void sn_cm_resolve_again(struct sn_cm_id *id, uint64_t now_ns)
{
	bool route = id->state == SN_CM_ROUTE_QUERY;
	int err = route ? (route_answers(id) ? 0 : -EAGAIN) : find_peer(id);

	if (err == -EAGAIN && now_ns < id->retry.until_ns)
		return await_answer(id, now_ns);
	if (err == -EAGAIN)
		err = -ETIMEDOUT;
	if (route)
		route_event(id, err);
	else
		addr_event(id, err);
}
