/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The shell around the core: what the process has (objects), what SHIFT has on its behalf (NICs,
 * shadows, peers), and the one background thread that turns what happens into the core's events
 * and carries the core's actions out.
 *
 * One lock, sh.lock, guards every object below but where a field says otherwise. It is never taken
 * on the data path and never held over a verb that may block: such verbs run on the worker of their
 * NIC (worker.h), and an object with a job under way has jobs > 0 and is not freed before it is 0
 * (sh_wait_idle). Order: sh.lock before the engine's queue locks.
 */
#ifndef SHIFTLIB_SHELL_H
#define SHIFTLIB_SHELL_H

#include <pthread.h>
#include <stdatomic.h>
#include "kvclient/kv.h"
#include "providers/provider.h"
#include "shiftlib/admin/admin.h"
#include "shiftlib/facade/async.h"
#include "shiftlib/control/auth.h"
#include "shiftlib/backup/map.h"
#include "shiftlib/facade/comp_channel.h"
#include "shiftlib/base/config.h"
#include "shiftlib/control/control_qp.h"
#include "shiftlib/core/core.h"
#include "shiftlib/report/event.h"
#include "shiftlib/base/keymap.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/report/metrics.h"
#include "shiftlib/nic/netdev.h"
#include "shiftlib/shift.h"
#include "shiftlib/base/table.h"
#include "shiftlib/base/timers.h"
#include "shiftlib/base/util.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/base/worker.h"

#define SH_MAX_NICS	  32
#define SH_MAX_PEER_PATHS 64
#define SH_MAX_QUEUED	  16
#define SH_MAX_CARRIERS	  8 /* of one connection at a time: in use, to come, given up */

/* In a removed key: here the journal of memory keys begins. No NIC has that number. */
#define SH_KEY_BEGIN_NIC 0xff

/* What the background thread calls, lock held, when an fd is readable. */
struct sh_handler {
	void (*readable)(void *arg);
	void *arg;
};

/* Something that a worker's job may hold on to. Embedded first. */
struct sh_busy {
	uint32_t jobs;
};

enum sh_nic_state { SH_NIC_CLOSED, SH_NIC_OPENING, SH_NIC_OPEN, SH_NIC_FAILED };

/* An incarnation that died: closed when nothing that was made on it is left. */
struct sh_past_nic {
	struct sh_past_nic *next;
	uint32_t incarnation, holds;
	struct ibv_context *ctx;
	struct sp_dev *dev;
};

/* A NIC of this host and what SHIFT itself has open on it. Lives as long as the process. */
struct sh_nic {
	struct sh_busy busy;
	char name[64];
	uint8_t index; /* place in the device list: names the NIC in messages */
	enum sh_nic_state state;
	const char *why; /* FAILED: the reason */
	struct sh_worker *worker;
	/*
	 * What is open. Written on the NIC's worker with the lock held: its jobs read it without.
	 * A device that died and came back is opened anew as its next incarnation; what was made on
	 * an earlier one is dead.
	 */
	uint32_t incarnation;
	uint32_t holds; /* shadows and carriers on the present one */
	struct sh_past_nic *past;
	struct ibv_context *ctx; /* SHIFT's own: shadows and the control channel live here */
	struct sp_dev *dev;
	struct sh_control *control;
	int max_qp_wr,
		max_sge; /* of a queue pair; 0: not known. Read and written with the lock held */
	struct sh_address address;
	uint32_t revision; /* of the address: a later one of any NIC is higher (sh.nics_revision) */

	struct { /* the last one that was asked for; forgotten when the port changes */
		bool valid;
		uint8_t index;
		uint8_t gid[16];
		uint8_t kind; /* enum sh_gid_kind; 0: not known */
	} gid;

	bool port_down;
	bool link_lost; /* its network interface, which may say so before the port does */
	int ifindex;	/* of that; 0: none is watched */
	bool ifrunning; /* it had its carrier when last heard of */
	bool fatal;	/* dead, until it has been opened again */
	bool sick;	/* a command hangs or a carrier did not flush, until it obeys again */
	bool drained;	/* the operator's word: no traffic here if there is another way */
	bool asked;	/* a job that opens it or asks its port is under way */
	bool ask_again; /* the port changed meanwhile */
	struct sh_hang hang;
	enum sh_event_cause dead_by; /* fatal: of what */
	_Atomic uint64_t command_ns; /* that the last one took: see command.c; 0: none yet */
	uint64_t look_at;	     /* dead or sick: when to try again; 0: it is not */
	struct {		     /* by connections, since it was drained */
		uint32_t moved;
		uint64_t resubmitted, settled;
	} left;
	struct sh_away away[SC_MAX_PATHS]; /* by path: connections whose default NIC it is */
	struct { /* shadows there have made place for the application's own: see yield.c */
		_Atomic uint64_t until; /* none is made before; 0: they may */
		_Atomic bool all;	/* not only queue pairs */
		uint64_t interval;
	} yield;
	struct sh_handler control_handler, async_handler;
};

enum sh_shadow_state { SH_SHADOW_NONE, SH_SHADOW_QUEUED, SH_SHADOW_MADE, SH_SHADOW_FAILED };

/*
 * Shadows: what SHIFT has made of an object of the application in its own context of the NIC of path
 * k; of k = 0 too, as the application's own context may be dead when its NIC is back. Together they
 * are the replica k of an application's context. Each is of one incarnation of its NIC.
 */
struct sh_shadow_pd {
	enum sh_shadow_state state;
	_Atomic uint32_t incarnation;
	struct ibv_pd *_Atomic pd;
	_Atomic bool mr_failed; /* an MR could not be shadowed: what uses the PD cannot go there */
	uint32_t asked;		/* for all MRs, on that incarnation, if none failed since; 0: not */
	uint32_t yield_turn;
	bool doubtful;	      /* one could not once, and no standby was made since */
	struct list_node mrs; /* QUEUED ones, by their links there */
	bool replaying;	      /* a job takes them in turn */
};

