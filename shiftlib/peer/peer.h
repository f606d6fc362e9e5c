/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Instances at the other end, the control paths to them, and what is sent over these. */
#ifndef SHIFTLIB_PEER_PEER_H
#define SHIFTLIB_PEER_PEER_H

#include "shiftlib/base/keymap.h"
#include "shiftlib/base/list.h"
#include "shiftlib/base/table.h"
#include "shiftlib/base/timers.h"
#include "shiftlib/control/address.h"
#include "shiftlib/control/auth.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/core/gray.h"
#include "shiftlib/core/path_health.h"
#include "shiftlib/core/slow_path.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"

#define SH_MAX_PEER_PATHS 64

/* In a removed key: here the journal of memory keys begins. No NIC has that number. */
#define SH_KEY_BEGIN_NIC 0xff

/* One control path to a peer: from one of our NICs to one of its. Lives as long as the peer. */
struct sh_peer_path {
	struct sh_peer *peer;
	struct sh_nic *nic;
	uint8_t remote_nic;
	bool opening;
	struct sh_path *path;			  /* NULL: not open yet, or failed */
	uint32_t local_revision, remote_revision; /* of the addresses that it was opened with */
	struct sh_path_health health;
	struct sh_gray_trip trip; /* of pings: conn/gray.c, */
	struct sh_slow_path slow; /* conn/slow_path.c */
	struct {		  /* being found out */
		enum sh_path_need need;
		enum sh_path_work work;
		uint32_t looks; /* at connections, for completions */
	} look;
	bool pong_owed; /* there was no room for it */
	uint32_t pong_seq;
	bool told_up, told_steady;
	uint64_t sent;		   /* number of the last datagram, if they are signed */
	struct sh_wire_writer out; /* what connections say, until it leaves; buf NULL: nothing */
	bool out_states;	   /* some of it about a move */
	struct list_node out_link; /* then in sh.outs */
};

/* A NIC of a peer, as the KV or the peer itself told. */
struct sh_peer_nic {
	uint8_t number;
	uint32_t revision;	   /* 0: not known */
	struct sh_address address; /* qpn 0: not open there */
};

/* Of requests that were written for one NIC of a peer: by the NIC of the replica, rkey -> the replica's.
 * Made at first use. */
struct sh_peer_rkeys {
	struct sh_keymap *_Atomic to[SH_MAX_NICS];
};

/* Datagrams that did not count, and when that was last said. */
struct sh_refused {
	uint32_t n;
	uint64_t said_at;
};

/* An instance at the other end. Forgotten when it has had no connection for a while. A process may have
 * thousands: tables grow with what the peer has. */
struct sh_peer {
	struct sh_busy busy;
	struct list_node link;
	struct sh_timer beat; /* something is to be done for the health of its paths */
	uint64_t instance;
	uint32_t conns;	  /* whose peer it is */
	uint64_t rest_at; /* since when there is none */
	uint64_t
		ask_until; /* a path without work is doubted: all are pinged as if there were some */
	uint64_t dark_at;  /* its connections were told that no path has an answer; 0: one has */
	uint32_t n_paths, n_nics, next_path;
	struct sh_peer_path **paths;
	uint64_t paths_retry_at; /* some are not open */
	struct sh_peer_nic *nics;
	struct sh_peer_rkeys
		*_Atomic rkeys[SH_MAX_NICS]; /* by its default NIC, made at first use */
	uint32_t keys_heard;		     /* its journal: last sequence number applied */
	uint32_t keys_acked;		     /* our journal */
	uint64_t keys_resend_at, keys_interval;
	uint32_t keys_waiting; /* carriers that wait for its acknowledgement of keys */
	bool keys_silent;      /* sh_keys_wait has waited in vain, and nothing came since */
	uint32_t nics_acked;   /* our NICs: revisions that it knows */
	uint64_t nics_resend_at, nics_interval;
	uint64_t heard_at;
	uint64_t unanswered_said_at; /* time of the last log line about its silence; 0: none */
	uint32_t caps;		     /* SH_WIRE_CAPS of its build */
	uint8_t sl, traffic_class;   /* of its first connection: datagrams have them too */
	uint8_t minor;		     /* version of its datagrams; the major one is ours */
	uint32_t first
		[SC_MAX_PATHS]; /* its connections, by the path that they would go to: spread.c */
	uint8_t doubted;	/* paths whose NIC of its told a wrong expected PSN, as bits */
	struct sh_auth *auth;	/* NULL: the job has no secret, and datagrams are not signed */
	struct sh_refused refused;
};

