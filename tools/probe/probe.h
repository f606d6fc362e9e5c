/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shift-probe: what SHIFT assumes about a NIC, tried on one. It knows nothing of SHIFT's engine: both
 * read only mlx5dv.h, and each checks the other. One thread, except where commands are timed.
 *
 * The client drives. At the other end an agent obeys: another host's over TCP, or a child process on
 * the same NIC. Functions give 0, or -1 with a sentence in pr_why().
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define PR_PROTOCOL 1
#define PR_PORT	    "18600"
#define PR_ARENA    (2u << 20)
#define PR_OUT	    (1u << 20) /* offset of the half that a side sends from */
#define PR_SENDS    128u
#define PR_RECVS    512u
#define PR_CQES	    1023u
#define PR_SLOTS    4u /* queue pairs that an agent keeps */
#define PR_SRQ_WR   64u
#define PR_WHY_MAX  256u
#define PR_LONG_MS  10000u /* what takes longer does not come */
#define PR_ANSWER_S 60	   /* a peer that is silent for longer is gone */

/* How these programs end. */
enum { PR_ALL_HOLD = 0, PR_SOME_FAIL = 1, PR_USAGE = 2, PR_NOT_RUN = 3 };

int pr_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *pr_why(void);
uint64_t pr_now_ns(void);
void pr_nap_us(uint64_t us);

/* ---- dev.c: the NIC, its port, the memory that all checks use ---------------------------------- */

struct pr_dev {
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *mem;
	char name[64];
	int gid_index; /* -1: by LID */
	union ibv_gid gid;
	const char *gid_type;
};

/* @name NULL: the only mlx5 device there is. @gid_index -1: RoCE v2, or on InfiniBand none. */
int pr_dev_open(struct pr_dev *dev, const char *name, int gid_index);
void pr_dev_close(struct pr_dev *dev);
bool pr_dev_ethernet(const struct pr_dev *dev);
/* What a report says of a host: no names, no addresses. */
json_t *pr_dev_describe(const struct pr_dev *dev);

/* Bytes that no other seed has at the same place. */
void pr_pattern_fill(uint8_t *at, uint32_t len, uint32_t seed);
bool pr_pattern_is(const uint8_t *at, uint32_t len, uint32_t seed);

/* ---- end.c: a queue pair, with its completion queue -------------------------------------------- */

struct pr_addr {
	uint32_t qpn, psn, lid, rkey, mtu;
	uint64_t raddr;
	union ibv_gid gid;
};

struct pr_end {
	struct pr_dev *dev;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_srq *srq; /* not its own */
	struct mlx5dv_qp dvq;
	struct mlx5dv_cq dvc;
	uint16_t post, published; /* in units of 64 bytes: each request here has one */
	uint32_t bf_offset, ci, psn;
};

struct pr_end_options {
	struct ibv_srq *srq;
	bool sig_all;
	uint8_t timeout, retry; /* 0: 14 and 7 */
};

int pr_end_make(struct pr_end *end, struct pr_dev *dev, const struct pr_end_options *opt);
void pr_end_free(struct pr_end *end);
void pr_end_addr(const struct pr_end *end, struct pr_addr *addr);
/* From RESET to RTR, and to RTS unless @opt is NULL. */
int pr_end_connect(struct pr_end *end, const struct pr_addr *peer,
		   const struct pr_end_options *opt);
int pr_end_connect_self(struct pr_end *end, const struct pr_end_options *opt);
int pr_end_state(struct pr_end *end, enum ibv_qp_state state);
int pr_end_recv(struct pr_end *end, uint32_t n, uint32_t off, uint32_t len);
void pr_ah_fill(const struct pr_dev *dev, const union ibv_gid *gid, uint32_t lid,
		struct ibv_ah_attr *ah);
struct ibv_srq *pr_srq_make(struct pr_dev *dev);
/* Reads events until one of this type (and of this QP, where @qp is not NULL) comes: its time. */
int pr_event_wait(struct pr_dev *dev, enum ibv_event_type type, const struct ibv_qp *qp,
		  unsigned timeout_ms, uint64_t *at_ns);
void pr_events_clear(struct pr_dev *dev);

/* ---- ring.c: requests and completions as the NIC sees them ------------------------------------- */

