/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Messages over an unreliable connection (UC) whose receives complete in part: a bitmap tells
 * which chunks have arrived. The n-th send lands in the n-th receive. Late packets never change a
 * buffer after its receive was completed.
 *
 * Functions return 0 or a negative errno, unless their comment says otherwise. Functions that
 * return a pointer set errno and return NULL. An object is used by one thread at a time, and a
 * context with all that is made in it counts as one object; bitmaps may be read by any thread.
 * Nothing moves except in sdr_poll().
 */
#ifndef SDR_SDR_H
#define SDR_SDR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
typedef volatile uint64_t sdr_word; /* read with __atomic_load_n() */
#else
typedef _Atomic uint64_t sdr_word;
#endif

struct sdr_context;
struct sdr_mr;
struct sdr_qp;
struct sdr_send_req;
struct sdr_recv_req;

/* ---- device and memory ----------------------------------------------------------------------- */

struct sdr_context_attr {
	/*
	 * -1: the first of RoCE v2 over IPv4, else of RoCE v2 over IPv6 (one that is not link-local
	 * first), else of RoCE v1.
	 */
	int gid_index;
	uint8_t port; /* 0 stands for port 1 */
};

/*
 * Opens devices. dev_names: names as ibv_devices says them, one, or up to eight with commas
 * between them; attr: NULL for defaults. ENODEV: no such device; ENETDOWN: its port is not active;
 * EINVAL: a device is named twice, or there are too many.
 *
 * Connections over several devices spread their packets over them: channel i goes from the i-th
 * device here to the i-th there, each counted round. Ends with different numbers of devices need
 * the same number of channels, at least one for each device of the end that has more. A failed
 * device is only loss, as long as one is left. It is used again when it is well and its earlier
 * packets are surely gone.
 */
struct sdr_context *sdr_context_create(const char *dev_names, const struct sdr_context_attr *attr);
/* -EBUSY: objects are left in the context. */
int sdr_context_destroy(struct sdr_context *ctx);
/*
 * Does all that is due now in the context. Call it again and again. Returns 0 if nothing was due.
 */
int sdr_poll(struct sdr_context *ctx);

struct sdr_mr *sdr_mr_reg(struct sdr_context *ctx, void *addr, size_t length);
/* -EBUSY: a send, a receive or a Write in this memory has not ended. */
int sdr_mr_dereg(struct sdr_mr *mr);

/* ---- connections ----------------------------------------------------------------------------- */

enum sdr_backend {
	SDR_BACKEND_AUTO,   /* windows if the device has them, else the stage */
	SDR_BACKEND_WINDOW, /* a memory window for each receive: late packets have a dead key */
	/*
	 * Memory of SDR's own, copied out of chunk by chunk. Needs UC alone, and generations *
	 * max_msgs * max_msg_size bytes. In a message shorter than its receive, the bytes behind
	 * its end in the last chunk are undefined.
	 */
	SDR_BACKEND_STAGE,
	/*
	 * mlx5: one indirect key over all receives: late packets are counted, and written nowhere
	 */
	SDR_BACKEND_ROOT
};

/*
 * A rate that is found: it grows while the link has room, and gives way to a queue that grows, and
 * to losses while a queue stands, so that others on the link get their share.
 */
#define SDR_RATE_AUTO UINT64_MAX

/*
 * Attributes, in which 0 stands for the default. Both ends need the same, except for backend and
 * rate.
 */
struct sdr_qp_attr {
	uint64_t max_msg_size; /* bytes; 1 MiB */
	/*
	 * Bytes for each bit of a bitmap: a power of two of packets, at most 64 packets. The
	 * default is 1 to 16 packets, so that max_msg_size has at most 15,872 chunks; it depends
	 * on the end's MTU. If both ends use the default, the larger one counts; if one end does,
	 * the other end's value counts.
	 */
	uint32_t chunk_size;
	uint32_t max_msgs;    /* messages open at once; a power of two; 64 */
	uint32_t channels;    /* queue pairs; at least one for each device; at most 8 */
	uint32_t generations; /* generations of queue pairs; stage: 1, root: 4 */
	/* packets that may come on a channel between two calls of sdr_poll(); 4096 */
	uint32_t recv_depth;
	/* longest time that a packet is under way; 1 s, at most an hour */
	uint64_t packet_lifetime_ns;
	/* rate of sending, over all devices; 0: no limit; or SDR_RATE_AUTO */
	uint64_t rate_bps;
	enum sdr_backend backend;
	uint8_t id_bits, offset_bits; /* bits in an immediate; 10 and 18 */
	uint8_t duplicates;	      /* 1: the network may double packets */
	/*
	 * Bytes that may leave at once after a pause, so that the rate is kept. Default: the bytes
	 * of a quarter of a round trip, 1 to 64 ms.
	 */
	uint64_t burst;
	/* 16 bytes that both ends know, which sign control datagrams; NULL: no signatures. */
	const uint8_t *mac_key;
};

/*
 * Makes a connection. EOPNOTSUPP: the device lacks what the backend needs; ENODEV: one of the
 * devices has failed, and is not back; EMSGSIZE: a message has more packets than offset_bits can
 * count.
 */