struct sh_shadow_mr {
	struct list_node link; /* QUEUED: in the PD's list, or alone in a job's hands */
	enum sh_shadow_state state;
	uint32_t incarnation;
	struct ibv_mr *mr;
};

/* Carriers hold on to it: it outlives its place in the CQ when its NIC has died. */
struct sh_shadow_cq {
	uint32_t refs;
	struct sh_nic *nic;
	uint32_t incarnation;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* that of all shadow CQs of the facade there */
	struct sh_cq_feed feed;
	struct sp_cq_ring *ring; /* NULL: the engine has let go of it */
	bool holds;		 /* the incarnation */
};

/* An opened context of the application. */
struct sh_ctx {
	struct list_node link;
	struct ibv_context *ctx;
	struct sp_dev *dev; /* NULL: foreign */
	struct sh_nic *nic;
	struct sh_nic *path[SC_MAX_PATHS]; /* by path: 0 is nic, then its backups */
	uint32_t n_paths;
	bool replica[SC_MAX_PATHS]; /* wanted */
	struct sh_async *async;
	const char *why; /* foreign, or without a backup: the reason */
	struct sh_handler async_handler;
	bool death_masked;    /* of its NIC: the application was never told */
	bool port_err_masked; /* PORT_ERR was kept back: keep its PORT_ACTIVE back too */
	bool prepared;	      /* NICs opening: some RC QP was made */
	uint32_t n_self;      /* QPs that are connected to themselves */
	struct sh_keymap lkeys[SC_MAX_PATHS]; /* own lkey -> the replica's; lock-free readers */
	struct list_node pds, cqs, srqs;
	struct {
		bool valid;
		struct ibv_port_attr attr;
	} port[2]; /* last good answers, port 1.. */
};

struct sh_pd {
	struct sh_busy busy;
	struct list_node link; /* sh_ctx.pds */
	struct ibv_pd *pd;
	struct sh_ctx *ctx;
	struct sh_shadow_pd shadow[SC_MAX_PATHS];
	/* Memory of it is not shadowed: what uses it is not protected, while `alone` is not 0 or, with
	 * another reason, for good. */
	_Atomic bool unprotected;
	const char *why; /* set before */
	uint32_t alone;	 /* regions that only the application's NIC can have */
	struct list_node mrs, parents;
};

struct sh_parent {
	struct list_node link; /* sh_pd.parents */
	struct ibv_pd *real;
	struct sh_pd *pd;
};

struct sh_mr {
	struct sh_busy busy;
	struct list_node link; /* sh_pd.mrs */
	struct ibv_mr *mr;
	struct sh_pd *pd;
	void *addr;
	size_t length;
	uint64_t iova;
	unsigned int access;
	bool plain;	  /* reg_mr_iova2 was not used: iova = addr */
	bool placeholder; /* its NIC was dead: mr is ours */
	bool dmabuf;	  /* of the buffer behind fd, which is ours to close; addr is nothing */
	int fd;
	uint64_t offset;
	bool alone;   /* no other NIC can have it */
	bool leaving; /* being freed, while the lock is given up: no replay makes a shadow of it */
	struct sh_shadow_mr shadow[SC_MAX_PATHS];
};

struct sh_cq {
	struct sh_busy busy;
	struct list_node link; /* sh_ctx.cqs */
	struct ibv_cq *cq;
	struct sh_ctx *ctx;
	struct ibv_comp_channel *facade; /* NULL: none */
	struct ibv_comp_channel *real_channel;
	struct sh_cq_events events;
	bool ex;
	uint64_t wc_flags;
	int comp_vector;
	struct sp_cq *sp; /* NULL: not driven */
	bool overrun;	  /* it shows nothing any more */
	int cqe;	  /* what the application has asked for since its NIC is dead; or 0 */
	uint32_t qps, foreign_qps;
	uint32_t guarded;			   /* connections on it that may move */
	struct sh_shadow_cq *shadow[SC_MAX_PATHS]; /* the present ones */
};

/* SHIFT's own QP on a shared receive queue, which takes receives back: see reclaim.c. */
struct sh_reclaim {
	/* BROKEN: what it took is still being collected. BUSY: made or unmade, on the worker. */
	enum { SH_RECLAIM_NONE, SH_RECLAIM_BUSY, SH_RECLAIM_READY, SH_RECLAIM_BROKEN } state;
	uint64_t not_before; /* NONE: to be made; BROKEN: to be unmade */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct sp_reclaim *sp;
	uint64_t asked_at; /* receives are on their way; 0: none */
};

/* On a NIC of the paths. Its carriers hold on to it; so does its place, while it can be used. */
struct sh_shadow_srq {
	struct list_node link; /* sh_srq.shadows */
	uint32_t refs;
	struct sh_nic *nic;
	uint32_t incarnation;
	struct ibv_srq *srq;
	struct sp_srq_ring *ring;
	struct sh_reclaim reclaim;
};

