/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Peers: instances at the other end, the control paths to them, and datagrams over these. */
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

/* NIC number in a removed key that marks a new beginning of the journal. No NIC has that number. */
#define SH_KEY_BEGIN_NIC 0xff

/* A control path to a peer, from one of our NICs to one of its. Lives as long as the peer. */
struct sh_peer_path {
	struct sh_peer *peer;
	struct sh_nic *nic;
	uint8_t remote_nic;
	bool opening;
	struct sh_path *path;			  /* NULL: not open yet, or failed */
	uint32_t local_revision, remote_revision; /* revisions of its addresses when opened */
	struct sh_path_health health;
	struct sh_gray_trip trip; /* round trips of pings: conn/watch/gray.c, */
	struct sh_slow_path slow; /* conn/watch/slow_path.c */
	struct {		  /* state of the present look */
		enum sh_path_need need;
		enum sh_path_work work;
		uint32_t looks; /* looks at connections, for completions */
	} look;
	bool pong_owed; /* a pong found no room */
	uint32_t pong_seq;
	bool told_up, told_steady;
	uint64_t sent;		   /* number of the last datagram, if they are signed */
	struct sh_wire_writer out; /* messages of connections until they leave; buf NULL: none */
	bool out_states;	   /* some messages are about moves */
	struct list_node out_link; /* place in sh_peers.outs while there are messages */
};

/* True if the peer answers over it. One ping that is on its way says nothing. NULL: no path. */
static inline bool sh_peer_path_answers(const struct sh_peer_path *path)
{
	return path && !sh_path_dark_since(&path->health);
}

/* A NIC of a peer, as told by the KV or the peer itself. */
struct sh_peer_nic {
	uint8_t number;
	uint32_t revision;	   /* 0: not known */
	struct sh_address address; /* qpn 0: not open there */
};

/*
 * Keys of requests written for one NIC of a peer: by the NIC of the replica, rkey -> the replica's
 * rkey. Made at first use.
 */
struct sh_peer_rkeys {
	struct sh_keymap *_Atomic to[SH_MAX_NICS];
};

/* Number of datagrams that did not count, and time of the last log line about them. */
struct sh_refused {
	uint32_t n;
	uint64_t said_at;
};

/*
 * An instance at the other end. Forgotten when it has had no connection for a while. A process may
 * have thousands of peers: tables grow with the peer's needs.
 */
struct sh_peer {
	struct sh_busy busy;
	struct list_node link;
	struct sh_timer beat; /* next work for the health of its paths */
	uint64_t instance;
	uint32_t conns;	    /* number of connections with this peer */
	uint64_t rest_at;   /* start of the time without connections */
	uint64_t ask_until; /* end of pinging all paths as if there were work, as one is doubted */
	uint64_t dark_at;   /* time of telling its connections that no path answers; 0: some path
			     * does */
	uint32_t n_paths, n_nics, next_path;
	struct sh_peer_path **paths;
	uint64_t paths_retry_at; /* next try for paths that are not open */
	struct sh_peer_nic *nics;
	struct sh_peer_rkeys
		*_Atomic rkeys[SH_MAX_NICS]; /* by the peer's default NIC, made at first use */
	uint32_t keys_heard;		     /* last number applied of its journal */
	uint32_t keys_acked;		     /* last number that the peer knows of our journal */
	uint64_t keys_resend_at, keys_interval;
	uint32_t keys_waiting; /* carriers that wait for its acknowledgement of keys */
	bool keys_silent;      /* sh_keys_wait() has waited in vain, and nothing came since */
	uint32_t nics_acked;   /* last revision of our NICs that the peer knows */
	uint64_t nics_resend_at, nics_interval;
	uint64_t heard_at;
	uint64_t unanswered_said_at; /* time of the last log line about its silence; 0: none */
	uint32_t caps;		     /* SH_WIRE_CAP_ bits of its introduction */
	uint8_t sl, traffic_class;   /* those of its first connection, for datagrams too */
	uint32_t first
		[SC_MAX_PATHS]; /* numbers of its connections, by first choice of path: spread.c */
	uint8_t doubted;	/* bits of paths whose NIC told a wrong expected PSN */
	struct sh_auth *auth;	/* NULL: the job has no secret, and datagrams are not signed */
	struct sh_refused refused;
};

