/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The data path of a PCI function: simnic's device engine (device/) behind the commands of a
 * ConnectX. One bridge is one NIC of the fabric. All bridges of a process are NICs of one host, and
 * share the engine's thread. The bridge knows no header of QEMU: the machine's work comes as calls.
 *
 * Guest memory is a file that the machine maps shared (a memfd). Rings and regions are lists of
 * guest pages. The bridge maps the pages of a list side by side, so the engine sees one piece.
 *
 * Locking: the machine calls for one bridge at a time (QEMU's big lock). Each call takes the
 * engine's lock inside. sn_bridge_config.tell is called with the engine's lock held, by any thread,
 * also inside of a call from here: it must not block, take the machine's lock, or call the bridge.
 *
 * All return 0 or -errno, and change nothing where they fail. -EINVAL: an attribute cannot be;
 * -ENOENT: no such object; -EBUSY: another object refers to this one; -EOPNOTSUPP: not simulated;
 * -ENOMEM. All numbers and addresses are in the processor's byte order.
 */
#ifndef SIMNIC_PCI_BRIDGE_H
#define SIMNIC_PCI_BRIDGE_H

#include <stdbool.h>
#include <stdint.h>

struct sn_bridge;

/* ---- the bridge ----------------------------------------------------------------------------- */

/* Events; those below 0x100 are numbered as types of EQEs in the PRM. */
enum sn_bridge_event {
	SN_BRIDGE_COMPLETION = 0x00, /* number: the CQ's; user: as the CQ was made with */
	SN_BRIDGE_COMM_ESTABLISHED = 0x02,
	SN_BRIDGE_SQ_DRAINED = 0x03,
	SN_BRIDGE_CQ_ERROR = 0x04,
	SN_BRIDGE_QP_FATAL = 0x05,
	SN_BRIDGE_QP_REQUEST_ERROR = 0x10,
	SN_BRIDGE_QP_ACCESS_ERROR = 0x11,
	SN_BRIDGE_LAST_WQE = 0x13,
	SN_BRIDGE_SRQ_LIMIT = 0x14,
	/* of the whole NIC, as the fabric has it: number and user are 0 */
	SN_BRIDGE_PORT_UP = 0x100,
	SN_BRIDGE_PORT_DOWN,
	SN_BRIDGE_GIDS_CHANGED,
	SN_BRIDGE_PKEYS_CHANGED,
	SN_BRIDGE_FATAL, /* internal error: the data path stands still until sn_bridge_reset() */
};

struct sn_bridge_config {
	void *ram; /* guest memory: where the machine maps it, and the file, from its first byte */
	int ram_fd;
	uint64_t ram_bytes; /* guest addresses from 0 to here are bytes of the file */
	const char *fabric; /* name of the fabric, as SIMNIC has it */
	uint32_t host, nic; /* the host is the same for all bridges of a process */
	void (*tell)(void *ctx, enum sn_bridge_event event, uint32_t number, uint32_t user);
	void (*stray)(void *ctx); /* NULL, or the NIC is behind an IOMMU: bridge_space.h */
	void *ctx;
};

/* Opens a NIC. -ENOENT: no such fabric; -ENODEV: no such NIC in it; -EXDEV: another host's. */
int sn_bridge_new(const struct sn_bridge_config *config, struct sn_bridge **out);
void sn_bridge_free(struct sn_bridge *bridge);
/*
 * Forgets all objects and maps, and starts a stopped NIC: ENABLE_HCA, power-on, FLR. When the call
 * returns, nothing is written to guest memory any more on behalf of what was before.
 */
int sn_bridge_reset(struct sn_bridge *bridge);
/*
 * Stops the data path, or lets it go on: bus master off, a dead slot, a firmware that hangs. A
 * stopped NIC touches no guest memory, and packets to it get lost.
 */
void sn_bridge_stop(struct sn_bridge *bridge, bool stop);

/*
 * A doorbell: 8 bytes that were stored into a UAR page, as they lie in memory. The offsets of send
 * doorbells (0x800 and on, each 256 bytes) and of the CQs' (0x20) are obeyed; others do nothing.
 */
void sn_bridge_doorbell(struct sn_bridge *bridge, uint32_t uar, uint32_t offset, uint64_t bytes);

/* ---- memory --------------------------------------------------------------------------------- */

/* Guest pages, which hold a ring or a region. The list is copied. */
struct sn_bridge_pages {
	const uint64_t *page; /* guest addresses */
	uint32_t n, shift;    /* log2 of a page's bytes, at least 12 */
	uint64_t offset;      /* of the first byte in the first page */
};

/* Maps pages side by side. The first byte of the ring or region; NULL: errno says why. */
void *sn_bridge_map(struct sn_bridge *bridge, const struct sn_bridge_pages *pages, uint64_t bytes);
/* Takes what sn_bridge_map() returned, with the same number of bytes. */
void sn_bridge_unmap(struct sn_bridge *bridge, void *at, uint64_t bytes);

/* access_mode_1_0 of a memory key's context. */
enum sn_bridge_key_mode {
	SN_BRIDGE_PHYSICAL = 0,
	SN_BRIDGE_PAGES = 1,	  /* MTT */
	SN_BRIDGE_KLMS = 2,	  /* indirect: a list of parts of other keys */
	SN_BRIDGE_WINDOW = 0x100, /* not the PRM's: a memory window, as Linux makes one */
};

/* Rights of a key or a queue pair, by the bits of enum ibv_access_flags. */
struct sn_bridge_key {
	uint8_t variant; /* the key's lowest eight bits; the driver chooses them */
	enum sn_bridge_key_mode mode;
	/* free: a UMR gives it its meaning; remote_end: a SEND may end it, a window is of type 2 */
	bool free, remote_end;
	bool any_length;     /* length64: all of guest memory */
	uint32_t pd, access; /* pd 0: all of them */
	uint64_t start, length;
	uint32_t octowords;	      /* size of its table, in units of 16 bytes */
	struct sn_bridge_pages pages; /* SN_BRIDGE_PAGES; n: 0: a request fills them */
};
/* index: the key without its lowest eight bits. */
int sn_bridge_key_create(struct sn_bridge *bridge, const struct sn_bridge_key *key,
			 uint32_t *index);
int sn_bridge_key_destroy(struct sn_bridge *bridge, uint32_t index);
/* The key as requests have made it. Its pages are not told. */
int sn_bridge_key_query(struct sn_bridge *bridge, uint32_t index, struct sn_bridge_key *key);

/* ---- completion queues ---------------------------------------------------------------------- */

struct sn_bridge_cq {
	struct sn_bridge_pages pages;
	uint32_t log_size; /* log2 of the entries */
	uint32_t cqe_size; /* 64 or 128 */
	uint64_t record;   /* guest address of the doorbell record: 8 bytes */
	uint32_t user;	   /* comes with each completion event: the EQ's number */
};
int sn_bridge_cq_create(struct sn_bridge *bridge, const struct sn_bridge_cq *cq, uint32_t *cqn);
/* Takes pages, log_size and cqe_size. */
int sn_bridge_cq_resize(struct sn_bridge *bridge, uint32_t cqn, const struct sn_bridge_cq *cq);
int sn_bridge_cq_destroy(struct sn_bridge *bridge, uint32_t cqn);
struct sn_bridge_cq_state {
	uint32_t produced, consumed; /* counters of CQEs, 24 bits */
	bool armed, failed;
};
int sn_bridge_cq_query(struct sn_bridge *bridge, uint32_t cqn, struct sn_bridge_cq_state *state);

/* ---- shared receive queues ------------------------------------------------------------------ */

/* An SRQ, also one that the driver makes as an RMP or as an XRC SRQ. */
struct sn_bridge_srq {
	struct sn_bridge_pages pages;
	uint32_t log_size, log_stride; /* log2 of the WQEs, and of the bytes of each */
	uint64_t record;	       /* guest address of the doorbell record */
	uint32_t pd;
};
int sn_bridge_srq_create(struct sn_bridge *bridge, const struct sn_bridge_srq *srq, uint32_t *srqn);
/* Arms the limit event; 0 disarms it. */
int sn_bridge_srq_arm(struct sn_bridge *bridge, uint32_t srqn, uint32_t limit);
int sn_bridge_srq_limit(struct sn_bridge *bridge, uint32_t srqn, uint32_t *limit);
int sn_bridge_srq_destroy(struct sn_bridge *bridge, uint32_t srqn);

/* ---- queue pairs ---------------------------------------------------------------------------- */

/* Transports, as the field st of a QPC has them. */
enum sn_bridge_transport {
	SN_BRIDGE_RC = 0,
	SN_BRIDGE_UC = 1,
	SN_BRIDGE_UD = 2,
	SN_BRIDGE_QP0 = 7,	 /* subnet management: nothing answers */
	SN_BRIDGE_QP1 = 8,	 /* general management: takes what is sent to QP number 1 */
	SN_BRIDGE_REG_UMR = 0xc, /* changes keys, and sends nothing */
};

struct sn_bridge_qp {
	enum sn_bridge_transport transport;
	struct sn_bridge_pages pages;	/* the receive ring, then the send ring */
	bool has_sq, has_rq;		/* has_rq: a receive ring of its own */
	uint32_t log_sq;		/* log2 of WQEBBs (64 bytes) */
	uint32_t log_rq, log_rq_stride; /* log2 of WQEs, and of the bytes of each */
	uint64_t record;		/* guest address of the doorbell records: receive, send */
	uint32_t pd, send_cq, recv_cq;
	bool has_srq;
	uint32_t srq;
	uint32_t uar;		 /* page of its send doorbell */
	uint32_t user_index;	 /* of its completions, where CQEs have version 1 */
	uint32_t cs_req, cs_res; /* scatter to CQE, as the QPC has it; 0: none */
	uint32_t source_qpn;	 /* deth_sqpn: the number that datagrams come from; 0: its own */
};
/* Bytes of both rings. */
static inline uint64_t sn_bridge_ring_bytes(const struct sn_bridge_qp *qp)
{
	return (qp->has_rq ? 1ull << (qp->log_rq + qp->log_rq_stride) : 0) +
	       (qp->has_sq ? 64ull << qp->log_sq : 0);
}
int sn_bridge_qp_create(struct sn_bridge *bridge, const struct sn_bridge_qp *qp, uint32_t *qpn);
int sn_bridge_qp_destroy(struct sn_bridge *bridge, uint32_t qpn);

/* The address path of a QPC (ADS), as its fields say. */
struct sn_bridge_path {
	bool grh;
	uint16_t pkey_index, rlid;
	uint8_t sl, rate, port, ack_timeout;
	uint8_t sgid_index, hop_limit, traffic_class;
	uint32_t flow_label;
	uint8_t rgid[16];
};

/* The attributes of a QPC that a transition may set. log_ counts are as the QPC has them. */
struct sn_bridge_qpc {
	struct sn_bridge_path path;
	uint32_t remote_qpn, qkey;
	uint32_t next_send_psn, next_rcv_psn;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t retry_count, rnr_retry, min_rnr_nak;
	uint8_t log_sra_max, log_rra_max; /* log2 of READs and atomics that it sends, answers */
	bool rre, rwe, rae;		  /* remote rights */
	/* of a query alone */
	uint8_t state; /* as the QPC has it: RST 0, INIT 1, RTR 2, RTS 3, SQER 4, SQD 5, ERR 6 */
	uint16_t sq_counter, rq_counter; /* WQEBBs and WQEs taken from the rings */
};

/* Transitions, by their opcodes. */
enum sn_bridge_transition {
	SN_BRIDGE_RST2INIT = 0x502,
	SN_BRIDGE_INIT2RTR = 0x503,
	SN_BRIDGE_RTR2RTS = 0x504,
	SN_BRIDGE_RTS2RTS = 0x505,
	SN_BRIDGE_SQERR2RTS = 0x506,
	SN_BRIDGE_2ERR = 0x507,
	SN_BRIDGE_2RST = 0x50a,
	SN_BRIDGE_INIT2INIT = 0x50e,
};

/*
 * Takes the attributes that a transition needs, and the optional ones that opt_param_mask names.
 * qpc may be NULL for 2ERR and 2RST. -EINVAL: no such transition from the QP's state.
 */
int sn_bridge_qp_modify(struct sn_bridge *bridge, uint32_t qpn,
			enum sn_bridge_transition transition, uint32_t opt_param_mask,
			const struct sn_bridge_qpc *qpc);
int sn_bridge_qp_query(struct sn_bridge *bridge, uint32_t qpn, struct sn_bridge_qpc *qpc);

#endif