/* A shared receive queue. Its receives are where its QPs are: see srq.c. */
struct sh_srq {
	struct sh_busy busy;
	struct list_node link; /* sh_ctx.srqs */
	struct ibv_srq *srq;
	struct sh_ctx *ctx;
	struct sh_pd *pd;
	struct ibv_srq_attr attr; /* as returned */
	struct sp_srq *sp;
	uint32_t qps;
	bool left; /* to the provider, for a QP that the engine does not drive */
	/* QPs of it that are being made, connected or destroyed: their NIC may take receives though
	 * the engine does not count them. */
	uint32_t pinned;
	_Atomic uint32_t pending;	 /* enum sh_srq_pending, from the data path */
	uint64_t look_at;		 /* again; 0: no need */
	uint64_t feed_at, feed_interval; /* some wait for a key; interval 0: none does */
	struct list_node shadows;
	struct sh_shadow_srq *shadow[SC_MAX_PATHS]; /* the present ones */
	/* Stands in for the application's own, which was emptied, under QPs made since. */
	struct sh_shadow_srq *own;
	uint64_t own_idle_since; /* the application's own has had no taker for so long; 0: it has */
	struct sh_reclaim reclaim; /* on the application's own */
};

/* One control path to a peer: from one of our NICs to one of its. Lives as long as the peer. */
struct sh_peer_path {
	struct sh_peer *peer;
	struct sh_nic *nic;
	uint8_t remote_nic;
	bool opening;
	struct sh_path *path;			  /* NULL: not open yet, or failed */
	uint32_t local_revision, remote_revision; /* of the addresses that it was opened with */
	struct sh_path_health health;
	enum sh_path_need need; /* being found out */
	bool told_up, told_steady;
	uint64_t sent;		   /* number of the last datagram, if they are signed */
	struct sh_wire_writer out; /* what connections say, until it leaves; buf NULL: nothing */
	bool out_states;	   /* some of it about a move */
	struct list_node out_link; /* then in sh.outs */
};

/* A NIC of a peer, as the KV or the peer itself told. */
struct sh_peer_nic {
	uint32_t revision;	   /* 0: not known */
	struct sh_address address; /* qpn 0: not open there */
};

/* Datagrams that did not count, and when that was last said. */
struct sh_refused {
	uint32_t n;
	uint64_t said_at;
};

/* An instance at the other end. Forgotten when it has had no connection for a while. */
struct sh_peer {
	struct sh_busy busy;
	struct list_node link;
	uint64_t instance;
	uint32_t conns;	  /* whose peer it is */
	uint64_t rest_at; /* since when there is none */
	uint64_t
		ask_until; /* a path without work is doubted: all are pinged as if there were some */
	uint32_t n_paths, next_path;
	struct sh_peer_path paths[SH_MAX_PEER_PATHS];
	uint64_t paths_retry_at; /* some are not open */
	struct sh_peer_nic nics[SH_MAX_NICS];
	/* By its default NIC and the NIC of the replica: rkey -> the replica's. Made at first use. */
	struct sh_keymap *_Atomic rkeys[SH_MAX_NICS][SH_MAX_NICS];
	uint32_t keys_heard;		/* its journal: last sequence number applied */
	uint32_t keys_sent, keys_acked; /* our journal */
	uint64_t keys_resend_at, keys_interval;
	uint32_t keys_waiting; /* carriers that wait for its acknowledgement of keys */
	bool keys_silent;      /* sh_key_wait has waited in vain, and nothing came since */
	uint32_t nics_acked;   /* our NICs: revisions that it knows */
	uint64_t nics_resend_at, nics_interval;
	uint64_t heard_at;
	uint32_t caps;	      /* SH_WIRE_CAPS of its build */
	uint8_t minor;	      /* version of its datagrams; the major one is ours */
	struct sh_auth *auth; /* NULL: the job has no secret, and datagrams are not signed */
	struct sh_refused refused;
};

enum sh_level { SH_FOREIGN, SH_DRIVEN, SH_PROTECTED };

enum sh_pending {
	SH_PENDING_ERROR = 1,
	SH_PENDING_KEY = 2,
	SH_PENDING_PROGRESS = 4,
	SH_PENDING_APP_ERROR = 8, /* withheld, though the application's own */
	SH_PENDING_GATED = 16,
};

enum sh_quiesce {
	SH_QUIESCE_NONE,
	SH_QUIESCE_COMMAND,  /* the command to ERR is under way */
	SH_QUIESCE_FLUSHING, /* it returned; flush completions are awaited */
	SH_QUIESCE_SICK,     /* they do not come: said so, and looked at now and then */
	SH_QUIESCE_DONE,
};

/*
 * A real QP that carries a connection's traffic, did, or may. Slot 0 is the application's own. The
 * QP is made after its slot was taken; a slot that was given up meanwhile tells its maker so.
 */
struct sh_carrier {
	struct sh_nic *nic; /* NULL: the slot is free */
	uint32_t epoch;
	uint8_t path;
	uint32_t incarnation; /* of the NIC when the QP was made */
	struct ibv_qp *qp;    /* real; NULL: being made */
	struct sp_carrier *sp;
	struct sh_shadow_cq *scq, *rcq; /* NULL: the application's own */
	struct sh_shadow_srq *srq;	/* NULL: likewise, or there is none */
	uint32_t psn;
	bool rts; /* else RTR: the application's own QP is no further, and cannot send either */
	bool keys_wait; /* made, but the peer has not heard all keys of its replica */
	uint32_t keys;	/* journal number that it must have heard */
	struct sc_address address;
	/* quiesce: the command to ERR was given, has returned, said that the device is gone */
	bool to_error, in_error, lost;
};

/* SHIFT's own QP that is connected to itself and READs there: see flush.c. */
struct sh_loopback_reader {
	enum { SH_READER_NONE, SH_READER_MAKING, SH_READER_READY } state;
	bool own; /* in the application's context; else holds on to the NIC's incarnation */
	bool asked, failed;
	uint32_t incarnation;
	struct ibv_pd *pd; /* NULL: the replica's, or the application's */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	void *scratch;
};

