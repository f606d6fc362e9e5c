/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The objects of a context, used by one thread at a time, and the functions that the files of the
 * shell share.
 */
#ifndef SDR_SHELL_INTERNAL_H
#define SDR_SHELL_INTERNAL_H

#include "sdr/include/sdr/rel.h"
#include "sdr/core/core.h"
#include "sdr/core/join.h"
#include "sdr/nic/nic.h"
#include "sdr/rel/ctrl_wire.h"
#include "sdr/rel/pause.h"
#include "sdr/shell/share.h"

#include <errno.h>
#include <pthread.h>

#define SDR_API __attribute__((visibility("default")))

enum {
	SDR_CHANNELS_MAX = 64,
	SDR_RAILS_MAX = 8, /* channels of a generation */
	SDR_PARTS_MAX = 1024,
	SDR_MAC_KEY = 16,
	SDR_MAC_SIZE = 8,
	SDR_WHY_MAX = 160
};

/* A device that is gone, and opened anew by a thread. */
struct sdr_revival {
	struct sdr_context *ctx;
	uint32_t nic, tries;
	struct sdr_nic device; /* the thread's: the old one, and then the new one */
	pthread_t thread;
	bool runs;
	_Atomic bool done;
	int err;
	uint64_t try_at;
};

struct sdr_context {
	struct sdr_nic nics[SDR_NICS_MAX];
	uint32_t n_nics;
	struct sdr_revival revivals[SDR_NICS_MAX];
	struct sdr_qp *qps;
	uint32_t users; /* regions and connections */
	uint64_t look_at;
	pthread_mutex_t lock; /* guards mrs, and their parts on a NIC that is revived */
	struct sdr_mr *mrs;
};

struct sdr_mr {
	struct sdr_context *ctx;
	struct sdr_mr *next;
	void *addr;
	size_t length;
	uint32_t uses;			  /* requests of its user that have not ended */
	struct ibv_mr *mrs[SDR_NICS_MAX]; /* NULL: that NIC is gone */
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
	struct sdr_mr *mr;
	uint32_t imm;
	struct sdr_cts cts;
	uint32_t fillers; /* fragments that are still to be sent alone */
	struct sdr_span *spans;
	uint32_t first_span, n_spans;
	uint64_t posted[SDR_CHANNELS_MAX]; /* each channel's count of posts after the last packet */
};

struct sdr_recv_req {
	struct sdr_qp *qp;
	bool used, done, holds; /* holds: its user's: it counts as a use of mr */
	uint64_t n, addr, length;
	struct sdr_mr *mr;
	_Atomic uint64_t
		*visible; /* stage: chunks that are copied; else NULL: the core's bits say it */
};

struct sdr_qp_counts {
	uint64_t sent, writes, failed, chunks, chunks_sent, resent, decoded;
	uint64_t datagrams_sent, datagrams_received, datagrams_bad;
	uint64_t nics_lost, nics_joined;
};

enum sdr_job { SDR_JOB_CLOSE, SDR_JOB_MAKE, SDR_JOB_CONNECT };

/* A way from a NIC here to one there, as one connection sees it. */
struct sdr_watch {
	struct sdr_join join;
	const char *fault; /* the way is to be left at the next look, for this; NULL: it is not */
	bool lost,
		over; /* the backing knows: of this end's NIC; and nothing comes by it any more */
	uint64_t answered; /* requests */
	uint64_t stuck_ns; /* time without an answer that is due */
	/* time from which nothing given to the way leaves or is read any more; 0: not known yet */
	uint64_t quiet_at;
	struct sdr_qp *qp;
	/* job of the worker, a thread that has the NIC's part of the connection for itself */
	enum sdr_job job;
	pthread_t worker;
	bool works, has_thread, was_lost; /* was_lost: when the worker began */
	int result;
	_Atomic bool done;
	struct sdr_peer peer; /* the peer, as told for the next life */
	uint32_t control_qpn[SDR_RAILS_MAX], qpn[SDR_CHANNELS_MAX];
};

/* Bits are of rails: channels of a generation. */
struct sdr_rails {
	struct sdr_control controls[SDR_RAILS_MAX];
	struct sdr_watch ways[SDR_NICS_MAX];
	uint32_t dead, down, peer_down;
	bool peer_over;	 /* the other end sends nothing any more */
	uint32_t newest; /* number of the datagram that peer_down is from */
	uint32_t next_control, qkey, peer_qkey;
	enum ibv_mtu mtu;
	bool answer;
	uint64_t ask_at, looked_at;
	uint64_t error_at;  /* time when the error was seen first */
	uint32_t shut_ways; /* bits: nothing comes or goes by them any more */
	bool shut;	    /* nothing comes by any way: memory is the user's again */
};

/* The rounds of a connection: pauses of the program, and when the core is to hear of the time. */
struct sdr_rounds {
	struct sdr_pause pause;
	uint64_t tick_at;
	/* number of datagrams that told no time, as they may have waited for a program that paused,
	 * since one that did tell */
	uint32_t skipped;
};

