/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fabric: one shared-memory file that all processes of a simulation map. It holds hosts, their
 * NICs, one rail switch per NIC index, the processes that opened a NIC, and their inboxes.
 *
 * Ownership: configuration is written once by `simnicctl create` before any process attaches.
 * Fault words are written by simnicctl or by a device thread whose message number was reached, and
 * read by all device threads (relaxed atomics: a fault takes effect at the next message).
 */
#ifndef SIMNIC_FABRIC_H
#define SIMNIC_FABRIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SN_MAGIC	0x53494d4e49433031ULL
#define SN_VERSION	6
#define SN_MAX_HOSTS	8
#define SN_MAX_NICS	8
#define SN_MAX_PROCS	64
#define SN_MAX_FAULTS	256
#define SN_MAX_GIDS	16
#define SN_IFNAME	16
#define SN_QPN_FIRST	0x40 /* same on every NIC on purpose: QPNs and keys repeat across NICs */
#define SN_QPN_MAX	0x10000
#define SN_MAX_QP_WR	32768
#define SN_MAX_SGE	30
#define SN_INBOX_SLOTS	4096
#define SN_PKT_INLINE	320
#define SN_PKT_MAX_SGE	32
#define SN_BOUNCE_SLOTS 64
#define SN_UD_MTU	4096
#define SN_MAX_HELD	128	     /* packets that a fabric keeps back; more of them get lost */
#define SN_HELD_BYTES	(128 * 1024) /* payload kept of one; of a longer message that much lands */

enum sn_link_layer { SN_LINK_IB = 1, SN_LINK_ETH = 2 };

/* How a NIC is dead. The order is the order of severity. */
enum sn_nic_state {
	SN_NIC_OK,
	SN_NIC_HANG,	       /* commands do not return; the data path stands still */
	SN_NIC_INTERNAL_ERROR, /* 2ERR, 2RST, destroy "succeed", nothing is flushed, the rest EIO */
	SN_NIC_DISASSOCIATED,  /* everything fails with EIO */
};

enum sn_fault_kind {
	SN_FAULT_NONE,
	SN_FAULT_PORT_DOWN,
	SN_FAULT_PORT_UP,
	SN_FAULT_CABLE_DOWN, /* both ends of the cable see it; the far end is the switch */
	SN_FAULT_CABLE_UP,
	SN_FAULT_SWITCH_DOWN, /* rail switch: nothing passes, no port sees an event */
	SN_FAULT_SWITCH_UP,
	SN_FAULT_LOSE_TX, /* what the NIC sends is lost, all of it, requests and acknowledgements */
	SN_FAULT_LOSE_RX, /* what is sent to the NIC is lost */
	SN_FAULT_LOSE_ACKS, /* acknowledgements and responses to this NIC are lost, requests pass */
	SN_FAULT_LOSE_LOOPBACK, /* what the NIC sends to itself is lost, and nothing else */
	SN_FAULT_HOLD_REQUESTS, /* requests from this NIC stay in the fabric until that ends */
	SN_FAULT_HOLD_ACKS,	/* the same for its acknowledgements and responses */
	SN_FAULT_PAUSE,		/* connections stand still in and out, nothing is lost; UD passes */
	SN_FAULT_CUT_MESSAGE, /* next request from this NIC: part of its bytes land, then link down */
	SN_FAULT_NIC_HANG,
	SN_FAULT_NIC_INTERNAL_ERROR,
	SN_FAULT_NIC_DISASSOCIATE,
	SN_FAULT_NIC_REPROBE, /* NIC OK, as another device: new keys and QPNs, contexts stay dead */
	SN_FAULT_HEAL,	      /* back to all well: ports up, loss off, NIC OK */
	SN_FAULT_KINDS,
};

/*
 * A scheduled fault. Armed by simnicctl (state ARMED last, release); whoever sees its trigger
 * first owns the faults of the fabric (fault_owner), frees the slot and applies it.
 */
