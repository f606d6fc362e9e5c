/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The seam to verbs: a device, queue pairs of UC that carry packets, one of UD that carries control
 * messages, and how a slot gets memory that packets may be written to. Nothing here knows messages.
 * One thread at a time; nothing blocks.
 */
#ifndef SDR_NIC_NIC_H
#define SDR_NIC_NIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- region.c: device and memory ------------------------------------------------------------- */

enum { SDR_NICS_MAX = 8, SDR_NIC_NAME = 64 };

struct sdr_nic {
	struct ibv_context *verbs; /* NULL, and no pd: it is gone, and given back */
	struct ibv_pd *pd;
	char name[SDR_NIC_NAME];
	uint8_t port;
	int gid_index, gid_asked; /* gid_asked: -1: whichever is best */
	union ibv_gid gid;
	uint16_t lid;
	bool roce, windows;
	bool gone; /* the device has failed: it must be opened anew */
	bool down; /* the port is not active now */
	enum ibv_mtu mtu;
	uint32_t max_wr, max_cqe;
};

/* Where a queue pair of the other end is. */
struct sdr_peer {
	union ibv_gid gid;
	uint16_t lid;
	enum ibv_mtu mtu; /* of the path */
};

int sdr_nic_open(struct sdr_nic *nic, const char *name, uint8_t port, int gid_index);
void sdr_nic_close(struct sdr_nic *nic);
/* Takes the device's events: gone, down. */
void sdr_nic_look(struct sdr_nic *nic);
uint32_t sdr_mtu_bytes(enum ibv_mtu mtu);
/* bindable: windows can be bound to it. */
struct ibv_mr *sdr_region_reg(const struct sdr_nic *nic, void *addr, size_t length, bool bindable);
void sdr_nic_address(const struct sdr_nic *nic, const struct sdr_peer *peer,
		     struct ibv_ah_attr *ah);

/* ---- channel.c: packets ---------------------------------------------------------------------- */

enum { SDR_BURST = 32, SDR_SEND_DEPTH = 1024 };

struct sdr_channel {
	struct ibv_qp *qp;
	struct ibv_cq *send_cq, *recv_cq;
	uint32_t send_depth, recv_depth;
	uint64_t posted, completed; /* sends */
	uint32_t used;		    /* receives that are to be posted again */
	const char *fault;	    /* the error, once there was one */
};

struct sdr_packet_out {
	uint64_t addr, raddr;
	uint32_t length, lkey, rkey, imm;
};

int sdr_channel_open(struct sdr_channel *c, const struct sdr_nic *nic, uint32_t send_depth,
		     uint32_t recv_depth);
void sdr_channel_close(struct sdr_channel *c);
int sdr_channel_connect(struct sdr_channel *c, const struct sdr_nic *nic,
			const struct sdr_peer *peer, uint32_t qpn);
uint32_t sdr_channel_room(const struct sdr_channel *c);
/* n: at most SDR_BURST, and the room. */
int sdr_channel_post(struct sdr_channel *c, const struct sdr_packet_out *packets, uint32_t n);
/* Completions of sends. */
int sdr_channel_reap(struct sdr_channel *c);
/*
 * Takes the immediates of packets that came, at most SDR_BURST. Returns their number, or -EIO.
 * Posts receives again.
 */
int sdr_channel_poll(struct sdr_channel *c, uint32_t *imms);

/* ---- control.c: datagrams -------------------------------------------------------------------- */

enum { SDR_DATAGRAM_MAX = 4096, SDR_DATAGRAMS = 64 };

struct sdr_control {
	struct ibv_qp *qp;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint8_t *mem;
	size_t mem_size;
	uint32_t qkey, peer_qpn, peer_qkey;
	uint64_t posted, completed;
	const char *fault; /* as a channel's */
};