/* A driven QP; with a connection once it is connected. */
struct sh_qp {
	struct sh_busy busy;
	struct list_node link; /* sh.qps */
	struct ibv_qp *qp;
	struct sh_ctx *ctx;
	struct sh_pd *pd;
	struct sh_cq *scq, *rcq;
	struct sh_srq *srq;	       /* NULL: none that is driven */
	struct sh_shadow_srq *own_srq; /* its own QP was made on this; NULL: the application's */
	bool last_receive_masked;      /* LAST_WQE_REACHED of its own QP was kept back */
	struct sp_qp *sp;
	struct ibv_qp_init_attr_ex init; /* as the application passed it */
	struct ibv_qp_cap caps;		 /* as returned */
	struct ibv_cq *private_cq[2];	 /* foreign QP on driven CQs */
	enum sh_level level;
	const char *why;
	bool refused; /* not made through SHIFT, and cannot share its receive queue */

	/* captured from the application's own modify calls */
	struct ibv_qp_attr attr;
	int attr_mask;
	enum ibv_qp_state state; /* that the application believes in */

	/* the connection; conn_id 0: none */
	uint32_t conn_id, nonce;
	bool closed;
	bool guarded; /* core.guarded, as it was counted */
	bool moving;  /* its move has begun and not ended, as it was counted */
	struct sc_conn core;
	struct {
		uint64_t start_at; /* the background thread begins, not the application's */
		uint64_t next_at, interval, since, put_again_at, asked_at;
		uint64_t look_at;	/* when the peer's record is looked for */
		uint64_t news_interval; /* no sooner is it looked for at a hint */
		uint32_t peer_nonce, peer_conn;
		struct list_node line; /* in sh.intros.line, or alone */
		bool queued;	       /* in line, or being asked about */
		bool published, heard, told;
		bool no_store;	  /* it did not answer when it was asked last */
		bool refused;	  /* it was said that its peer's record is wrong */
		bool gid_unknown; /* the NIC does not tell what the application connected from */
	} intro;
	struct sc_event events[SH_MAX_QUEUED]; /* of actions that answer at once */
	uint32_t n_events;
	bool stepping;
	uint8_t own_gid[16]; /* that the application connected from */
	bool own_gid_valid;
	uint8_t own_gid_kind;	      /* enum sh_gid_kind; 0: not known */
	struct sh_peer *_Atomic peer; /* read on the data path too, without the lock */
	/* By path, both written before peer: the peer's NIC, and the control path to it. */
	uint8_t peer_nics[SC_MAX_PATHS];
	struct sh_peer_path *routes[SC_MAX_PATHS];
	uint32_t n_paths;	     /* that both ends have */
	uint8_t up, steady, drained; /* masks of paths that the core was told */
	struct sh_carrier carriers[SH_MAX_CARRIERS];
	_Atomic uint64_t carrier_paths[SH_MAX_CARRIERS]; /* see sh_carrier_path: on the data path */
	/* Sends lie in `active`, receives in `receiving` (another one in mid-move); never NULL. */
	struct sh_carrier *active, *receiving;
	struct sh_carrier *standby; /* the last one made, until it is in use; NULL: none */
	const char *standby_why;    /* the last one failed */
	uint32_t rts_jobs; /* carriers on their way to RTS: nothing may be rung on them yet */
	struct {
		enum sh_quiesce phase;
		uint32_t epoch; /* carriers before it */
		uint32_t keys;	/* the last of our journal when it began */
		uint64_t since, next_at, interval;
	} quiesce;
	struct { /* sends of which no completion tells: the last one, and when */
		uint32_t number;
		uint64_t since;
	} untold;
	struct {		/* while the path in use is silent: does the work make progress? */
		uint64_t since; /* the last of it, as far as was looked; 0: not silent */
		uint64_t completions;
		bool told; /* it does not */
	} silence;
	struct {		 /* ordered switch */
		uint32_t number; /* 0: none */
		bool laid;
		uint64_t since, next_at, interval;
	} fence;
	struct {	      /* of one that is connected to itself */
		bool counted; /* in its context's n_self */
		bool shut;    /* its sends wait until other NICs have read */
		uint32_t n;   /* so many of them wait for those of `asked`, by path */
		uint8_t asked;
		uint64_t next_at;
		struct sh_loopback_reader readers[SC_MAX_PATHS];
	} loopback;
	struct {
		enum ibv_wc_status status;
		uint32_t vendor_err;
		uint32_t delivered; /* by settle(), when it forbade the rest */
	} error;
	struct sh_timer timer;	       /* in sh.timers: the next thing of it that needs the clock */
	struct list_node touched_link; /* in sh.touched: its timer may be another by now */
	bool touched;
	uint64_t publish_at, publish_since; /* withheld for a key that is not known yet */

	/* mailbox of the data path: lock-free */
	_Atomic uint32_t pending;
	_Atomic uint32_t error_epoch, error_status, error_vendor, error_withheld;
	_Atomic uint32_t app_error_status, app_error_vendor;
	_Atomic uint32_t progress_epoch; /* the last carrier but 0 that a send completed on */
	_Atomic uint64_t error_ns, progress_ns;
	struct sh_qp *_Atomic mail_next;

	struct { /* of all its moves */
		uint32_t moves;
		uint64_t resubmitted, resent_bytes, settled;
	} totals;
	uint8_t away_path;	 /* on which it is counted in its NIC's away; 0: on none */
	uint64_t settled_before; /* the last time that retries were not answered */
	struct sh_qp_incident incident;
	struct sh_move *move; /* figures of the move under way or of the last one */
};

/* Figures of one move, kept for status and SHIFT_STATS. */
struct sh_move {
	struct list_node link;
	uint32_t qpn;
	const char *reason;
	char from[64], to[64];
	uint64_t error_ns, settled_ns, first_completion_ns;
	uint32_t resubmitted, settled, published;
	bool ended;   /* by errors instead of completions */
	bool ordered; /* by fences: nothing was outstanding */
	uint8_t path; /* that it led to */
};

