/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A NIC as its host and the fabric see it: its address, state, limits and counters. */
#ifndef SIMNIC_FABRIC_NIC_H
#define SIMNIC_FABRIC_NIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "simnic/fabric/clock.h"
#include "simnic/fabric/counters.h"
#include "simnic/fabric/limits.h"
#include "simnic/fabric/quirk.h"
#include "simnic/fabric/speed.h"
#include "simnic/fabric/tenant.h"

struct sn_fabric;

enum sn_link_layer { SN_LINK_IB = 1, SN_LINK_ETH = 2 };

/* How a NIC is dead. The order is the order of severity. */
enum sn_nic_state {
	SN_NIC_OK,
	SN_NIC_HANG,	       /* commands do not return; the data path stands still */
	SN_NIC_INTERNAL_ERROR, /* 2ERR, 2RST, destroy "succeed", nothing is flushed, the rest EIO */
	SN_NIC_DISASSOCIATED,  /* all commands fail with EIO: struct sn_removal */
};

/*
 * Traffic of a NIC, which has one port. The first four count all transports; faults "at the N-th
 * message" go by tx_messages. RC includes UC.
 */
struct sn_counters {
	_Atomic uint64_t tx_messages, rx_messages, tx_bytes, rx_bytes, dropped, retries;
	_Atomic uint64_t rc_tx_messages, rc_tx_bytes; /* requests, with each retransmission */
	_Atomic uint64_t rc_rx_messages, rc_rx_bytes; /* delivered: each once */
	_Atomic uint64_t rc_rx_packets;		      /* executed, each once */
	/* requests among rc_tx_messages that were sent again */
	_Atomic uint64_t rc_retransmits;
	_Atomic uint64_t ud_tx_packets, ud_tx_bytes, ud_rx_packets, ud_rx_bytes;
	_Atomic uint64_t commands,
		qp_queries; /* counts of all processes; commands include qp_queries */
	/* packets kept back when they left; packets delivered to this NIC after that */
	_Atomic uint64_t held, late;
	/* packets to a queue pair of another partition: dropped */
	_Atomic uint64_t pkey_violations;
	struct sn_hw_counters hw;
};

static inline void sn_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* MTUs as enum ibv_mtu counts them. */
enum { SN_MTU_256 = 1, SN_MTU_4096 = 5 };
static inline uint32_t sn_mtu_bytes(uint32_t mtu)
{
	return 128u << mtu;
}

/* Contents of the first 64 bytes of the NIC's PCI config space. */
enum sn_pci_state {
	SN_PCI_OK,
	SN_PCI_NO_MASTER, /* the NIC may not reach memory: its driver let it go, or a PCI error */
	SN_PCI_ALL_ONES,  /* nobody answers: unplugged, or the link is down */
};

enum sn_gid_type { SN_GID_NONE, SN_GID_IB, SN_GID_ROCE_V1, SN_GID_ROCE_V2 };

/* Objects of which a NIC has a limited number. */
enum sn_limit { SN_LIMIT_PD, SN_LIMIT_MR, SN_LIMIT_CQ, SN_LIMIT_QP, SN_LIMIT_SRQ, SN_LIMITS };

/* Steps of cutting a message: a message is found, and then the link goes down. */
enum sn_cut { SN_CUT_NONE, SN_CUT_ARMED, SN_CUT_BEGUN };

/* Faults on a NIC's packets. Each but cut_next is 0 or 1: enum sn_fault_kind explains them. */
struct sn_nic_faults {
	_Atomic uint32_t lose_tx, lose_rx, lose_acks, lose_loopback, cut_next;
	_Atomic uint32_t hold_requests, hold_acks, paused, blind;
};

/*
 * The way the kernel takes a device away: no file of it can give commands any more, and then the
 * objects of one file after the other are destroyed. Until its turn a file's queue pairs run on.
 */