struct sh_peers {
	struct list_node list;
	uint32_t n, conns;		       /* numbers of peers, and of connections with them */
	struct sh_table by_instance;	       /* number of an instance -> peer */
	struct list_node outs;		       /* paths with something to send */
	uint32_t outs_held;		       /* number of holders, who go over many connections */
	uint64_t states_sent, state_datagrams; /* messages of moves, and their datagrams */
	uint64_t beat_at; /* next look at the work on all paths; 0: none needed */
	struct sh_timers beats;
	struct sh_auths auths;
	struct sh_refused strangers; /* datagrams in the name of unknown instances */
	uint64_t refused[SH_REFUSALS];
	struct { /* journal of memory keys, which every peer must know */
		struct sh_wire_key *entries;
		uint32_t n, capacity;
		uint32_t before;  /* entry i has sequence number before + i + 1 */
		uint32_t live;	  /* keys that are valid now */
		uint32_t removed; /* number of the last removal */
	} keys;
};

extern struct sh_peers sh_peers;

struct sh_peer *sh_peer_get(uint64_t instance); /* made if new; NULL: no memory */
struct sh_peer *sh_peer_find(uint64_t instance);
bool sh_peers_sign(void); /* the job has a secret: unsigned datagrams do not count */
/* Returns the known state of that NIC, valid until more is learned; revision 0: unknown. */
const struct sh_peer_nic *sh_peer_nic(const struct sh_peer *peer, uint8_t remote_nic);
/* Takes an address of that revision; old news is ignored. 0 or -ENOMEM. */
int sh_peer_learn(struct sh_peer *peer, uint8_t remote_nic, const struct sh_address *address,
		  uint32_t revision) SH_LOCKED;
/*
 * Sets the service level and traffic class of datagrams to the peer, before its first path. Not on
 * Ethernet, where an own class keeps datagrams answered while the class of the data is paused.
 */
void sh_peer_serve(struct sh_peer *peer, const struct ibv_ah_attr *ah);
/*
 * Returns the control path between these NICs, opened as soon as can be. NULL: too many, or no
 * memory.
 */
struct sh_peer_path *sh_peer_route(struct sh_peer *peer, struct sh_nic *nic,
				   uint8_t remote_nic) SH_LOCKED;
/*
 * Returns the map of keys, by the numbers of the NIC there and the replica's; NULL: none. For any
 * thread that has the peer.
 */
static inline struct sh_keymap *sh_peer_keys(struct sh_peer *peer, uint8_t nic, uint8_t replica)
{
	struct sh_peer_rkeys *rkeys = atomic_load_explicit(&peer->rkeys[nic], memory_order_acquire);

	return rkeys ? atomic_load_explicit(&rkeys->to[replica], memory_order_acquire) : NULL;
}

struct sh_peer_path *sh_peer_path(struct sh_peer *peer, const struct sh_nic *nic,
				  uint8_t remote_nic); /* NULL: none */
/* Count a connection with that peer, from join to leave. */
void sh_peer_join(struct sh_peer *peer) SH_LOCKED;
void sh_peer_leave(struct sh_peer *peer) SH_LOCKED;
uint64_t sh_peer_next_timer(const struct sh_peer *peer);

/* Returns the bytes of a datagram that pass on this open path. */
size_t sh_peer_room(const struct sh_peer_path *path);
/* Sends a datagram. 0, or -errno as of sh_control_send(): lost. */
int sh_peer_send(struct sh_peer_path *path, const void *buf, size_t length);
/* Sends over some live paths, others each time. */
void sh_peer_send_any(struct sh_peer *peer, const void *buf, size_t length);

extern const struct sh_module sh_peers_module;

#endif
