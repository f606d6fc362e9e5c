/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verify: an application over plain verbs that checks every byte, completion and counter that it
 * is owed. It knows nothing of SHIFT: what it accepts is what RC promises to any application.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MAX_QPS = 32,
	MAX_LANES = 3,
	SQ_DEPTH = 128,
	RQ_DEPTH = 32,
	EXPECT_RING = 256,
	MAX_SGE = 4,
	MAX_BATCH = 16,
	SLOTS = 16,
	SGE_GAP = 64,
	STATIC_LEN = 65536,
	CTRL_LEN = 4096,
	COUNTERS = 4,
	WANT_INLINE = 96,
};

/*
 * Why a run failed. Each name stands for one broken promise; the first that is met is printed.
 *
 *	LOST: a signaled request was skipped, or fewer messages arrived than were sent
 *	DOUBLED: a completion or a message came twice
 *	REORDERED: completions out of posting order, or success after an error
 *	INVENTED: a completion that nobody was owed
 *	WRONG_BYTES: of a message, a READ or a polled word; the text says whose bytes they are
 *	GHOST_WRITE: a buffer was written after its use
 *	WRONG_WR_ID .. WRONG_QP_NUM: a field of a completion
 *	WRONG_ATOMIC: it returned what it cannot have found, or the counters match no order of the atomics
 *	WRONG_QP_STATE: ibv_query_qp answers something else than the application made
 *	UNEXPECTED_STATUS: an error completion on a QP that has no right to one
 *	UNEXPECTED_EVENT: an asynchronous event of a masked fault
 *	LOST_EVENT: a completion without its event
 *	POST_FAILED, VERB_FAILED, SETUP: a verb failed
 *	MISSING_ERROR, ONE_SIDED_ERROR: only one end of a failed QP was told
 *	STUCK: no progress with work outstanding
 *	PEER_GONE: the other end ended first
 */
#define FAIL_REASONS(X)                                                                            \
	X(NONE)                                                                                    \
	X(LOST)                                                                                    \
	X(DOUBLED)                                                                                 \
	X(REORDERED)                                                                               \
	X(INVENTED)                                                                                \
	X(WRONG_BYTES)                                                                             \
	X(GHOST_WRITE)                                                                             \
	X(WRONG_WR_ID)                                                                             \
	X(WRONG_IMM)                                                                               \
	X(WRONG_LENGTH)                                                                            \
	X(WRONG_OPCODE)                                                                            \
	X(WRONG_FLAGS)                                                                             \
	X(WRONG_QP_NUM)                                                                            \
	X(WRONG_ATOMIC)                                                                            \
	X(WRONG_QP_STATE)                                                                          \
	X(UNEXPECTED_STATUS)                                                                       \
	X(UNEXPECTED_EVENT)                                                                        \
	X(LOST_EVENT)                                                                              \
	X(POST_FAILED)                                                                             \
	X(VERB_FAILED)                                                                             \
	X(MISSING_ERROR)                                                                           \
	X(ONE_SIDED_ERROR)                                                                         \
	X(STUCK)                                                                                   \
	X(PEER_GONE)                                                                               \
	X(SETUP)

enum fail_reason {
#define X(name) FAIL_##name,
	FAIL_REASONS(X)
#undef X
};

enum pattern {
	PATTERN_SIMPLE,
	PATTERN_SENDRECV,
	PATTERN_READ,
	PATTERN_ATOMIC,
	PATTERN_MIXED,
	PATTERN_FENCED,
	PATTERN_COUNT,
};

enum lane_kind { LANE_POLLED, LANE_BLOCKING, LANE_NONBLOCKING };

struct options {
	bool server;
	const char *host;
	const char *dev;
	const char *patterns;
	uint64_t seed;
	uint64_t rounds;
	double duration_s;
	double stuck_s;
	double idle_after_s;
	double idle_for_s;
	uint32_t max_size;
	int gid_index;
	int qps;
	int port;
	int timeout;
	int retry;
	bool expect_error;
	bool may_fail;
	bool allow_events;
	bool control;
};

/* One posted request, kept until its completion is known. */
struct expect {
	uint64_t wr_id;
	uint64_t seq;
	uint32_t len;
	uint8_t kind;
	bool signaled;
	uint64_t result;
	enum ibv_wc_opcode opcode;
};

/* What a request is for the messages of its QP. */
enum kind { KIND_PART, KIND_DATA, KIND_GRANT, KIND_LAST };