/* What a QP was when it was destroyed, for SHIFT_STATS. */
struct sh_connection {
	struct list_node link;
	uint32_t qpn;
	enum sh_level level;
	const char *why;
};

struct sh_shell {
	pthread_mutex_t lock;
	pthread_cond_t idle; /* some busy.jobs became 0 */
	/* Around the distribution's list of devices, whose lock a child must not inherit from one of
	 * our threads. Behind lock. */
	pthread_mutex_t devices_lock;
	const struct shift_real *real;
	struct sh_config config;
	bool enabled, started, stopping;
	uint64_t instance;
	pthread_t thread;
	int epoll_fd, mail_fd, timer_fd;
	uint64_t
		armed_at; /* what the thread sleeps for; 1: it does not, and arms anew before it does */
	_Atomic bool kicked; /* mail_fd was written to, and the thread has not looked since */
	struct sh_qp *_Atomic mail; /* stack of QPs with pending bits, pushed by the data path */

	struct sh_nic nics[SH_MAX_NICS];
	uint32_t n_nics;
	uint32_t nics_revision; /* the highest */
	bool nics_known;
	struct backup_map backup_map;

	struct list_node ctxs, dead_ctxs, peers, moves, ended, qps;
	struct sh_timers timers; /* of connections; room for all of them */
	struct list_node touched;
	struct list_node outs;		       /* paths with something to send */
	uint32_t outs_held;		       /* somebody goes over many connections */
	uint64_t states_sent, state_datagrams; /* of moves; several in one datagram */
	uint64_t audit_at;		       /* next look whether somebody forgot to touch */
	uint32_t moving,
		faulted; /* connections in a move; and those that are told of a fault now */
	uint32_t n_moves, n_ended;
	struct sh_busy deregs; /* shadows of regions that are being deregistered */
	struct sh_table by_pd, by_mr, by_cq, by_qp, by_srq; /* pointer -> object */
	struct sh_table by_parent;			    /* parent domain -> struct sh_parent */
	struct sh_table by_instance;			    /* number of an instance -> peer */
	struct sh_qp **conns;				    /* by conn_id; [0] unused */
	uint32_t n_conns, next_conn;
	uint32_t nonces[64], n_nonces; /* for connections to come: many by one system call */

	struct { /* journal of memory keys: what every peer must know */
		struct sh_wire_key *entries;
		uint32_t n, capacity;
		uint32_t before;  /* entry i has sequence number before + i + 1 */
		uint32_t live;	  /* keys that are valid now */
		uint32_t removed; /* number of the last entry that takes a key away */
	} keys;

	struct sh_auths auths;
	struct sh_refused strangers; /* in the name of instances that we do not know */
	uint64_t refused[SH_REFUSALS];

	struct kv *kv;
	struct sh_worker *kv_worker;
	struct {
		struct sh_job job;	      /* takes all that is in line */
		bool running;		      /* it will look at the line again */
		struct list_node line;	      /* connections */
		struct list_node withdrawals; /* of connections that have ended */
		uint32_t contacts;	      /* with the store, when it was last asked */
		char prefix[KV_PREFIX_MAX];   /* of all keys; empty: not found out yet */
	} intros;
	bool kv_said;
	uint64_t watch_at;
	uint32_t watch_pass;
	uint32_t guarded; /* connections that may move */
	uint64_t beat_at; /* next look at the paths' health; 0: none is needed */
	bool silent;	  /* some path was, at the last look */
	struct sh_netdev_monitor *netdevs;
	struct sh_handler netdev_handler;
};

extern struct sh_shell sh;

/* shell.c */
int sh_start(void); /* lock held: starts the background thread at first use */
void sh_kick(void); /* makes the background thread look at its timers again */
/* Lock held: it looks at the latest then (0: never), or when a timer of the connection, of its peer or of
 * the watch is due. Its alarm is set by the caller: to wake it up only for that costs both of them more. */
void sh_wake_at(uint64_t at);
void sh_wake_for(struct sh_qp *qp);
void sh_wait_idle(struct sh_busy *busy); /* lock held; waits until no job holds the object */
void sh_job_begin(struct sh_busy *busy); /* lock held */
void sh_job_end(struct sh_busy *busy);	 /* lock held */
/* The lock, in a job that is not urgent: whoever waits for it is. */
void sh_job_lock(void);
void sh_job_unlock(void);
void sh_mailbox_read(void); /* lock held: handle what the data path reported */
int sh_loop_add(int fd, struct sh_handler *handler);
void sh_loop_remove(int fd);

/* clock.c: lock held */
void sh_conn_touch(struct sh_qp *qp);	/* its next instant may be another by now */
void sh_conn_untouch(struct sh_qp *qp); /* it has none any more: it is freed */
uint64_t sh_clock_next(void);		/* of all connections; 0: none */
void sh_clock_run(uint64_t now);

/* nic.c */
int sh_nics_load(void); /* lock held: list of devices and the backup map, once */
struct sh_nic *sh_nic_by_name(const char *name);
void sh_nic_open(struct sh_nic *nic);	      /* lock held: in the background */
bool sh_nic_usable(const struct sh_nic *nic); /* for control messages */
bool sh_nic_up(const struct sh_nic *nic);     /* for traffic: it obeys, too */
void sh_nic_sick(struct sh_nic *nic);
/* Around the life of what is made on an incarnation; lock held. */
void sh_nic_hold(struct sh_nic *nic, uint32_t incarnation);
void sh_nic_release(struct sh_nic *nic, uint32_t incarnation);
void sh_nic_obeys(struct sh_nic *nic); /* it is not sick any more */
void sh_nics_timer(uint64_t now);
uint64_t sh_nics_next_timer(void);
void sh_nic_drain(struct sh_nic *nic, bool on); /* the operator's order */
void sh_nic_ask(struct sh_nic *nic); /* a command that does no harm; it is told of the answer */
void sh_nic_link(struct sh_nic *nic, bool running);