struct sn_removal {
	_Atomic uint64_t since_ns;
	_Atomic uint64_t each_ns;     /* time that each file takes */
	_Atomic uint32_t backwards;   /* the file that was opened last comes first */
	_Atomic uint32_t fatal_first; /* DEVICE_FATAL before the destruction: Linux before 5.7 */
	_Atomic uint32_t still;	      /* nothing runs on: the NIC was dead before */
	_Atomic uint32_t files;	      /* number opened in this life */
};

/* A long cable: the number of the struct sn_line of each direction, + 1; 0: none. */
struct sn_cable {
	_Atomic uint32_t out, in;
	struct sn_speed speed; /* speed of any cable, also a short one */
};

/* A NIC's own end of its link. */
struct sn_nic_end {
	_Atomic uint32_t cable_up; /* 1: no fault has taken this end of the cable down */
	_Atomic uint32_t off;	   /* 1: the NIC's driver has switched its port off */
	_Atomic uint64_t mac;	   /* address of the last frame it sent; 0: none yet */
};

struct sn_nic {
	char ibdev[16]; /* "mlx5_0" */
	uint32_t host, index, rail;
	struct {
		uint32_t card, function; /* the slot, and which of the card's functions */
		/* number of cards that share a switch, each with a GPU; 0: there is no switch */
		uint32_t gpu_cards;
	} slot;
	int32_t numa;			/* -1: not told */
	uint64_t node_guid, image_guid; /* image: the card's */
	uint8_t gid[16];		/* the NIC's address, under one index per GID type */
	_Atomic uint32_t gid_type[SN_MAX_GIDS]; /* enum sn_gid_type by index */
	char netdev[SN_IFNAME];			/* Ethernet: the interface that sysfs shows */
	uint16_t lid;
	uint32_t link_layer; /* enum sn_link_layer */
	uint32_t uverbs_minor;

	_Atomic uint32_t state;	  /* enum sn_nic_state */
	_Atomic uint32_t pci;	  /* enum sn_pci_state */
	_Atomic uint32_t zombie;  /* internal error: its data path lives */
	_Atomic uint32_t port_up; /* 1: the link is up: what struct sn_nic_end comes to */
	struct sn_nic_faults fault;
	struct sn_removal removal;
	struct sn_tenant tenant;
	_Atomic uint32_t event_gen;   /* bumped at each port or state change: device threads raise
				     * their asynchronous events when they see it change */
	_Atomic uint32_t incarnation; /* bumped when a NIC that died (internal error, disassociated)
				       * comes back, or is probed again: contexts opened before
				       * stay dead (EIO), keys and QPNs start elsewhere */
	/* most objects of one process: enum sn_limit; 0: no limit */
	_Atomic uint32_t limit[SN_LIMITS];
	struct {
		_Atomic uint32_t qp_wr, sge; /* entries of a QP's ring, and of a request in it */
		_Atomic uint32_t reads,
			cqe;		 /* READs and atomics of a QP, each way; entries of a CQ */
		_Atomic uint32_t resize; /* entries of a CQ that is resized; 0: it cannot be */
	} max;
	_Atomic uint32_t mtu;	      /* MTU of the port: enum ibv_mtu */
	_Atomic uint32_t quirks;      /* bits of enum sn_quirk */
	_Atomic uint64_t cmd_cost_ns; /* time that every command takes */
	_Atomic uint64_t cmd_free_ns; /* time when the last command in line is done */
	struct {
		_Atomic uint64_t timeout_ns;	/* time after which the driver gives a command up */
		_Atomic uint64_t register_ns;	/* more, for each MiB that a command registers */
		_Atomic uint64_t region_ns;	/* more, for each region that is registered */
		_Atomic uint32_t retry_percent; /* retry timers: percentage of the nominal time */
		_Atomic uint64_t route_ns; /* time in which the host finds the way to an address */
	} slow;
	struct {
		_Atomic uint64_t ns; /* delay of payload after its completion */
		/* completions wait behind payload, which dies with the NIC */
		_Atomic uint32_t lost;
		/* 1: good completions push payload, but not commands and flushes */
		_Atomic uint32_t unflushed;
		_Atomic uint32_t torn; /* 1: lines of 128 bytes are written in halves */
	} posted;
	struct {
		_Atomic uint32_t glob; /* 1: atomic to all; 0: to operations of this NIC */
		/* process slot + 1 of the one with an atomic under way; 0: nobody */
		_Atomic uint32_t owner;
	} atomic;

