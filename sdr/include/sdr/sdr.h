/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Messages over an unreliable connection (UC) whose receives complete in part: which chunks are here, a bitmap tells. The
 * n-th send lands in the n-th receive. What comes late never changes a buffer after its receive was completed.
 *
 * Functions return 0 or a negative errno, or as said; those that return a pointer set errno and return NULL. An object is
 * used by one thread at a time, and a context with all that is made in it counts as one; bitmaps may be read by any.
 * Nothing moves but in sdr_poll().
 */
#ifndef SDR_SDR_H
#define SDR_SDR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
typedef volatile uint64_t sdr_word; /* to be read with __atomic_load_n() */
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
	int gid_index; /* -1: the first of RoCE v2 over IPv4, or the first there is */
	uint8_t port;  /* 0: 1 */
};

/*
 * dev_names: as ibv_devices says, one, or up to eight with commas between them; attr: NULL for defaults. ENODEV: no such device;
 * ENETDOWN: its port is not active; EINVAL: one is named twice, or they are too many.
 *
 * Connections over several devices spread their packets over them: channel i goes from the i-th device here to the i-th
 * there, each counted round. Ends with unequally many need the same number of channels, at least one for each device of the end
 * that has more. A device that fails is only loss, as long as one is left; when it is well again, and its packets of before are
 * surely gone, it is used again.
 */
struct sdr_context *sdr_context_create(const char *dev_names, const struct sdr_context_attr *attr);
/* -EBUSY: something is left in it. */
int sdr_context_destroy(struct sdr_context *ctx);
/* Does what is to be done now, for all that is in the context: to be called again and again. 0: there was nothing. */
int sdr_poll(struct sdr_context *ctx);

struct sdr_mr *sdr_mr_reg(struct sdr_context *ctx, void *addr, size_t length);
/* -EBUSY: a send, a receive or a Write of it has not ended. */
int sdr_mr_dereg(struct sdr_mr *mr);

/* ---- connections ----------------------------------------------------------------------------- */

enum sdr_backend {
	SDR_BACKEND_AUTO,   /* windows if the device has them, else the stage */
	SDR_BACKEND_WINDOW, /* a memory window for each receive: what is late has a dead key */
	/*
	 * Memory of SDR's own, copied out of chunk by chunk: needs UC alone, and generations * max_msgs * max_msg_size bytes. Behind a
	 * message that is shorter than its receive the rest of its last chunk is anything.
	 */
	SDR_BACKEND_STAGE,
	SDR_BACKEND_ROOT /* mlx5: one indirect key over all receives: what is late is counted, and written nowhere */
};

/* 0 in any: the default. Both ends need the same, but for the backend and the rate. */
struct sdr_qp_attr {
	uint64_t max_msg_size; /* 1 MiB */
	/*
	 * A bit; a power of two of packets, at most 64; so many, 1 to 16, that max_msg_size has at most 15,872 chunks. Of two
	 * defaults, which hang on each end's MTU, the larger counts, and of one default the other end's word.
	 */
	uint32_t chunk_size;
	uint32_t max_msgs;    /* open at once; a power of two; 64 */
	uint32_t channels;    /* queue pairs; one for each device, and no fewer; at most 8 */
	uint32_t generations; /* stage, root: of queue pairs; 1, of a root 4 */
	uint32_t recv_depth;  /* packets that may come between two sdr_poll() on a channel; 4096 */
	uint64_t packet_lifetime_ns; /* no packet is under way for longer; 1 s, at most an hour */
	uint64_t rate_bps;	     /* at which is sent, over all devices; 0: as fast as it goes */
	enum sdr_backend backend;
	uint8_t id_bits, offset_bits; /* of an immediate; 10 and 18 */
	uint8_t duplicates;	      /* 1: the network may double packets */
	/* Bytes that may leave at once after a pause, so that the rate is kept; those of a quarter of a round trip, 1 to 16 ms. */
	uint64_t burst;
	/* 16 bytes that both ends know, by which control datagrams are signed; NULL: they are not. */
	const uint8_t *mac_key;
};

/* EOPNOTSUPP: the device lacks what the backend needs; ENODEV: one of the devices has failed, and is not back; EMSGSIZE: a
 * message has more packets than offset_bits can count. */