/* watch.c: faults that raise no event */
void sh_detector_path(struct sh_peer_path *path); /* made */
bool sh_detector_up(struct sh_peer_path *path);	  /* now, for traffic */
bool sh_detector_steady(struct sh_peer_path *path);
void sh_detector_soon(void); /* something has changed: the background thread looks */
void sh_detector_ping(struct sh_peer *peer, struct sh_peer_path *path,
		      const struct sh_wire_ping *ping);
void sh_detector_pong(struct sh_peer *peer, struct sh_peer_path *path,
		      const struct sh_wire_ping *ping);
void sh_detector_run(uint64_t now);
void sh_detector_blame(struct sh_qp *qp, uint32_t epoch); /* its carrier ran out of retries */
void sh_detector_netdev(struct sh_nic *nic);		  /* the NIC is open */

/* route.c: the paths of connections, as the core is told of them */
void sh_paths_changed(struct sh_qp *qp);
void sh_paths_changed_nic(const struct sh_nic *nic);
void sh_paths_changed_peer(const struct sh_peer *peer);
/* A carrier died: FAULT if the connection uses it or moves to it, else STANDBY_LOST. */
void sh_carrier_fault(struct sh_qp *qp, const struct sh_carrier *carrier, enum sc_reason reason);

/* context.c */
struct sh_ctx *sh_ctx_find(struct ibv_context *context);
void sh_ctx_prepare(struct sh_ctx *ctx); /* first RC QP: open NICs, replay what was recorded */
bool sh_ctx_masked(const struct sh_ctx *ctx);
bool sh_ctx_death_masked(const struct sh_ctx *ctx, bool gone);
bool sh_device_gone(struct ibv_context *context); /* it is asked: lock not held */
/* What a destroy on this context answers: a NIC whose death is masked has nothing left to destroy. */
int sh_ctx_destroy_result(struct ibv_context *context, int ret);

/* replica.c: lock held; what has to be made is made in the background */
void sh_replica_want(struct sh_ctx *ctx, uint8_t path);
bool sh_pd_wanted(const struct sh_pd *pd, uint8_t path);
void sh_pd_replay(struct sh_pd *pd, uint8_t path);
void sh_pd_replay_give_up(struct sh_pd *pd, uint8_t path); /* regions that stand in line */
void sh_pd_lose_path(struct sh_pd *pd, uint8_t path);	   /* what uses it cannot go there */
void sh_mr_replay(struct sh_mr *mr, uint8_t path);
void sh_mr_replay_never(struct sh_mr *mr);
/* It has no key any more, and is the caller's to deregister. NULL: there is none. */
struct ibv_mr *sh_mr_take_shadow(struct sh_mr *mr, uint8_t path);
bool sh_pd_shadowed(const struct sh_pd *pd, uint8_t path); /* on the NIC's worker; no lock */

/* memory.c */
/* placeholder.c; lock held: a region as requested, with a key that no other has. NULL: no memory. */
struct ibv_mr *sh_mr_placeholder(struct ibv_pd *pd, const struct sh_mr *request);
/* Lock held. Refuses: standbys on that path cannot be made, as far as is known. Queued: its replica
 * there, of this incarnation, is made or in line. */
bool sh_pd_refuses(const struct sh_pd *pd, uint8_t path);
bool sh_pd_queued(const struct sh_pd *pd, uint8_t path);
struct sh_pd *sh_pd_find(struct ibv_pd *pd); /* also by a parent domain; NULL: not known */

/* parent.c */
void sh_parents_forget(struct sh_pd *pd); /* lock held */
int sh_parent_destroy(
	struct ibv_pd *real); /* as ibv_dealloc_pd(); of any that memory.c does not know */

/* Of a context that is closed with objects on it; lock held, given up meanwhile. The QPs first. */
void sh_qp_forget(struct sh_qp *qp);
void sh_cq_forget(struct sh_cq *cq);
void sh_pd_forget(struct sh_pd *pd);

/* Lock held, given up meanwhile; on the path's worker, and nothing uses it there. How many went. */
uint32_t sh_pd_yield(struct sh_pd *pd, uint8_t path);

/* yield.c: shadows make place where the application's own call finds none */
enum sh_yield_step {
	SH_YIELD_SOME,	/* a few queue pairs on the NIC of the call */
	SH_YIELD_NIC,	/* all that is idle there */
	SH_YIELD_ALL,	/* on every NIC: locked memory counts for the process */
	SH_YIELD_AGAIN, /* the same: something may have come back meanwhile */
	SH_YIELD_NO_MORE,
};
struct sh_yield {
	struct ibv_context *context; /* of the call */
	enum sh_yield_step step;     /* with which it begins */
};
/* The call has just failed. True: something was given back, make it again; else errno is as it was.
 * Lock not held. */
bool sh_yield(struct sh_yield *yield);
bool sh_yields(const struct sh_nic *nic); /* no standby is made there now; any thread */
bool sh_yields_memory(const struct sh_nic *nic);
void sh_yield_end(struct sh_nic *nic); /* traffic needs it */
extern const char sh_yield_why[];

/* cq.c */
/* On a context of the application, for it; lock not held. */
struct ibv_cq *sh_cq_create(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *real_channel, int comp_vector);
int sh_cq_drive(struct sh_cq *cq);
/* On the worker of the path's NIC, lock NOT held. The QP that it serves keeps the CQ alive. */
int sh_cq_shadow_make(struct sh_cq *cq, uint8_t path);
struct sh_shadow_cq *sh_cq_shadow_get(struct sh_cq *cq,
				      uint8_t path);		      /* lock held: for a carrier */
