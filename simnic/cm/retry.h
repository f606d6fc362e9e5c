/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Time: messages that are repeated until they are answered, and other waits of an id, which has one
 * at a time. Times are those of Linux; `simnicctl retry` of the id's NIC shortens them. Lock held.
 */
#ifndef SIMNIC_CM_RETRY_H
#define SIMNIC_CM_RETRY_H

#include <stdbool.h>
#include <stdint.h>

struct sn_cm_id;

void sn_cm_retry_at(struct sn_cm_id *id, uint64_t due_ns);
/* Sends the message in id->retry, and again until sn_cm_retry_stop(). */
void sn_cm_retry_begin(struct sn_cm_id *id);
void sn_cm_retry_stop(struct sn_cm_id *id);
/* The peer said that its answer takes longer (MRA). */
void sn_cm_retry_extend(struct sn_cm_id *id);
/* The connection is over; packets of it may still be under way. */
void sn_cm_timewait(struct sn_cm_id *id);
bool sn_cm_retry_run(uint64_t now_ns); /* does what is due; true: there was something */

#endif