struct sdr_qp *sdr_qp_create(struct sdr_context *ctx, const struct sdr_qp_attr *attr);
/* Ends the connection, with its sends and receives. -EBUSY: an sdr_rel exists on it. */
int sdr_qp_destroy(struct sdr_qp *qp);
/* Sets the rate of sending from now on, as rate_bps of the attributes. */
void sdr_qp_rate_set(struct sdr_qp *qp, uint64_t rate_bps);
/*
 * Says that the other end sends nothing any more, as its caller knows by other means. A receive
 * that is open to a device which failed then ends without the other end's word, which would not
 * come.
 */
void sdr_qp_peer_over(struct sdr_qp *qp);

#define SDR_QP_INFO_MAX 2048
/*
 * Writes the bytes that the other end needs, to be carried there by any means. len: in: room, out:
 * used. -ENOSPC.
 */
int sdr_qp_info_get(struct sdr_qp *qp, void *info, size_t *len);
/*
 * Connects to the end whose bytes these are. -EBADMSG: not the bytes of an end; -EPROTONOSUPPORT:
 * bytes of another version; -EPROTO: attributes differ, and sdr_qp_why() names them. After these
 * three another end may be tried. After any other error (-ENOMEM and the like) the connection can
 * only be destroyed. A device that has died since sdr_qp_create() is no error while another one
 * works: the connection leaves it, as it leaves one that dies later.
 */
int sdr_qp_connect(struct sdr_qp *qp, const void *remote, size_t len);

/* ---- sends ----------------------------------------------------------------------------------- */

struct sdr_send_wr {
	struct sdr_mr *mr;
	const void *addr;
	uint64_t length;
	uint32_t imm;
};

struct sdr_part {
	uint64_t offset, length; /* offset: of a chunk; length: of chunks, or up to the end */
};

/*
 * Posts a send, which waits for its receive. -EAGAIN: no slot is free; -EINVAL: mr does not have
 * all of these bytes.
 */
int sdr_send_post(struct sdr_qp *qp, const struct sdr_send_wr *wr, struct sdr_send_req **send);
/*
 * Posts a send whose parts are given later, by and by. A part may be given again. Errors as above.
 */
int sdr_send_stream_start(struct sdr_qp *qp, const struct sdr_send_wr *wr,
			  struct sdr_send_req **send);
/* -EAGAIN: too many parts wait already. */
int sdr_send_stream_continue(struct sdr_send_req *send, const struct sdr_part *parts, uint32_t n);
int sdr_send_stream_end(struct sdr_send_req *send);
/*
 * Returns 1 when all has left the buffer, and the handle is gone; 0: not yet. After any other
 * value the handle is gone, too: -ECANCELED: the receive is no more; -EMSGSIZE: the receive is
 * shorter; -EIO: the connection has failed, or each device by which the send could go was lost
 * since its receive was posted, even if they are well again; or another -errno.
 */
int sdr_send_poll(struct sdr_send_req *send);

/* ---- receives -------------------------------------------------------------------------------- */

struct sdr_recv_wr {
	struct sdr_mr *mr;
	void *addr;
	uint64_t length;
};

/* -EAGAIN: no slot is free yet: packets of an earlier message may still be under way. */
int sdr_recv_post(struct sdr_qp *qp, const struct sdr_recv_wr *wr, struct sdr_recv_req **recv);
/*
 * Words of chunk bits. Whoever loads a bit with acquire sees the payload. Valid until
 * sdr_recv_complete().
 */
int sdr_recv_bitmap_get(struct sdr_recv_req *recv, const sdr_word **bitmap, size_t *chunks);
/* -EAGAIN: the immediate has not come whole. */
int sdr_recv_imm_get(struct sdr_recv_req *recv, uint32_t *imm);
/*
 * Returns 1 when the sender has sent all that it will: missing chunks are lost, or under way. 0:
 * not yet, or this end has not heard it yet.
 */
int sdr_recv_ended(struct sdr_recv_req *recv);
/*
 * Completes a receive, early or not. No byte of the buffer changes after the call returns, and the
 * handle is gone. Polls meanwhile. After an error of the connection the call returns when the
 * connection is closed: at once; a packet's lifetime after a device has failed; or after 30
 * lifetimes if no command comes back.
 */
int sdr_recv_complete(struct sdr_recv_req *recv);

/* ---- counters -------------------------------------------------------------------------------- */

struct sdr_stats {
	uint64_t sent, received, late, stray; /* packets */
	uint64_t writes, failed;	      /* Writes that ended at this end, see sdr/rel.h */
	uint64_t chunks, chunks_sent, resent, decoded;
	uint64_t datagrams_sent, datagrams_received, datagrams_bad;
	uint64_t rtt_ns;    /* smoothed */
	double loss;	    /* lost part of the chunks, estimated */
	uint64_t nics_lost; /* number of times a device of this end has failed */
	/* number of times a device was used again; with unequal ends, channels */
	uint64_t nics_joined;
};

int sdr_qp_stats(struct sdr_qp *qp, struct sdr_stats *stats);
/*
 * The last failure, in a sentence for people; "" if nothing has failed. It names the device and
 * its fault, where a device was lost or a call says -EIO or -ETIMEDOUT; the attribute, after
 * -EPROTO; or says that the other end's mac_key is not this one's. Its bytes may change with each
 * sdr_poll().
 */
const char *sdr_qp_why(const struct sdr_qp *qp);
const char *sdr_backend_name(enum sdr_backend backend);
/* Returns the backend in use: never AUTO. */
enum sdr_backend sdr_qp_backend(const struct sdr_qp *qp);

#ifdef __cplusplus
}
#endif
#endif