enum sn_fault_state { SN_SLOT_FREE, SN_SLOT_ARMED, SN_SLOT_CLAIMED };
struct sn_fault {
	_Atomic uint32_t state;	     /* enum sn_fault_state */
	_Atomic uint32_t kind;	     /* enum sn_fault_kind */
	_Atomic uint32_t host, nic;  /* rail faults: nic is the rail */
	_Atomic uint64_t at_ns;	     /* CLOCK_MONOTONIC; 0: not by time */
	_Atomic uint64_t at_message; /* fires when the target's tx_messages reach this; 0: not */
	_Atomic uint64_t for_ns;     /* ends after this long; 0: stays */
	_Atomic uint32_t ends;	     /* not the beginning of the fault, but its end */
	_Atomic uint64_t order;	     /* rises: what was armed first fires first at the same time */
};

/*
 * What passed a NIC, which has one port. The first four are of all transports, and
 * faults "at the N-th message" go by tx_messages. RC includes UC.
 */
struct sn_counters {
	_Atomic uint64_t tx_messages, rx_messages, tx_bytes, rx_bytes, dropped, retries;
	_Atomic uint64_t rc_tx_messages, rc_tx_bytes; /* requests, with each retransmission */
	_Atomic uint64_t rc_rx_messages, rc_rx_bytes; /* delivered: each once */
	_Atomic uint64_t rc_retransmits;	      /* of rc_tx_messages: sent again */
	_Atomic uint64_t ud_tx_packets, ud_tx_bytes, ud_rx_packets, ud_rx_bytes;
	_Atomic uint64_t commands,
		qp_queries;	     /* of all processes; the second are among the first */
	_Atomic uint64_t held, late; /* kept back when it left; delivered to this NIC after that */
};

/* As enum ibv_mtu counts. */
enum { SN_MTU_256 = 1, SN_MTU_4096 = 5 };
static inline uint32_t sn_mtu_bytes(uint32_t mtu)
{
	return 128u << mtu;
}

enum sn_gid_type { SN_GID_NONE, SN_GID_IB, SN_GID_ROCE_V1, SN_GID_ROCE_V2 };

/*
 * How a NIC may differ from what documents say of ConnectX: each breaks one check of
 * `shiftctl probe-hw`, which must notice. See docs/man/simnicctl.1.
 */
enum sn_quirk {
	SN_QUIRK_NOP_EARLY,
	SN_QUIRK_FENCE_IGNORED,
	SN_QUIRK_WRONG_INDEX,
	SN_QUIRK_RUNS_AHEAD,
	SN_QUIRK_BLUEFLAME_TORN,
	SN_QUIRK_COMPRESSED,
	SN_QUIRK_SCATTER_SILENT,
	SN_QUIRK_ATOMICS_SWAPPED,
	SN_QUIRK_UNSIGNALED_UNFLUSHED,
	SN_QUIRK_RECEIVES_UNFLUSHED,
	SN_QUIRK_LATE_UNFLUSHED,
	SN_QUIRK_ERROR_NAMES_LAST,
	SN_QUIRK_GIVES_UP_EARLY,
	SN_QUIRK_LATE_WRITES_LAND,
	SN_QUIRK_STALE_PSN,
	SN_QUIRK_RESET_COMPLETES,
	SN_QUIRK_NO_LAST_WQE,
	SN_QUIRK_QPN_AGAIN,
	SN_QUIRK_NO_PORT_EVENT,
	SN_QUIRK_LOOPBACK_INSIDE,
	SN_QUIRK_UD_DIES,
	SN_QUIRKS,
};

/* What a NIC has only so many of. */
enum sn_limit { SN_LIMIT_PD, SN_LIMIT_MR, SN_LIMIT_CQ, SN_LIMIT_QP, SN_LIMIT_SRQ, SN_LIMITS };

struct sn_nic {
	char ibdev[16]; /* "mlx5_0" */
	uint32_t host, index, rail;
	uint32_t card, function;	/* PCI: the slot, and which of the card's functions */
	int32_t numa;			/* -1: not told */
	uint64_t node_guid, image_guid; /* image: the card's */
	uint8_t gid[16];		/* its address, under one index per GID type */
	_Atomic uint32_t gid_type[SN_MAX_GIDS]; /* enum sn_gid_type by index */
	char netdev[SN_IFNAME];			/* Ethernet: the interface that sysfs shows */
	uint16_t lid;
	uint32_t link_layer; /* enum sn_link_layer */
	uint32_t uverbs_minor;