struct pr_wr {
	uint8_t opcode; /* MLX5_OPCODE_ */
	bool signaled, send_fence;
	uint32_t off; /* of what is here, in the arena */
	uint32_t len;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t add, compare; /* atomics: what is added or swapped in; what it is compared with */
};

struct pr_done {
	uint8_t opcode, format, syndrome, vendor; /* MLX5_CQE_; bits of inline data; of errors */
	uint16_t index;
	uint32_t bytes;
	uint8_t data[64]; /* that came in the completion, if format says so */
};

/* Lays a request into the ring, without a word to the NIC: its index. */
uint16_t pr_lay(struct pr_end *end, const struct pr_wr *wr);
/* Lets the NIC have all that was laid: record, then register. */
void pr_publish(struct pr_end *end, bool blueflame);
void pr_publish_record(struct pr_end *end);
uint16_t pr_post(struct pr_end *end, const struct pr_wr *wr);
/* Has another source for a request that was laid and not published. */
void pr_patch_source(struct pr_end *end, uint16_t index, uint32_t off);
bool pr_next(struct pr_end *end, struct pr_done *done);
bool pr_wait(struct pr_end *end, struct pr_done *done, unsigned timeout_ms);
/* Are @n completions there that nobody took? */
bool pr_waiting(const struct pr_end *end, uint32_t n, unsigned timeout_ms);
bool pr_is_good(const struct pr_done *done);
bool pr_is_flush(const struct pr_done *done);
/* A completion in words, for a reason. */
const char *pr_done_text(const struct pr_done *done);

/* ---- peer.c: questions to the agent ------------------------------------------------------------ */

struct pr_peer {
	int fd;
	pid_t child; /* 0: another host */
	bool gone;
	size_t used;
	char buf[1 << 16];
};

int pr_peer_connect(struct pr_peer *peer, const char *host, const char *port);
/* Waits for one client. */
int pr_peer_listen(struct pr_peer *peer, const char *port);
/* A child on the same NIC. */
int pr_peer_spawn(struct pr_peer *peer, const struct pr_dev *dev);
void pr_peer_end(struct pr_peer *peer);
int pr_send(struct pr_peer *peer, json_t *message); /* takes the reference */
json_t *pr_receive(struct pr_peer *peer);
/* The operator wants it to end: what waits for him does not go on. */
extern volatile sig_atomic_t pr_interrupted;
bool pr_answer_waits(const struct pr_peer *peer);
/* A question of json_pack(), and its answer; NULL: pr_why(). */
json_t *pr_ask(struct pr_peer *peer, const char *fmt, ...);
int pr_tell(struct pr_peer *peer, const char *fmt, ...);
long long pr_int(const json_t *object, const char *name);
json_t *pr_addr_pack(const struct pr_addr *addr);
int pr_addr_unpack(const json_t *json, struct pr_addr *addr);

/* ---- agent.c ----------------------------------------------------------------------------------- */

/* Obeys until the client goes: 0, or -1. */
int pr_agent_serve(struct pr_peer *peer, struct pr_dev *dev);

/* ---- check.c: the checks and what they share --------------------------------------------------- */

enum pr_verdict { PR_HOLDS, PR_FAILS, PR_CANNOT_TELL };
const char *pr_verdict_name(enum pr_verdict verdict);

struct pr_result {
	const struct pr_check *check;
	enum pr_verdict verdict;
	char reason[PR_WHY_MAX];
	json_t *evidence;
	double seconds;
};

struct pr_link {
	const char *down_command, *up_command;
	bool by_hand, prepared, is_down;
	uint64_t down_ns; /* when it was seen to be, or the command was begun */
	struct pr_end self;
	struct ibv_cq *ud_cq;
	struct ibv_qp *ud;
	struct ibv_ah *ud_ah;
};

struct probe {
	struct pr_dev dev;
	struct pr_peer peer;
	struct pr_link link;
	bool loopback; /* the peer is on the same NIC */
};

struct pr_check {
	const char *name;
	const char *assumption; /* one sentence */
	const char *otherwise;	/* what SHIFT does if it fails */
	enum pr_verdict (*run)(struct probe *p, struct pr_result *r);
	bool link; /* it takes the link down, or finds it down */
};

extern const struct pr_check pr_checks[];
extern const unsigned pr_n_checks;