/* Names seeded bytes. */
struct bytes_id {
	int dir;
	uint32_t salt;
	uint64_t seq;
	size_t offset;
};

struct fifo {
	struct expect ring[EXPECT_RING];
	uint64_t head;
	uint64_t tail;
	uint64_t posted;
	uint64_t done;
	uint64_t errors;
	uint64_t signaled;
};

/* A completion as both poll styles deliver it. */
struct completion {
	uint64_t wr_id;
	uint32_t qp_num;
	uint32_t byte_len;
	uint32_t imm;
	uint32_t vendor_err;
	unsigned int flags;
	enum ibv_wc_opcode opcode;
	enum ibv_wc_status status;
};

struct request {
	struct expect expect;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint32_t imm;
	int nsge;
	struct ibv_sge sge[MAX_SGE];
	uint64_t raddr;
	uint64_t compare_add;
	uint64_t swap;
};

struct peer_info {
	uint64_t addr;
	uint64_t seed;
	uint32_t rkey;
	uint32_t qpn;
	uint32_t psn;
	uint16_t lid;
	uint8_t mtu;
	uint8_t pattern;
	union ibv_gid gid;
};

/* What each side tells the other when all work is done. */
struct final_info {
	uint64_t sent;
	uint64_t received;
	uint64_t failed;
	uint64_t last_sent;
	uint64_t counters[COUNTERS];
};

struct vqp;
struct lane;

struct pattern_ops {
	const char *name;
	bool polls_memory;
	bool may_fail;
	void (*start)(struct vqp *q);
	bool (*step)(struct vqp *q);
	void (*sent)(struct vqp *q, const struct expect *e);
	void (*received)(struct vqp *q, const struct expect *e, const struct completion *c);
	void (*finish)(struct vqp *q, const struct final_info *peer);
};

struct vqp {
	int index;
	bool initiator;
	bool wr_api;
	bool sig_all;
	const struct pattern_ops *ops;
	enum pattern pattern;
	struct lane *lane;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	struct ibv_mr *mr;
	struct peer_info local, remote;
	uint32_t inline_max;
	uint8_t *mem;
	size_t mem_len;
	size_t slot_len;

	struct fifo sq, rq;
	struct request batch[MAX_BATCH];
	int batched;
	unsigned int unsignaled_run;

	/* messages of this QP, by direction */
	uint64_t tx_next;
	uint64_t tx_done;
	uint64_t rx_next;
	uint64_t rx_posted;
	bool last_sent, last_done, last_seen;
	uint64_t last_tx, last_rx;
	bool failed;
	enum ibv_wc_status first_status;

	/* pattern state */
	uint64_t granted;
	uint64_t credit_seen;
	uint64_t rewinds;
	uint64_t checked;
	uint64_t torn_since_ns;
	uint64_t counters[COUNTERS];
};

struct lane {
	int index;
	enum lane_kind kind;
	bool extended;
	struct verify *v;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cqx;
	struct vqp *qps[MAX_QPS];
	int nqps;
	unsigned int unacked;
	unsigned int idle_polls;
	pthread_t thread;
	_Atomic uint64_t progress;
	const char *_Atomic where; /* what the thread does: says where it hangs */
	_Atomic bool done;
	uint64_t events;
};

struct verify {
	struct options opt;
	int sock;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct vqp qps[MAX_QPS];
	struct lane lanes[MAX_LANES];
	int nlanes;
	uint64_t start_ns;
	uint64_t stop_ns;
	uint64_t idle_from_ns, idle_to_ns;
	_Atomic bool paused;
	_Atomic bool stopping;
	_Atomic uint64_t async_events;
	uint64_t teardown_errors;
};

extern struct verify *verify_instance;