	_Atomic uint32_t state;	  /* enum sn_nic_state */
	_Atomic uint32_t port_up; /* this end of the cable */
	_Atomic uint32_t lose_tx, lose_rx, lose_acks, lose_loopback, cut_next;
	_Atomic uint32_t hold_requests, hold_acks, paused;
	_Atomic uint32_t gid_gen;     /* bumped when the GID table changed */
	_Atomic uint32_t event_gen;   /* bumped at each port or state change: device threads raise
				     * their asynchronous events when they see it change */
	_Atomic uint32_t incarnation; /* bumped when a NIC that died (internal error, disassociated)
				       * comes back, or is probed again: contexts opened before
				       * stay dead (EIO), keys and QPNs start elsewhere */
	_Atomic uint32_t limit[SN_LIMITS];   /* of one process: enum sn_limit; 0: none */
	_Atomic uint32_t max_qp_wr, max_sge; /* of a QP's ring, and of a request in it */
	_Atomic uint32_t mtu;		     /* of the port: enum ibv_mtu */
	_Atomic uint32_t quirks;	     /* bits of enum sn_quirk */
	_Atomic uint64_t cmd_cost_ns;	     /* time that every command takes */
	_Atomic uint64_t cmd_free_ns;	     /* when the last command in line is done */
	_Atomic uint64_t
		posted_ns; /* payload is in memory so long after its completion; 0: before */

	struct sn_counters count;
	_Atomic uint32_t next_qpn;
	_Atomic uint32_t next_key;		/* index part; same start on every NIC */
	_Atomic uint16_t qpn_owner[SN_QPN_MAX]; /* process slot + 1; 0 = free */
	/*
	 * Generation << 8 | pulls in progress. Another process may read a QP's payload only while it
	 * holds a pull on the generation that the packet names; who ends a generation (QP left RTS)
	 * waits until the pulls of the old one are over. Owned by device/wire.c.
	 */
	_Atomic uint64_t qpn_gen[SN_QPN_MAX];
};

struct sn_switch {
	_Atomic uint32_t down;
};

enum sn_pkt_op {
	SN_PKT_SEND, /* also WRITE: see flags; request with payload */
	SN_PKT_WRITE,
	SN_PKT_READ,
	SN_PKT_FETCH_ADD,
	SN_PKT_CMP_SWAP,
	SN_PKT_ACK,
	SN_PKT_NAK, /* code in syndrome */
	SN_PKT_RNR,
	SN_PKT_READ_RESP,
	SN_PKT_ATOMIC_RESP,
	SN_PKT_UD,
};

struct sn_pkt {
	_Atomic uint32_t seq; /* inbox slot protocol (Vyukov): owned by fabric_inbox.c */
	_Atomic int32_t
		filler; /* process that has taken the slot; 0: none, or none has said so yet */
	uint8_t op;	/* enum sn_pkt_op */
	uint8_t has_imm, solicited, syndrome;
	uint8_t src_host, src_nic, dst_host, dst_nic;
	uint8_t sgid[16];
	uint16_t slid;
	uint16_t src_proc; /* process slot of the sender: where its memory is read from */
	uint32_t src_qpn, dst_qpn, psn, msn, qkey;
	uint32_t imm; /* big endian, verbatim */
	uint32_t rkey;
	uint64_t raddr, length;
	uint64_t atomic_a, atomic_b;
	uint64_t src_gen; /* generation of the sending QP: payload may be pulled only while equal */
	uint64_t
		bounce; /* payload staged by the sender: its address there, 0 = none; of a datagram 1 */
	uint64_t
		bounce_ticket; /* what bounce[bounce_slot] (datagram[...]) of its process holds while that is valid */
	uint32_t bounce_slot;
	uint8_t flags; /* SN_PKT_F_* */
	uint8_t pad[3];
	uint32_t part;	   /* SN_PKT_F_CUT: bytes that land */
	uint32_t n_sge;	   /* payload is to be pulled from the sender by these; else inline */
	uint32_t n_inline; /* bytes of data[] in use when n_sge is 0 */
	union {		   /* last: only the used part travels */
		struct {
			uint64_t addr;
			uint32_t len, pad;
		} sge[SN_PKT_MAX_SGE];
		uint8_t data[SN_PKT_INLINE];
	};
};

