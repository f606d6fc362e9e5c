/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * News that run upwards: what a folder tells to those above it, which it must not include. Each is
 * sent by the folder that its section names and answered by one function above (named behind it).
 * Lock held, but where it says otherwise.
 */
#ifndef SHIFTLIB_NEWS_H
#define SHIFTLIB_NEWS_H

#include <stdbool.h>
#include <stdint.h>

/* ---- peer/: answered by conn/, the last one by replica/ ------------------------------------- */

struct sh_peer;
struct sh_peer_path;
struct sh_wire_key;
struct sh_wire_record;

/* A control path is there: connections may wait for it, or have sent into the dark. */
void sh_news_peer_path_opened(struct sh_peer *peer, const struct sh_peer_path *path);
/* A STATE or STANDBY record for a connection; the same of an instance that is not introduced yet. */
void sh_news_peer_message(struct sh_peer *peer, const struct sh_wire_record *record);
void sh_news_peer_stranger(const struct sh_wire_record *record);
/* The peer does not know the connection that we named. */
void sh_news_peer_unknown(struct sh_peer *peer, const struct sh_wire_record *record);
/* It has acknowledged more of our memory keys, and carriers wait for that. */
void sh_news_peer_keys_acked(struct sh_peer *peer);
/* Asked: does it translate our memory keys, or is it about to? */
bool sh_news_peer_translates(const struct sh_peer *peer);
/* Asked: all memory keys that are valid now, at most room of them. Their number. */
uint32_t sh_news_keys_live(struct sh_wire_key *keys, uint32_t room);

#endif