int sdr_control_open(struct sdr_control *c, const struct sdr_nic *nic, uint32_t qkey);
void sdr_control_close(struct sdr_control *c);
int sdr_control_connect(struct sdr_control *c, const struct sdr_nic *nic,
			const struct sdr_peer *peer, uint32_t qpn, uint32_t qkey);
/* Room for a datagram to be written to; NULL: all are under way. */
void *sdr_control_room(struct sdr_control *c);
/* Sends the datagram that was written to the room. */
int sdr_control_send(struct sdr_control *c, size_t length);
typedef void (*sdr_control_fn)(void *arg, const void *datagram, size_t length);
/* How many came, or -EIO. Makes room of what has left. */
int sdr_control_poll(struct sdr_control *c, sdr_control_fn hear, void *arg);

/* ---- how a slot gets its memory -------------------------------------------------------------- */

struct sdr_slots;

struct sdr_slot_event {
	bool bound; /* else: unbound */
	uint32_t slot;
	uint64_t addr; /* where the sender is to write */
	uint32_t rkeys[SDR_NICS_MAX];
};

/*
 * The functions that give slots memory. bind and unbind return 0, and an event of poll() says when
 * all NICs are done. A slot has one of them at a time. A failure at one NIC is no error: the NIC is
 * added to failed, and waits for lost().
 */
struct sdr_slots_ops {
	int (*open)(struct sdr_slots *s);
	void (*close)(struct sdr_slots *s);
	/* mrs: of each NIC. */
	int (*bind)(struct sdr_slots *s, uint32_t slot, uint32_t generation,
		    struct ibv_mr *const *mrs, uint64_t addr, uint64_t length);
	int (*unbind)(struct sdr_slots *s, uint32_t slot);
	/* Takes at most max events; returns their number. */
	int (*poll)(struct sdr_slots *s, struct sdr_slot_event *events, uint32_t max);
	/* Brings a complete part of the message to the user's buffer. NULL: it is there. */
	void (*came)(struct sdr_slots *s, uint32_t slot, uint64_t offset, uint64_t length);
	/*
	 * Notes that a NIC is used no more: it answers nothing. over: nothing comes by it any more,
	 * either, so that what was bound there needs no unbinding. NULL: neither matters.
	 */
	void (*lost)(struct sdr_slots *s, uint32_t nic, bool over);
	/*
	 * bury gives back what is there of a NIC that was lost; renew makes it anew, 0 or -errno.
	 * Both are called by a thread that has the NIC for itself. joined: the NIC is used again.
	 * NULL: there is nothing.
	 */
	void (*bury)(struct sdr_slots *s, uint32_t nic);
	int (*renew)(struct sdr_slots *s, uint32_t nic);
	void (*joined)(struct sdr_slots *s, uint32_t nic);
	/*
	 * Returns the number of requests that a NIC has not answered; answered: of those that it
	 * has. NULL: there are none.
	 */
	uint64_t (*waits)(const struct sdr_slots *s, uint32_t nic, uint64_t *answered);
};

struct sdr_slots {
	const struct sdr_slots_ops *ops;
	const struct sdr_nic *nics;
	/*
	 * A NIC of this end stands for several of n_nics where the other end has more NICs. These
	 * are told apart nevertheless: each has keys of its own, and NIC i is the i-th of
	 * n_devices, counted round.
	 */
	uint32_t n_devices, n_nics;
	uint32_t failed;   /* bits of NICs */
	const char *fault; /* the error of the last NIC that failed */
	uint32_t n, generations;
	uint64_t slot_size;
	void *priv;
};

static inline const struct sdr_nic *sdr_slots_nic(const struct sdr_slots *s, uint32_t i)
{
	return &s->nics[i % s->n_devices];
}

extern const struct sdr_slots_ops sdr_slots_window; /* window.c */
extern const struct sdr_slots_ops sdr_slots_stage;  /* stage.c */
extern const struct sdr_slots_ops
	sdr_slots_root; /* root.c; open: -EOPNOTSUPP: not mlx5, or no indirect keys */

#endif