void sh_cq_shadow_put(struct sh_cq *cq, struct sh_shadow_cq *shadow); /* lock given up meanwhile */

/* srq.c */
struct sh_srq *sh_srq_of(const struct ibv_srq *srq);
struct sh_srq *sh_srq_driven(const struct ibv_srq *srq); /* NULL also if it was left */
/* What a new QP of it is made with: the application's own, or what stands in for it. NULL: errno.
 * Lock given up meanwhile. */
struct ibv_srq *sh_srq_for_qp(struct sh_srq *srq, struct sh_shadow_srq **hold);
int sh_srq_shadow_make(struct sh_srq *srq, uint8_t path); /* as sh_cq_shadow_make */
struct sh_shadow_srq *sh_srq_shadow_get(struct sh_srq *srq, uint8_t path);
void sh_srq_shadow_put(struct sh_srq *srq, struct sh_shadow_srq *shadow); /* as of a CQ */
/* Can the application's own QP be connected? Not if its queue has given its receives away. */
bool sh_srq_connectable(struct sh_qp *qp);
bool sh_srq_shadow_usable(const struct sh_shadow_srq *shadow);
/* A QP that the engine does not drive comes on it: it is left to the provider, if it still can be. */
int sh_srq_leave(struct sh_srq *srq);
void sh_srq_look(struct sh_srq *srq); /* a carrier has left: what nobody takes goes elsewhere */
void sh_srq_keys_came(struct sh_ctx *ctx); /* receives may wait for them */
void sh_srq_run(uint64_t now);
uint64_t sh_srq_next_timer(void);
/* IBV_EVENT_QP_LAST_WQE_REACHED. True: the application must not see it (now). */
bool sh_srq_last_receive(struct sh_qp *qp, const struct sh_carrier *carrier);
void sh_srq_ended(struct sh_qp *qp); /* it got its errors: and that event, if it was kept back */
void sh_srq_forget(struct sh_srq *srq);

/* reclaim.c: receives that one NIC has too many of, for another that has too few. Lock held. */
void sh_reclaim_run(struct sh_srq *srq, uint64_t now);
void sh_reclaim_forget(struct sh_reclaim *reclaim);  /* the engine lets go of it */
void sh_reclaim_destroy(struct sh_reclaim *reclaim); /* then; lock not held */
extern const char sh_reclaim_mark; /* its QPs' context, as asynchronous events show it */
void sh_srq_cb_stuck(void *srq);
void sh_srq_cb_limit(void *srq);
int sh_srq_cb_lkey(void *srq, uint8_t path, uint32_t key, uint32_t *out);

/* conn.c: connections: events to the core, actions carried out */
int sh_conn_new(struct sh_qp *qp);
void sh_conn_close(struct sh_qp *qp); /* lock held (given up meanwhile): no connection after it */
void sh_conn_event(struct sh_qp *qp, const struct sc_event *event);
void sh_conn_simple(struct sh_qp *qp, enum sc_event_type type, enum sc_reason reason);
/* About the carrier, or the ordered switch, of that number. */
void sh_conn_about(struct sh_qp *qp, enum sc_event_type type, enum sc_reason reason,
		   uint32_t epoch);
void sh_conn_timer(struct sh_qp *qp, uint64_t now);
uint64_t sh_conn_next_timer(const struct sh_qp *qp); /* 0: none */
bool sh_conn_hands_off(struct sh_qp *qp);
void sh_conn_pending(struct sh_qp *qp, uint32_t pending);
/* Why it is at its level, as precisely as is known now. A constant. */
const char *sh_conn_why(const struct sh_qp *qp);
void sh_conn_level(struct sh_qp *qp, enum sh_level level, const char *why);
extern const struct sp_callbacks sh_callbacks;

/* move.c: the actions of a move */
void sh_move_quiesce(struct sh_qp *qp, uint32_t epoch);
void sh_move_recount(struct sh_qp *qp);
void sh_move_seal(struct sh_qp *qp);
void sh_move_nic_reopened(const struct sh_nic *nic);
void sh_move_collect(struct sh_qp *qp, uint64_t now);
void sh_move_lay(struct sh_qp *qp, uint32_t epoch);
void sh_move_settle(struct sh_qp *qp, uint32_t epoch, uint32_t peer_count);
void sh_move_fail(struct sh_qp *qp, enum sc_reason reason);
void sh_move_key_missing(struct sh_qp *qp);
void sh_move_publish(struct sh_qp *qp, uint64_t now);
uint64_t sh_move_next_timer(const struct sh_qp *qp);
void sh_move_timer(struct sh_qp *qp, uint64_t now);

/* flush.c: READs of QPs that are connected to themselves, on every NIC that receives */
void sh_loopback_connected(struct sh_qp *qp);			/* any QP */
void sh_loopback_receive(const struct sh_qp *qp, uint8_t path); /* before it receives there */
void sh_loopback_move(struct sh_qp *qp, uint8_t path);		/* before it reads there */
void sh_loopback_run(struct sh_qp *self, uint64_t now);
void sh_loopback_forget(struct sh_qp *self); /* what waits runs */
void sh_loopback_drop(struct sh_qp *qp);     /* lock given up meanwhile; the connection is closed */

/* fence.c: the ordered switch */
void sh_fence_lay(struct sh_qp *qp, uint32_t number);
void sh_fence_lift(struct sh_qp *qp);
void sh_fence_forget(struct sh_qp *qp); /* the connection leaves, or ends */
void sh_fence_look(struct sh_qp *qp, uint64_t now);