struct sdr_qp {
	struct sdr_qp *next;
	struct sdr_context *ctx;
	struct sdr_qp_attr attr;
	uint32_t packet, max_packets; /* bytes; of a message */
	uint32_t n_ways;	      /* NICs of the end that has more; of unequal ends, rails */
	char why[SDR_WHY_MAX];
	bool connected, is_signed, chunk_by_default;
	uint8_t mac_key[SDR_MAC_KEY];
	int error; /* sticky */

	struct sdr_core core;
	struct sdr_slot *slots;
	struct sdr_send *core_sends;
	_Atomic uint64_t *words, *visible_words;

	struct sdr_channel channels[SDR_CHANNELS_MAX]; /* generation * attr.channels + i */
	uint32_t n_channels, next_channel;
	struct sdr_rails rails;
	struct sdr_slots backing;
	/* slots to be told as unbound when what came before is polled */
	struct sdr_slot_event *unbound;
	uint32_t n_unbound;

	struct sdr_send_req *sends; /* by slot */
	struct sdr_recv_req *recvs;
	uint32_t n_sending, next_send; /* requests with something to send; whose turn it is */

	uint32_t connection, peer_connection, sequence;
	uint32_t peer_sent_us, peer_at_us; /* the last time that the peer told, and when */
	uint64_t now;
	struct sdr_rounds rounds;
	bool urgent; /* the core has something to say */
	struct sdr_estimate estimate;
	struct sdr_share share;
	struct sdr_rel *rel;
	struct sdr_qp_counts counts;
};

/* qp.c */
int sdr_qp_step(struct sdr_qp *qp, struct sdr_event *e);
uint32_t sdr_chunk_bytes(const struct sdr_qp *qp);
uint64_t sdr_msg_room(
	const struct sdr_qp *qp); /* bytes of a message of whole chunks: parity has no others */
/* context.c */
void sdr_mr_free(struct sdr_mr *mr); /* ignores what a device says; NULL: nothing */
int sdr_mr_enroll(struct sdr_mr *mr, struct sdr_nic *nic, uint32_t i);
/* A NIC that was given another place would fail of it. */
bool sdr_mr_covers(const struct sdr_mr *mr, const struct sdr_qp *qp, uint64_t addr,
		   uint64_t length);
/* revive.c */
void sdr_revive(struct sdr_context *ctx, uint32_t nic, uint64_t now);
void sdr_revivals_join(struct sdr_context *ctx);
/* why.c: a sentence about what has failed last */
void sdr_why(struct sdr_qp *qp, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* send.c */
void sdr_send_allowed(struct sdr_qp *qp, const struct sdr_action *a);
void sdr_send_let_go(struct sdr_send_req *send);
void sdr_send_gone(struct sdr_qp *qp, const struct sdr_action *a);
/* Sends what may leave now; true if something did. */
bool sdr_sends_inject(struct sdr_qp *qp);
/* Bits per second that the NICs in use may send together now; 0: no limit. */
double sdr_rate_share(const struct sdr_qp *qp);
/* How many packets may leave now, of at most max; 0: the line is busy. */
uint32_t sdr_pace(struct sdr_qp *qp, uint32_t max);
/*
 * Posts packets of message s->n on one channel: data from s->addr on, s->length bytes of it;
 * packets behind these are sent empty. Returns how many were posted, at most SDR_BURST, or -errno.
 * posted: for each channel, its count of posts by then.
 */
int sdr_packets_post(struct sdr_qp *qp, const struct sdr_send_req *s, const uint32_t *offsets,
		     uint32_t n, uint64_t *posted);
bool sdr_all_left(const struct sdr_qp *qp, const uint64_t *posted);
/* recv.c */
void sdr_recv_came(struct sdr_qp *qp, uint64_t n, uint32_t chunk);
void sdr_recv_done(struct sdr_qp *qp, uint64_t n);
int sdr_recv_start(struct sdr_qp *qp, struct sdr_mr *mr, uint64_t addr, uint64_t length,
		   uint64_t word, uint64_t *n);
void sdr_recv_let_go(struct sdr_recv_req *recv);
const _Atomic uint64_t *sdr_recv_bits(struct sdr_qp *qp, uint64_t n);
/* progress.c */
uint64_t sdr_clock_ns(void);
int sdr_qp_progress(struct sdr_qp *qp);
/* tell.c */
int sdr_say_ctrl(struct sdr_qp *qp, struct sdr_ctrl *c);
/* Says it in two datagrams, as losing it would cost a round trip. */
void sdr_say_twice(struct sdr_qp *qp, struct sdr_ctrl *c);
size_t sdr_ctrl_room(const struct sdr_qp *qp); /* bytes that a message may have in a datagram */
void sdr_actions_do(struct sdr_qp *qp, const struct sdr_actions *a);
void sdr_heard(void *arg, const void *datagram, size_t length);

#include "sdr/shell/rails.h"

#endif