/* report.c: says why and ends the process; never returns. */
_Noreturn void verify_fail(const struct vqp *q, enum fail_reason reason, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void verify_summary(const struct verify *v, enum fail_reason reason, const char *text);
void verify_progress(const struct verify *v);
void verify_memory(void);

/* bytes.c */
uint64_t mix64(uint64_t x);
uint64_t hash_of(const struct vqp *q, int dir, uint64_t seq, uint32_t salt);
void bytes_fill(const struct vqp *q, void *to, size_t len, struct bytes_id id);
void bytes_check(const struct vqp *q, const char *what, const void *at, size_t len,
		 struct bytes_id id);
void poison_fill(void *to, size_t len);
void poison_check(const struct vqp *q, const char *what, const void *at, size_t len);
uint64_t now_ns(void);

/* options.c */
int options_parse(struct options *o, int argc, char **argv);

/* oob.c */
int oob_open(struct verify *v);
int oob_exchange(int sock, const void *mine, void *theirs, size_t len);

/* device.c */
void device_open(struct verify *v);
void device_connect(struct verify *v);
void device_close(struct verify *v);
void device_check_states(struct verify *v);

/* post.c */
struct request *batch_add(struct vqp *q);
void batch_post(struct vqp *q);
bool sq_room(const struct vqp *q, unsigned int n);
void recv_post(struct vqp *q, uint64_t seq, struct ibv_sge *sge, int nsge);
int sge_layout(const struct vqp *q, uint64_t hash, uint8_t *base, size_t len, struct ibv_sge *sge);
void sges_fill(struct vqp *q, const struct ibv_sge *sge, int nsge, struct bytes_id id);
void sges_check(struct vqp *q, const char *what, const struct ibv_sge *sge, int nsge, size_t len,
		struct bytes_id id);
void post_last(struct vqp *q);

/* complete.c */
struct vqp *vqp_of(struct lane *l, uint32_t qp_num);
void complete_one(struct lane *l, const struct completion *c);
void fifo_push(struct vqp *q, struct fifo *f, const struct expect *e);
bool vqp_done(const struct vqp *q);
bool vqp_may_post(const struct vqp *q);
bool vqp_shall_end(const struct vqp *q);
bool vqp_take_last(struct vqp *q, const struct completion *c);
bool errors_allowed(const struct vqp *q);

/* lane.c */
void *lane_run(void *arg);
bool lane_poll(struct lane *l);

/* atomics.c: atomics whose every result is known beforehand */
void atomic_request(struct vqp *q, struct request *r, uint64_t seq);
void atomic_check(struct vqp *q, const struct expect *e);
void atomic_verdict(struct vqp *q, const struct final_info *peer,
		    bool (*is_atomic)(const struct vqp *q, uint64_t seq));

/* memory of a QP, the same on both sides */
static inline size_t area_send(const struct vqp *q)
{
	return 0;
}

static inline size_t area_recv(const struct vqp *q)
{
	return area_send(q) + SLOTS * q->slot_len;
}

static inline size_t area_write(const struct vqp *q)
{
	return area_recv(q) + RQ_DEPTH * q->slot_len;
}

static inline size_t area_read(const struct vqp *q)
{
	return area_write(q) + SLOTS * q->slot_len;
}

static inline size_t area_static(const struct vqp *q)
{
	return area_read(q) + SLOTS * q->slot_len;
}

static inline size_t area_ctrl(const struct vqp *q)
{
	return area_static(q) + STATIC_LEN;
}

static inline size_t area_ctrl_src(const struct vqp *q)
{
	return area_ctrl(q) + CTRL_LEN;
}

static inline size_t area_total(const struct vqp *q)
{
	return area_ctrl_src(q) + CTRL_LEN;
}

static inline uint8_t *slot_at(const struct vqp *q, size_t area, uint64_t n, unsigned int slots)
{
	return q->mem + area + (n % slots) * q->slot_len;
}

/* Direction 0: client to server. */
static inline int dir_tx(void)
{
	return verify_instance->opt.server ? 1 : 0;
}

static inline int dir_rx(void)
{
	return !dir_tx();
}

/* Where control words live in the control area. */
enum { CTRL_GRANTS = 0, CTRL_CREDIT = 512, CTRL_COUNTERS = 1024 };

/* The immediate of a connection's last message has this bit; other immediates do not. */
#define IMM_LAST 0x80000000u

enum salt {
	SALT_DATA = 1,
	SALT_STATIC,
	SALT_SPEC,
	SALT_LAYOUT,
	SALT_RECV_LAYOUT,
	SALT_SIGNAL,
	SALT_IMM,
	SALT_BATCH,
	SALT_STYLE,
	SALT_ATOMIC,
	SALT_WR_ID
};

static inline uint32_t imm_of(const struct vqp *q, int dir, uint64_t seq)
{
	return (uint32_t)hash_of(q, dir, seq, SALT_IMM) & ~IMM_LAST;
}

extern const struct pattern_ops pattern_simple, pattern_sendrecv, pattern_read, pattern_atomic,
	pattern_mixed, pattern_fenced;
extern const struct pattern_ops *const pattern_table[PATTERN_COUNT];

#endif