/* standby.c: carriers made ahead */
void sh_standby_make(struct sh_qp *qp, uint32_t epoch, uint8_t path);
void sh_standby_connect(struct sh_qp *qp, uint32_t epoch, const struct sc_address *peer);
void sh_standby_keys_heard(struct sh_qp *qp); /* the peer has acknowledged more of our keys */

/* carrier.c: the real QPs of a connection */
void sh_carriers_init(struct sh_qp *qp, struct ibv_qp *real);
/* The path of the carrier of that epoch, or -ENOENT; on the data path, lock-free. */
int sh_carrier_path(struct sh_qp *qp, uint32_t epoch);
struct sh_carrier *sh_carrier_find(struct sh_qp *qp, uint32_t epoch);
struct sh_carrier *sh_carrier_new(struct sh_qp *qp, uint32_t epoch, uint8_t path);
bool sh_carrier_dead(const struct sh_carrier *carrier); /* nothing it says or does can be trusted */
void sh_carrier_drop(struct sh_qp *qp, uint32_t epoch); /* in the background */
void sh_carriers_drop_old(struct sh_qp *qp, uint32_t epoch); /* those before it, not the first */
/* A QP of a slot that was given up while it was made. */
void sh_carrier_destroy(struct sh_qp *qp, struct sh_nic *nic, struct ibv_qp *real);
int sh_carrier_to_rts(struct ibv_qp *real, const struct ibv_qp_attr *app, uint32_t psn);
/* A QP of SHIFT's own, with the limits, times and rights of attr, on the worker of its NIC. */
int sh_connect_to_itself(struct ibv_qp *real, const struct sh_address *own,
			 const struct ibv_qp_attr *attr);
bool sh_self_connected(const struct sh_qp *qp); /* the application's own is */
/* The application went to RTS, maybe after its carriers were connected: they follow. */
void sh_carriers_to_rts(struct sh_qp *qp);
void sh_carriers_wait_rts(struct sh_qp *qp); /* lock given up meanwhile */
/* Destroys all carriers but the application's own QP; lock given up meanwhile. driven: the engine
 * still knows them (after a RESET); else it has forgotten the QP. */
void sh_carriers_drop(struct sh_qp *qp, bool driven);

/* intro.c: the KV */
void sh_intro_start(struct sh_qp *qp);
void sh_intro_timer(struct sh_qp *qp);
void sh_intro_ready(struct sh_qp *qp);
void sh_intro_withdraw(struct sh_qp *qp);
void sh_intro_news(struct sh_qp *qp); /* lock held, as all of these */

/* peer.c */
struct sh_peer *sh_peer_get(uint64_t instance); /* made if new; NULL: no memory */
struct sh_peer *sh_peer_find(uint64_t instance);
bool sh_peers_sign(void); /* the job has a secret: what is not signed does not count */
/* Its address of that revision was heard of; old news is ignored. */
void sh_peer_learn(struct sh_peer *peer, uint8_t remote_nic, const struct sh_address *address,
		   uint32_t revision);
/* The control path between these NICs, opened as soon as can be. NULL: too many. */
struct sh_peer_path *sh_peer_route(struct sh_peer *peer, struct sh_nic *nic, uint8_t remote_nic);
/* The NIC has a new address: paths that lead from it are opened anew. */
void sh_peers_nic_changed(struct sh_nic *nic);
void sh_peers_nic_closed(struct sh_nic *nic);		  /* its control channel goes: close them */
void sh_peer_use(struct sh_qp *qp, struct sh_peer *peer); /* sets qp->peer; NULL: none any more */
void sh_peers_forget(uint64_t now);
/* Over the standby's own path, or over every live one. */
void sh_peer_send_standby(struct sh_qp *qp, const struct sc_msg_standby *standby, bool everywhere);
void sh_peer_send_state(struct sh_qp *qp, const struct sc_msg_state *state);
/* Around work on many connections, whose messages go together; they nest. Lock held all the while. */
void sh_peers_hold(void);
void sh_peers_release(void);
void sh_peers_send_out(void); /* what was left behind leaves */
void sh_peers_send_soon(void);
/* room: bytes of a datagram that pass on this open path. */
size_t sh_peer_room(const struct sh_peer_path *path);
void sh_peer_send(struct sh_peer_path *path, const void *buf, size_t length);
void sh_peer_received(void *nic, const void *buf, size_t len);
void sh_peer_timer(struct sh_peer *peer, uint64_t now);
uint64_t sh_peer_next_timer(const struct sh_peer *peer);

/* keys.c: memory keys. What is told of ours, and what peers have said. */
void sh_peer_ask_keys(struct sh_peer *peer);
struct sh_keymap *sh_peer_rkeys(struct sh_peer *peer, uint8_t nic, uint8_t replica);
void sh_key_add(struct sh_mr *mr, uint8_t path);
void sh_key_remove(struct sh_mr *mr, uint8_t path);
uint32_t sh_keys_last(void); /* number of the last entry of the journal */
/* Behind the registration of a key that another region may have had. Lock given up meanwhile. */
void sh_key_wait(uint32_t rkey);

/* admin_answer.c: names; lock held */
const char *sh_level_name(enum sh_level level);
const char *sh_nic_state_name(enum sh_nic_state state);
const char *sh_kv_state(void);

/* admin_metrics.c: its traffic runs on that path from now on; 0 also when it ends. Lock held. */
void sh_metrics_path(struct sh_qp *qp, uint8_t path);

/* stats.c */
struct sh_move *sh_stats_move_begin(struct sh_qp *qp, enum sc_reason reason);
void sh_stats_settled(struct sh_qp *qp, const struct sp_settled *settled); /* before it is there */
void sh_stats_keep(const struct sh_qp *qp);
void sh_stats_write(void);

#endif
