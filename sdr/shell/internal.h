/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the files of the shell share: a context's objects, used by one thread at a time. */
#ifndef SDR_SHELL_INTERNAL_H
#define SDR_SHELL_INTERNAL_H

#include "include/sdr/rel.h"
#include "sdr/core/core.h"
#include "sdr/nic/nic.h"
#include "sdr/rel/ctrl_wire.h"

#include <errno.h>

#define SDR_API __attribute__((visibility("default")))

enum { SDR_CHANNELS_MAX = 64, SDR_PARTS_MAX = 1024, SDR_MAC_KEY = 16, SDR_MAC_SIZE = 8 };

struct sdr_context {
	struct sdr_nic nic;
	struct sdr_qp *qps;
	uint32_t users; /* regions and connections */
};

struct sdr_mr {
	struct sdr_context *ctx;
	struct ibv_mr *mr;
};

/* Packets first .. end of a message that are to be sent. */
struct sdr_span {
	uint32_t first, end;
};

/* A message that is sent, until its user has heard how it ended. */
struct sdr_send_req {
	struct sdr_qp *qp;
	bool used, allowed, stream, closed, over; /* closed: no more parts; over: END is told */
	int status;
	uint64_t n, addr, length;
	uint32_t lkey, imm;
	struct sdr_cts cts;
	uint32_t fillers; /* fragments that are still to be sent alone */
	struct sdr_span *spans;
	uint32_t first_span, n_spans;
	uint64_t posted[SDR_CHANNELS_MAX]; /* what its channels had posted after its last packet */
};

struct sdr_recv_req {
	struct sdr_qp *qp;
	bool used, done;
	uint64_t n, addr, length;
	struct ibv_mr *mr;
	_Atomic uint64_t
		*visible; /* stage: chunks that are copied; else NULL: the core's bits say it */
};

struct sdr_qp_counts {
	uint64_t sent, writes, failed, chunks, chunks_sent, resent, decoded;
	uint64_t datagrams_sent, datagrams_received, datagrams_bad;
};

struct sdr_qp {
	struct sdr_qp *next;
	struct sdr_context *ctx;
	struct sdr_qp_attr attr;
	uint32_t packet, max_packets; /* bytes; of a message */
	bool connected, core_made, is_signed;
	uint8_t mac_key[SDR_MAC_KEY];
	int error; /* sticky */

	struct sdr_core core;
	struct sdr_slot *slots;
	struct sdr_send *core_sends;
	_Atomic uint64_t *words, *visible_words;

	struct sdr_channel channels[SDR_CHANNELS_MAX]; /* generation * attr.channels + i */
	uint32_t n_channels, next_channel;
	struct sdr_control control;
	struct sdr_slots backing;
	struct sdr_slot_event *unbound; /* to be told when what came before is polled */
	uint32_t n_unbound;

	struct sdr_send_req *sends; /* by slot */
	struct sdr_recv_req *recvs;
	uint32_t n_sending, next_send; /* requests with something to send; whose turn it is */

	uint32_t connection, peer_connection, sequence;
	uint32_t peer_sent_us, peer_at_us; /* the last time that the peer told, and when */
	uint64_t now, tick_at, pace_at;
	bool urgent; /* the core has something to say */
	struct sdr_estimate estimate;
	struct sdr_rel *rel;
	struct sdr_qp_counts counts;
};

/* qp.c */
int sdr_qp_step(struct sdr_qp *qp, struct sdr_event *e);
uint32_t sdr_chunk_bytes(const struct sdr_qp *qp);
/* blob.c */
struct sdr_blob {
	uint32_t connection, packet, max_msgs, chunk, channels, generations, control_qpn, qkey;
	uint64_t max_msg_size;
	uint8_t id_bits, offset_bits, mtu, is_signed;
	struct sdr_peer peer;
	uint32_t qpn[SDR_CHANNELS_MAX];
	uint32_t psn; /* 0 */
};
int sdr_blob_write(const struct sdr_blob *b, void *buf, size_t *len);
int sdr_blob_read(struct sdr_blob *b, const void *buf, size_t len);
/* mac.c: of control datagrams, behind their bytes; where no key was given, nothing */
uint64_t sdr_mac(const uint8_t key[SDR_MAC_KEY], const void *text, size_t n);
size_t sdr_mac_size(const struct sdr_qp *qp);
size_t sdr_mac_put(const struct sdr_qp *qp, void *datagram, size_t n); /* the new length */
/* n: in: with the signature, out: without. */
bool sdr_mac_check(const struct sdr_qp *qp, const void *datagram, size_t *n);
/* send.c */
void sdr_send_allowed(struct sdr_qp *qp, const struct sdr_action *a);
void sdr_send_gone(struct sdr_qp *qp, const struct sdr_action *a);
/* Sends what may leave now; true if something did. */
bool sdr_sends_inject(struct sdr_qp *qp);
/* How many packets may leave now, of at most max; 0: the line is busy. */
uint32_t sdr_pace(struct sdr_qp *qp, uint32_t max);
/*
 * Packets of message n, on one channel: data from addr on, length bytes of it; what is behind is sent empty. How many were
 * posted, at most SDR_BURST, or -errno. last: of a channel, what is posted by then.
 */
int sdr_packets_post(struct sdr_qp *qp, const struct sdr_send_req *s, const uint32_t *offsets,
		     uint32_t n, uint64_t *posted);
bool sdr_all_left(const struct sdr_qp *qp, const uint64_t *posted);
/* recv.c */
void sdr_recv_came(struct sdr_qp *qp, uint64_t n, uint32_t chunk);
void sdr_recv_done(struct sdr_qp *qp, uint64_t n);
int sdr_recv_start(struct sdr_qp *qp, struct ibv_mr *mr, uint64_t addr, uint64_t length,
		   uint64_t *n);
const _Atomic uint64_t *sdr_recv_bits(struct sdr_qp *qp, uint64_t n);
/* progress.c */
uint64_t sdr_clock_ns(void);
int sdr_qp_progress(struct sdr_qp *qp);
/* tell.c */
int sdr_say_ctrl(struct sdr_qp *qp, struct sdr_ctrl *c);
size_t sdr_ctrl_room(const struct sdr_qp *qp); /* of a datagram, for what is said */
void sdr_actions_do(struct sdr_qp *qp, const struct sdr_actions *a);
void sdr_heard(void *arg, const void *datagram, size_t length);
/* rel.c, rel_send.c, rel_recv.c: Writes */
void sdr_rel_allowed(struct sdr_rel *rel, const struct sdr_action *a);
void sdr_rel_gone(struct sdr_rel *rel, uint64_t n);
void sdr_rel_done(struct sdr_rel *rel, uint64_t n);
void sdr_rel_hear(struct sdr_rel *rel, const struct sdr_ctrl *c);
bool sdr_rel_progress(struct sdr_rel *rel);
void sdr_rel_failed(struct sdr_rel *rel);

#endif