	struct sn_cable cable;
	struct sn_nic_end end;
	struct sn_clock clock;

	struct sn_counters count;
	_Atomic uint32_t next_qpn;
	_Atomic uint32_t next_key;		/* index part; same start on every NIC */
	_Atomic uint16_t qpn_owner[SN_QPN_MAX]; /* process slot + 1; 0 = free */
	/*
	 * Generation << 8 | pulls in progress. Another process may read a QP's payload only while
	 * it holds a pull on the generation that the packet names. The end of a generation (QP
	 * left RTS) waits until the pulls of the old one are over. Owned by device/generation.c;
	 * the reaper of a dead process ends its generations.
	 */
	_Atomic uint64_t qpn_gen[SN_QPN_MAX];
};

#define SN_GEN_SHIFT 8

const char *sn_nic_state_name(enum sn_nic_state state);
int sn_nic_gid_index(const struct sn_nic *nic, enum sn_gid_type type); /* -ENOENT: has none */
/*
 * Moves the RoCE v2 GID to another index; an entry that is there takes its old place. Raises
 * GID_CHANGE. -EOPNOTSUPP: InfiniBand; -EINVAL: no such index.
 */
int sn_nic_move_gid(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t index);
/*
 * Leaves the NIC GIDs of these types only, for an IPv4 or an IPv6 address. Raises GID_CHANGE; for
 * NICs that nothing is connected over. -EOPNOTSUPP: InfiniBand.
 */
int sn_nic_set_gids(struct sn_fabric *fabric, struct sn_nic *nic, bool v1, bool v2, bool ipv6);
void sn_nic_gids_changed(struct sn_fabric *fabric, struct sn_nic *nic);
/*
 * Swaps names: two NICs of a host that are taken away come back with each other's. -EBUSY: they
 * are not away.
 */
int sn_nic_swap_names(struct sn_fabric *fabric, struct sn_nic *a, struct sn_nic *b);
/*
 * Sets the interface that programs find for the NIC; "none": none. -EOPNOTSUPP, -EINVAL as above.
 */
int sn_nic_set_netdev(struct sn_fabric *fabric, struct sn_nic *nic, const char *name);

static inline bool sn_nic_quirk(const struct sn_nic *nic, enum sn_quirk quirk)
{
	return atomic_load_explicit(&nic->quirks, memory_order_relaxed) >> quirk & 1;
}

/*
 * A NIC that is taken away: the time when the objects of a file are destroyed, by the number of
 * files opened before it; the time when the last file's are; true before that.
 */
uint64_t sn_nic_turn_ns(const struct sn_nic *nic, uint32_t file);
uint64_t sn_nic_removed_ns(const struct sn_nic *nic);
bool sn_nic_leaving(const struct sn_nic *nic, uint64_t now_ns);
/*
 * The NIC's driver switches its port off, or on again. Where a cable leads to another NIC, not to a
 * switch, the link goes down at both ends. Raises PORT_ERR, PORT_ACTIVE.
 */
void sn_nic_switch_off(struct sn_fabric *fabric, struct sn_nic *nic, bool off);
/* Sets the address of an Ethernet NIC. */
void sn_nic_gid(struct sn_nic *nic, bool ipv6);
/* Sets the keys and QPNs of the first life; of the next one. */
void sn_nic_begin(struct sn_nic *nic);
void sn_nic_incarnate(struct sn_nic *nic);

#endif