struct sdr_qp *sdr_qp_create(struct sdr_context *ctx, const struct sdr_qp_attr *attr);
/* -EBUSY: a Write's end is still over it. Sends and receives end with it. */
int sdr_qp_destroy(struct sdr_qp *qp);

#define SDR_QP_INFO_MAX 2048
/* What the other end needs, to be carried there by any means. len: in: room, out: used. -ENOSPC. */
int sdr_qp_info_get(struct sdr_qp *qp, void *info, size_t *len);
/*
 * -EBADMSG: these are not an end's bytes; -EPROTONOSUPPORT: of another version; -EPROTO: attributes differ, and sdr_qp_why() says
 * which: another end may be tried. Else, -ENOMEM and the like, the connection can only be destroyed.
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

/* -EAGAIN: none is free; -EINVAL: mr has not all of these bytes. It waits for its receive. */
int sdr_send_post(struct sdr_qp *qp, const struct sdr_send_wr *wr, struct sdr_send_req **send);
/* The same, but what is sent is told by and by, and may be told again. */
int sdr_send_stream_start(struct sdr_qp *qp, const struct sdr_send_wr *wr,
			  struct sdr_send_req **send);
/* -EAGAIN: too many parts wait. */
int sdr_send_stream_continue(struct sdr_send_req *send, const struct sdr_part *parts, uint32_t n);
int sdr_send_stream_end(struct sdr_send_req *send);
/*
 * 1: all has left the buffer, and the handle is gone; 0: not yet; else the handle is gone, too: -ECANCELED: the receive is
 * no more; -EMSGSIZE: it is shorter; -EIO: the connection has failed, or each device by which it could go was lost since its receive
 * was posted, though they are well again; ...
 */
int sdr_send_poll(struct sdr_send_req *send);

/* ---- receives -------------------------------------------------------------------------------- */

struct sdr_recv_wr {
	struct sdr_mr *mr;
	void *addr;
	uint64_t length;
};

/* -EAGAIN: none is free yet: packets of an earlier message may still be under way. */
int sdr_recv_post(struct sdr_qp *qp, const struct sdr_recv_wr *wr, struct sdr_recv_req **recv);
/* Words of chunk bits. Who loads a bit with acquire sees the payload. Valid until sdr_recv_complete(). */
int sdr_recv_bitmap_get(struct sdr_recv_req *recv, const sdr_word **bitmap, size_t *chunks);
/* -EAGAIN: not all of it has come. */
int sdr_recv_imm_get(struct sdr_recv_req *recv, uint32_t *imm);
/* 1: its sender has sent all that it will: what is missing is lost, or under way; 0: not yet, or that was not heard yet. */
int sdr_recv_ended(struct sdr_recv_req *recv);
/*
 * Early or not: no byte of the buffer changes after it returns, and the handle is gone. Polls meanwhile. After an error of the connection
 * it returns when that is closed: at once, or a packet's lifetime after a device has failed, or if no command comes back after 30.
 */
int sdr_recv_complete(struct sdr_recv_req *recv);

/* ---- counters -------------------------------------------------------------------------------- */

struct sdr_stats {
	uint64_t sent, received, late, stray; /* packets */
	uint64_t writes, failed;	      /* of sdr/rel.h, ended at this end */
	uint64_t chunks, chunks_sent, resent, decoded;
	uint64_t datagrams_sent, datagrams_received, datagrams_bad;
	uint64_t rtt_ns;      /* smoothed */
	double loss;	      /* of chunks, estimated */
	uint64_t nics_lost;   /* times that a device of this end has failed */
	uint64_t nics_joined; /* ... that one was used again; of unequal ends, channels */
};

int sdr_qp_stats(struct sdr_qp *qp, struct sdr_stats *stats);
/*
 * What has failed last, a sentence for people: which device and of what, where a device was lost or a call says -EIO or -ETIMEDOUT;
 * which attribute, behind -EPROTO; that the other end's mac_key is not this one's. "": nothing has. Its bytes may change with each sdr_poll().
 */
const char *sdr_qp_why(const struct sdr_qp *qp);
const char *sdr_backend_name(enum sdr_backend backend);
/* The one in use: never AUTO. */
enum sdr_backend sdr_qp_backend(const struct sdr_qp *qp);

#ifdef __cplusplus
}
#endif
#endif
