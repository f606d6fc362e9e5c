/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connections (IBA 12.9): REQ, REP, RTU to begin one, DREQ and DREP to end it, REJ to refuse it.
 * For datagrams SIDR_REQ and SIDR_REP tell a queue pair. All return 0 or -errno. Lock held.
 */
#ifndef SIMNIC_CM_CONNECT_H
#define SIMNIC_CM_CONNECT_H

#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdint.h>

struct sn_cm_id;
struct sn_cm_msg;
struct sn_pkt;

int sn_cm_connect(struct sn_cm_id *id, const struct rdma_ucm_connect *cmd);
int sn_cm_listen(struct sn_cm_id *id, uint32_t backlog);
int sn_cm_accept(struct sn_cm_id *id, const struct rdma_ucm_accept *cmd);
int sn_cm_reject(struct sn_cm_id *id, const struct rdma_ucm_reject *cmd);
int sn_cm_disconnect(struct sn_cm_id *id);
int sn_cm_notify(struct sn_cm_id *id, uint32_t event); /* the queue pair saw a packet */
/* Tells the peer that the id goes, once, and awaits nothing. */
void sn_cm_say_goodbye(struct sn_cm_id *id);
/* The peer's process is gone, and its kernel's goodbye has come. */
void sn_cm_peer_gone(struct sn_cm_id *id);
void sn_cm_receive(const struct sn_pkt *pkt);

/* datagram.c */
int sn_cm_datagram_ask(struct sn_cm_id *id, const struct rdma_ucm_conn_param *param);
int sn_cm_datagram_answer(struct sn_cm_id *id, uint8_t code,
			  const struct rdma_ucm_conn_param *param);
void sn_cm_datagram_arrives(struct sn_cm_id *id, const struct sn_cm_msg *msg);
/* Bytes of the program, at most @most; the rest of the message's stays 0. */
int sn_cm_data_put(struct sn_cm_msg *msg, const uint8_t *data, uint8_t len, uint8_t most);

#endif