/* A connected pair: one end here, the other in a slot of the agent's. */
struct pr_pair {
	struct pr_end mine;
	struct pr_end_options opt;
	unsigned slot;
	struct pr_addr peer;
};

/* @srq: the peer's end takes its receives from the agent's shared queue. */
int pr_pair_open(struct probe *p, struct pr_pair *pair, unsigned slot, bool srq,
		 const struct pr_end_options *opt);
int pr_pair_reconnect(struct probe *p, struct pr_pair *pair);
void pr_pair_close(struct probe *p, struct pr_pair *pair);
/* A request between arenas: from or to the offset @off here, and @roff there. */
struct pr_wr pr_request(const struct pr_pair *pair, uint8_t opcode, uint32_t off, uint32_t roff,
			uint32_t len);
/* The completion of the request at @index must be next. */
int pr_await_good(struct pr_end *end, uint16_t index);
/* @ms: how long for each; 0: PR_LONG_MS. -1: not all came; @list has those that did, or is NULL. */
int pr_peer_poll(struct probe *p, unsigned slot, unsigned n, unsigned ms, json_t **list);
/* Is the peer's memory at @off of this pattern? 1, 0, or -1. */
int pr_peer_has(struct probe *p, uint32_t off, uint32_t len, uint32_t seed);

void pr_note(struct pr_result *r, const char *name, long long value);
void pr_note_real(struct pr_result *r, const char *name, double value);
void pr_note_text(struct pr_result *r, const char *name, const char *value);
/* Says why, and gives the verdict. */
enum pr_verdict pr_fails(struct pr_result *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
enum pr_verdict pr_cannot_tell(struct pr_result *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

enum pr_verdict check_nop_order(struct probe *p, struct pr_result *r);
enum pr_verdict check_fence(struct probe *p, struct pr_result *r);
enum pr_verdict check_cqe_order(struct probe *p, struct pr_result *r);
enum pr_verdict check_write_send(struct probe *p, struct pr_result *r);
enum pr_verdict check_self_read(struct probe *p, struct pr_result *r);
enum pr_verdict check_withheld(struct probe *p, struct pr_result *r);
enum pr_verdict check_blueflame(struct probe *p, struct pr_result *r);
enum pr_verdict check_cqe_format(struct probe *p, struct pr_result *r);
enum pr_verdict check_scatter(struct probe *p, struct pr_result *r);
enum pr_verdict check_atomics(struct probe *p, struct pr_result *r);
enum pr_verdict check_flush_sends(struct probe *p, struct pr_result *r);
enum pr_verdict check_flush_recvs(struct probe *p, struct pr_result *r);
enum pr_verdict check_flush_late(struct probe *p, struct pr_result *r);
enum pr_verdict check_error_index(struct probe *p, struct pr_result *r);
enum pr_verdict check_retry_time(struct probe *p, struct pr_result *r);
enum pr_verdict check_late_write(struct probe *p, struct pr_result *r);
enum pr_verdict check_err_psn(struct probe *p, struct pr_result *r);
enum pr_verdict check_reset_reuse(struct probe *p, struct pr_result *r);
enum pr_verdict check_srq_last(struct probe *p, struct pr_result *r);
enum pr_verdict check_srq_taker(struct probe *p, struct pr_result *r);
enum pr_verdict check_qpn_reuse(struct probe *p, struct pr_result *r);
enum pr_verdict check_cmd_cost(struct probe *p, struct pr_result *r);
enum pr_verdict check_netdev(struct probe *p, struct pr_result *r);
enum pr_verdict check_port_event(struct probe *p, struct pr_result *r);
enum pr_verdict check_loopback_down(struct probe *p, struct pr_result *r);
enum pr_verdict check_ud_survives(struct probe *p, struct pr_result *r);

/* check_link.c: brings it up again where a check left it down. */
void pr_link_restore(struct probe *p);
void pr_link_free(struct probe *p);

/* ---- report.c ---------------------------------------------------------------------------------- */

struct pr_report {
	bool loopback;
	json_t *here, *there; /* as pr_dev_describe() */
	struct pr_result *results;
	unsigned n;
	double seconds;
};

/* Sentences about what differs between the hosts; an array. */
json_t *pr_report_differences(const struct pr_report *report);
void pr_report_table(const struct pr_report *report);
void pr_report_json(const struct pr_report *report);

#endif