enum {
	SN_PKT_F_CUT = 1,  /* lands in part, then the link is down: passes a closed path */
	SN_PKT_F_LAST = 2, /* last chunk of a READ response */
	SN_PKT_F_GRH = 4,  /* UD with a global route */
	SN_PKT_F_LATE = 8, /* was held: only its receiver's end of the path counts any more */
};

/* A packet that was held back, with its payload: it outlives its sender. Owned by held.c. */
enum sn_held_state { SN_HELD_FREE, SN_HELD_BUSY, SN_HELD_KEPT };
struct sn_held {
	_Atomic uint32_t state; /* enum sn_held_state */
	_Atomic uint32_t proc;	/* who fills or empties it, while busy: process slot */
	_Atomic uint64_t order;
	struct sn_pkt pkt;
	uint8_t payload[SN_HELD_BYTES];
};

/* One attached process. Nothing lands in its memory but by its own device thread. */
struct sn_proc {
	_Atomic int32_t pid;	     /* 0: free */
	_Atomic uint64_t start_time; /* field 22 of /proc/pid/stat: tells a reused pid apart */
	_Atomic uint32_t wake;	     /* futex word of the device thread */
	_Atomic uint32_t sleeping;   /* device thread waits on wake without a short time-out */
	uint32_t host;
	/* Staging slots in that process's memory: 0 = free; the receiver frees what it has read. */
	_Atomic uint64_t bounce[SN_BOUNCE_SLOTS];
	/* The same for datagrams, which are in the fabric itself: nobody sends them again, so they
	 * arrive even if their sender is gone by then. */
	_Atomic uint64_t datagram[SN_BOUNCE_SLOTS];
	uint8_t datagram_payload[SN_BOUNCE_SLOTS][SN_UD_MTU];
	_Atomic uint64_t head,
		tail; /* inbox: head = next to write (producers), tail = next to read */
	struct sn_pkt inbox[SN_INBOX_SLOTS];
};

struct sn_fabric {
	uint64_t magic;
	uint32_t version, size_check;
	uint32_t n_hosts, n_nics;
	uint32_t seed, link_layer;
	char dir[256]; /* where the fake sysfs trees are: <dir>/h<N>/sys/class/... */
	char name[64];
	struct sn_switch rail[SN_MAX_NICS];
	struct sn_fault fault[SN_MAX_FAULTS];
	_Atomic uint32_t faults_armed; /* fast check: number of ARMED slots */
	_Atomic uint64_t fault_order;
	_Atomic int32_t fault_owner; /* process that applies faults; 0: none */
	_Atomic uint32_t n_held;     /* fast check: slots of held that are KEPT */
	_Atomic uint64_t held_order;
	struct sn_nic nic[SN_MAX_HOSTS][SN_MAX_NICS];
	struct sn_proc proc[SN_MAX_PROCS];
	struct sn_held held[SN_MAX_HELD];
};

/* fabric.c. All return -errno. */
int sn_fabric_path(const char *name, char *buf, size_t len);	/* /dev/shm/simnic-<name>/fabric */
int sn_fabric_attach(const char *name, struct sn_fabric **out); /* maps an existing fabric */
void sn_fabric_detach(struct sn_fabric *fabric);
int sn_fabric_find_host(const struct sn_fabric *fabric, const char *name); /* "h0" -> 0 */

