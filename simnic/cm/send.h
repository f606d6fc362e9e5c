/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sending. A message goes from NIC to NIC, and is lost where a packet would be. On the other host
 * it is for the process that has the id, or that listens. Where there is no such process, that
 * host's kernel would answer; here the sender gives itself that answer, if the way back is open.
 * Lock held.
 */
#ifndef SIMNIC_CM_SEND_H
#define SIMNIC_CM_SEND_H

#include <stdint.h>

#include "simnic/cm/msg.h"

struct sn_cm_id;

/* Fills what each message of the id has. */
void sn_cm_msg_begin(const struct sn_cm_id *id, struct sn_cm_msg *msg, enum sn_cm_msg_type type);
void sn_cm_send(struct sn_cm_id *id, const struct sn_cm_msg *msg);
void sn_cm_send_plain(struct sn_cm_id *id, enum sn_cm_msg_type type); /* no more than its type */
void sn_cm_reject_as(struct sn_cm_id *id, uint8_t reason);	      /* a REJ without data */
/* Answers a message that is for no id of this process. */
void sn_cm_answer_unknown(const struct sn_pkt *pkt, const struct sn_cm_msg *msg);

#endif