struct sh_peers {
	struct list_node list;
	uint32_t n;
	struct sh_table by_instance;	       /* number of an instance -> peer */
	struct list_node outs;		       /* paths with something to send */
	uint32_t outs_held;		       /* somebody goes over many connections */
	uint64_t states_sent, state_datagrams; /* of moves; several in one datagram */
	uint64_t beat_at; /* next look at the work on all paths; 0: none is needed */
	struct sh_timers beats;
	struct sh_auths auths;
	struct sh_refused strangers; /* in the name of instances that we do not know */
	uint64_t refused[SH_REFUSALS];
	struct { /* journal of memory keys: what every peer must know */
		struct sh_wire_key *entries;
		uint32_t n, capacity;
		uint32_t before;  /* entry i has sequence number before + i + 1 */
		uint32_t live;	  /* keys that are valid now */
		uint32_t removed; /* number of the last entry that takes a key away */
	} keys;
};

extern struct sh_peers sh_peers;

struct sh_peer *sh_peer_get(uint64_t instance); /* made if new; NULL: no memory */
struct sh_peer *sh_peer_find(uint64_t instance);
bool sh_peers_sign(void); /* the job has a secret: what is not signed does not count */
/* What is known of that NIC; revision 0: nothing. Until more is learned. */
const struct sh_peer_nic *sh_peer_nic(const struct sh_peer *peer, uint8_t remote_nic);
/* Its address of that revision was heard of; old news is ignored. 0 or -ENOMEM. */
int sh_peer_learn(struct sh_peer *peer, uint8_t remote_nic, const struct sh_address *address,
		  uint32_t revision);
/*
 * Before its first path: datagrams to it get the service level and traffic class of that. Not on Ethernet,
 * where a class of their own keeps them answered while that of the data is paused.
 */
void sh_peer_serve(struct sh_peer *peer, const struct ibv_ah_attr *ah);
/* The control path between these NICs, opened as soon as can be. NULL: too many, or no memory. */
struct sh_peer_path *sh_peer_route(struct sh_peer *peer, struct sh_nic *nic, uint8_t remote_nic);
/* By number of the NIC there, then of that of the replica; NULL: none. Any thread, while it has the peer. */
static inline struct sh_keymap *sh_peer_keys(struct sh_peer *peer, uint8_t nic, uint8_t replica)
{
	struct sh_peer_rkeys *rkeys = atomic_load_explicit(&peer->rkeys[nic], memory_order_acquire);

	return rkeys ? atomic_load_explicit(&rkeys->to[replica], memory_order_acquire) : NULL;
}

struct sh_peer_path *sh_peer_path(struct sh_peer *peer, const struct sh_nic *nic,
				  uint8_t remote_nic); /* NULL: there is none */
/* Around the time in which a connection has that peer. */
void sh_peer_join(struct sh_peer *peer);
void sh_peer_leave(struct sh_peer *peer);
uint64_t sh_peer_next_timer(const struct sh_peer *peer);

/* room: bytes of a datagram that pass on this open path. */
size_t sh_peer_room(const struct sh_peer_path *path);
/* 0, or -errno as of sh_control_send(): it is lost. */
int sh_peer_send(struct sh_peer_path *path, const void *buf, size_t length);
/* Over some live paths, others each time. */
void sh_peer_send_any(struct sh_peer *peer, const void *buf, size_t length);

extern const struct sh_module sh_peers_module;

#endif
