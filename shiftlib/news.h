/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * News that run upwards: what a folder tells to those above it, which it must not include. Each is
 * sent by the folder that its section names and answered by one function above. Lock held, but where
 * it says otherwise.
 */
#ifndef SHIFTLIB_NEWS_H
#define SHIFTLIB_NEWS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/core/core.h"

struct sh_nic;
struct sp_callbacks;
struct sp_cq_ring;

/* ---- loop/: answered by conn/ ------------------------------------------------------------------- */

void sh_news_setup_over(void);	  /* the application's set-up has paused, or what waits is needed */
void sh_news_setup_goes_on(void); /* now and then meanwhile */

/* ---- facade/ -------------------------------------------------------------------------------- */

/* On the data path, no lock held: an event of this ring's CQ was read, before the application hears
 * of it. */
bool sh_news_cq_event_read(struct sp_cq_ring *ring);
/* Asked, no lock held; answered by object/: is the death of this channel's NIC kept from who reads it, as a connection that
 * completes there outlives that? */
bool sh_news_death_masked(const struct ibv_comp_channel *facade);

/* ---- nic/ ----------------------------------------------------------------------------------- */

void sh_news_nic_fault(struct sh_nic *nic, enum sc_reason reason, bool guarded_only);
void sh_news_nic_changed(struct sh_nic *nic);  /* its paths may be others by now */
void sh_news_nic_healed(struct sh_nic *nic);   /* it answers */
void sh_news_nic_opened(struct sh_nic *nic);   /* or failed to: what waited for that goes on */
void sh_news_nic_reopened(struct sh_nic *nic); /* as another incarnation */
/* It cannot reach memory any more: what was made on it executes nothing. */
void sh_news_nic_cut_off(struct sh_nic *nic);
/* The kernel has destroyed all queue pairs of this one of SHIFT's own. */
void sh_news_context_over(const struct ibv_context *context);
void sh_news_nic_address(struct sh_nic *nic); /* it has a new one */
void sh_news_nic_pkeys(struct sh_nic *nic);   /* its port is in other partitions */
void sh_news_nic_closing(struct sh_nic *nic); /* its control QP goes */
/* Asked: is there more on it than standbys, or has the application opened it? */
bool sh_news_nic_used(const struct sh_nic *nic);
/* Asked: does a connection of the application's NIC move, or run elsewhere? */
bool sh_news_nic_away(const struct sh_nic *nic);
/* Answered by object/: what is idle there is to go; then sh_nic_emptied(). */
void sh_news_nic_empty(struct sh_nic *nic);
int sh_news_nic_datagrams(struct sh_nic *nic); /* of its control QP: as sh_control_poll() */
/* What an engine calls, for each of its devices. */
extern const struct sp_callbacks sh_callbacks;
/* A QP of SHIFT's own context has taken its last receive; it is there until this returns. */
void sh_news_last_receive(const struct ibv_qp *real);
/* Likewise, a CQ of it has overrun: it shows no completion any more. */
void sh_news_cq_overran(const struct sh_nic *nic, const struct ibv_cq *real);

/* ---- replica/ ------------------------------------------------------------------------------- */

/* Answered by object/: what is beyond sh_reach() is to go. */
void sh_news_reach_less(void);

/* ---- peer/: answered by conn/, the last one by replica/ ------------------------------------- */

struct sh_peer;
struct sh_peer_path;
struct sh_wire_key;
struct sh_wire_record;

/* A control path is there: connections may wait for it, or have sent into the dark. */
void sh_news_peer_path_opened(struct sh_peer *peer, const struct sh_peer_path *path);
/* A STATE or STANDBY record for a connection; the same of an instance that is not introduced yet. */
void sh_news_peer_message(struct sh_peer *peer, const struct sh_nic *nic,
			  const struct sh_wire_record *record);
/* A HOME record. */
void sh_news_peer_home(struct sh_peer *peer, const struct sh_wire_record *record);
/* A WORD record. */
void sh_news_peer_word(struct sh_peer *peer, const struct sh_wire_record *record);
/* A LOG record. */
void sh_news_peer_log(struct sh_peer *peer, const struct sh_wire_record *record);
void sh_news_peer_stranger(const struct sh_wire_record *record);
/* The peer does not know the connection that we named. */
void sh_news_peer_unknown(struct sh_peer *peer, const struct sh_wire_record *record);
/* It has acknowledged more of our memory keys, and carriers wait for that. */
void sh_news_peer_keys_acked(struct sh_peer *peer);
/* It has told of this key, that it is there or gone. */
void sh_news_peer_key_told(const struct sh_peer *peer, uint32_t rkey);
/* Asked: does it translate our memory keys, or is it about to? */
bool sh_news_peer_translates(const struct sh_peer *peer);
/* Asked: all memory keys that are valid now, at most room of them. Their number. */
uint32_t sh_news_keys_live(struct sh_wire_key *keys, uint32_t room);

/* ---- replica/: answered by conn/ ------------------------------------------------------------ */

struct sh_pd;

/* Memory of it is missing there: standbys of its connections on that path are lost. */
void sh_news_pd_lost_path(const struct sh_pd *pd, uint8_t path);

/* ---- conn/ and object/: answered by cm/ ----------------------------------------------------- */

/* A connection that was protected has ended, and not by this end's own program. */
void sh_news_conn_ended(const struct ibv_qp *real);
void sh_news_qp_gone(const struct ibv_qp *real); /* a queue pair that was driven is destroyed */

#endif