struct sn_fabric_config {
	uint32_t n_hosts, n_nics, link_layer, seed;
	uint64_t cmd_cost_ns;
	uint32_t card_ports; /* NICs that are ports of one card; 0: one */
	uint32_t numa_nodes; /* that the cards are spread over; 0: the machine does not tell */
};
/* Makes the shared file and the sysfs trees. -EEXIST when the fabric exists. */
int sn_fabric_create(const char *name, const struct sn_fabric_config *config);
/* Removes file and trees; processes that still map it keep a fabric without a name. */
int sn_fabric_destroy(const char *name);

/* fault.c: apply now; used by simnicctl and by device threads for scheduled ones. */
void sn_fault_apply(struct sn_fabric *fabric, enum sn_fault_kind kind, uint32_t host, uint32_t nic,
		    uint64_t for_ns);
/* Ends it now: --for, by hand. Held packets go on their way. */
void sn_fault_end(struct sn_fabric *fabric, enum sn_fault_kind kind, uint32_t host, uint32_t nic);
/* Puts a fault into the table for later; wakes all device threads. -ENOSPC: table full. */
int sn_fault_arm(struct sn_fabric *fabric, const struct sn_fault *fault);
/* Takes scheduled faults of one target back. */
#define SN_HOST_ANY  UINT32_MAX	      /* of everything */
#define SN_HOST_RAIL (UINT32_MAX - 1) /* of the switch */
void sn_fault_cancel(struct sn_fabric *fabric, uint32_t host, uint32_t nic);
/* Fires what is due by time, or by the message count of its NIC. Cheap when nothing is armed. */
void sn_fault_poll(struct sn_fabric *fabric, uint64_t now_ns);
/* When the next fault by time is due, UINT64_MAX if none: bounds a device thread's sleep. */
uint64_t sn_fault_next_ns(const struct sn_fabric *fabric);
const char *sn_fault_name(enum sn_fault_kind kind);
int sn_fault_find(const char *name); /* "port-down" -> kind, or -EINVAL */
bool sn_fault_is_rail(enum sn_fault_kind kind);
bool sn_fault_can_end(enum sn_fault_kind kind); /* it is a condition, which --for can limit */
const char *sn_nic_state_name(enum sn_nic_state state);

/* nic.c: what is a NIC's own. */
int sn_nic_gid_index(const struct sn_nic *nic, enum sn_gid_type type); /* -ENOENT: has none */
/*
 * Moves the RoCE v2 GID to another index; an entry that is there takes its old place. Raises
 * GID_CHANGE. -EOPNOTSUPP: InfiniBand; -EINVAL: no such index.
 */
int sn_nic_move_gid(struct sn_fabric *fabric, struct sn_nic *nic, uint32_t index);
/*
 * GIDs of these types only, of an IPv4 or an IPv6 address. Raises GID_CHANGE; for NICs that nothing is
 * connected over. -EOPNOTSUPP: InfiniBand.
 */
int sn_nic_set_gids(struct sn_fabric *fabric, struct sn_nic *nic, bool v1, bool v2, bool ipv6);
/* The interface that programs find for the NIC; "none": none. -EOPNOTSUPP, -EINVAL as above. */
int sn_nic_set_netdev(struct sn_fabric *fabric, struct sn_nic *nic, const char *name);

/* "nop-early" -> quirk, or -EINVAL */
int sn_quirk_find(const char *name);
static inline bool sn_nic_quirk(const struct sn_nic *nic, enum sn_quirk quirk)
{
	return atomic_load_explicit(&nic->quirks, memory_order_relaxed) >> quirk & 1;
}

/* May a packet from this NIC reach that one now? Counts a drop where not. */
bool sn_path_open(struct sn_fabric *fabric, uint32_t src_host, uint32_t src_nic, uint32_t dst_host,
		  uint32_t dst_nic, enum sn_pkt_op op);
/* The same for a packet that the fabric held: its sender does not matter any more. */
bool sn_path_open_late(struct sn_fabric *fabric, const struct sn_pkt *pkt);
/* Do connections between these stand still? */
bool sn_path_paused(const struct sn_fabric *fabric, uint32_t src_host, uint32_t src_nic,
		    uint32_t dst_host, uint32_t dst_nic);
bool sn_pkt_is_response(enum sn_pkt_op op);

#endif
