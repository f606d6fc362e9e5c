/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * News that run upwards: from a folder to those above it, which it must not include. The section
 * names the folder that sends; one function above answers each. Lock held, but where said
 * otherwise.
 */
#ifndef SHIFTLIB_NEWS_H
#define SHIFTLIB_NEWS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/core/state.h"

struct sh_nic;
struct sp_callbacks;
struct sp_cq_ring;

/* ---- loop/: answered by conn/ ---------------------------------------------------------------- */

void sh_news_setup_over(void) SH_LOCKED; /* the application's set-up has paused, or waiting work is
				   * needed */
void sh_news_setup_goes_on(void) SH_LOCKED; /* now and then during the set-up */

/* ---- facade/ -------------------------------------------------------------------------------- */

/*
 * An event of this ring's CQ was read, and the application has not heard of it yet. On the data
 * path, no lock held.
 */
bool sh_news_cq_event_read(struct sp_cq_ring *ring);
/*
 * Asked, no lock held; answered by object/. True if the death of this channel's NIC is kept from
 * its readers, as a connection that completes there outlives the NIC.
 */
bool sh_news_death_masked(const struct ibv_comp_channel *facade);

/* ---- nic/ ----------------------------------------------------------------------------------- */

void sh_news_nic_fault(struct sh_nic *nic, enum sc_reason reason, bool guarded_only) SH_LOCKED;
void sh_news_nic_changed(struct sh_nic *nic) SH_LOCKED; /* paths of the NIC may have changed */
void sh_news_nic_healed(struct sh_nic *nic) SH_LOCKED;	/* the NIC answers */
/* Opened or failed: waiting work goes on. */
void sh_news_nic_opened(struct sh_nic *nic) SH_LOCKED;
void sh_news_nic_reopened(struct sh_nic *nic) SH_LOCKED; /* opened as another incarnation */
/* The NIC cannot reach memory any more: objects made on it execute nothing. */
void sh_news_nic_cut_off(struct sh_nic *nic) SH_LOCKED;
/* The kernel has destroyed all queue pairs of this context of SHIFT's own. */
void sh_news_context_over(const struct ibv_context *context) SH_LOCKED;
void sh_news_nic_address(struct sh_nic *nic) SH_LOCKED; /* the NIC has a new address */
void sh_news_nic_pkeys(struct sh_nic *nic) SH_LOCKED;	/* the port is in other partitions */
void sh_news_nic_closing(struct sh_nic *nic) SH_LOCKED; /* the control QP goes */
/* Asked: true if there is more on the NIC than standbys, or the application has opened it. */
bool sh_news_nic_used(const struct sh_nic *nic) SH_LOCKED;
/* Asked: number of connections that run on the NIC; home: and those that are at home there. */
uint32_t sh_news_nic_qps(const struct sh_nic *nic, bool home) SH_LOCKED;
/* Asked: true if a connection of the application's NIC moves, or runs elsewhere. */
bool sh_news_nic_away(const struct sh_nic *nic) SH_LOCKED;
/* Answered by object/: idle objects there are to go; then sh_nic_emptied(). */
void sh_news_nic_empty(struct sh_nic *nic) SH_LOCKED;
int sh_news_nic_datagrams(struct sh_nic *nic) SH_LOCKED; /* takes datagrams of its control QP, as
						* sh_control_poll() */
/* The engine's callbacks, for each of its devices. */
extern const struct sp_callbacks sh_callbacks;
/* A QP of SHIFT's own context has taken its last receive; the QP exists until this returns. */
void sh_news_last_receive(const struct ibv_qp *real) SH_LOCKED;
/* A CQ of SHIFT's own context has overrun, and shows no completion any more. */
void sh_news_cq_overran(const struct sh_nic *nic, const struct ibv_cq *real) SH_LOCKED;

/* ---- replica/ ------------------------------------------------------------------------------- */

/* Answered by object/: objects beyond sh_reach() are to go. */
void sh_news_reach_less(void) SH_LOCKED;

/* ---- peer/: answered by conn/, the last one by replica/ ------------------------------------- */

struct sh_peer;
struct sh_peer_path;
struct sh_wire_key;
struct sh_wire_record;

/* A control path is open: connections may wait for it, or have sent into the dark. */
void sh_news_peer_path_opened(struct sh_peer *peer, const struct sh_peer_path *path) SH_LOCKED;
/* A STATE or STANDBY record for a connection; the stranger's instance is not introduced yet. */
void sh_news_peer_message(struct sh_peer *peer, const struct sh_nic *nic,
			  const struct sh_wire_record *record) SH_LOCKED;
/* A record for a connection, of a kind that one of its parts understands: HOME, WORD, LOG. */
void sh_news_peer_told(struct sh_peer *peer, const struct sh_wire_record *record) SH_LOCKED;
void sh_news_peer_stranger(const struct sh_wire_record *record) SH_LOCKED;
/* The peer does not know the connection that we named. */
void sh_news_peer_unknown(struct sh_peer *peer, const struct sh_wire_record *record) SH_LOCKED;
/* The peer has acknowledged more of our memory keys, and carriers wait for that. */
void sh_news_peer_keys_acked(struct sh_peer *peer) SH_LOCKED;
/* The peer has told that this key is there or gone. */
void sh_news_peer_key_told(const struct sh_peer *peer, uint32_t rkey) SH_LOCKED;
/* Asked: true if the peer translates our memory keys, or is about to. */
bool sh_news_peer_translates(const struct sh_peer *peer) SH_LOCKED;
/* Asked: all memory keys that are valid now, at most room of them. Returns their number. */
uint32_t sh_news_keys_live(struct sh_wire_key *keys, uint32_t room) SH_LOCKED;

/* ---- replica/: answered by conn/ ------------------------------------------------------------ */

struct sh_pd;

/* Memory of the PD is missing there: standbys of its connections on that path are lost. */
void sh_news_pd_lost_path(const struct sh_pd *pd, uint8_t path) SH_LOCKED;

/* ---- conn/ and object/: answered by cm/ ----------------------------------------------------- */

/* A protected connection has ended, and not by this end's own program. */
void sh_news_conn_ended(const struct ibv_qp *real) SH_LOCKED;
/* A driven queue pair is destroyed. */
void sh_news_qp_gone(const struct ibv_qp *real) SH_LOCKED;

#endif
