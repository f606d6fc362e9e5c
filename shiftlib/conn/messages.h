/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The records that a connection sends to its other end. */
#ifndef SHIFTLIB_CONN_MESSAGES_H
#define SHIFTLIB_CONN_MESSAGES_H

#include <stdbool.h>
#include "shiftlib/base/locked.h"
#include "shiftlib/core/core.h"

struct sh_qp;
struct sh_wire_inquiry;
struct sh_wire_log;
struct sh_wire_word;

/* Sends STANDBY over the standby's own path, or over every live path. */
void sh_messages_send_standby(struct sh_qp *qp, const struct sc_msg_standby *standby,
			      bool everywhere) SH_LOCKED;
void sh_messages_send_home(struct sh_qp *qp, const struct sc_msg_home *home) SH_LOCKED;
void sh_messages_send_word(struct sh_qp *qp, const struct sh_wire_word *word) SH_LOCKED;
void sh_messages_send_log(struct sh_qp *qp, const struct sh_wire_log *log) SH_LOCKED;
void sh_messages_send_inquiry(struct sh_qp *qp, const struct sh_wire_inquiry *inquiry) SH_LOCKED;
void sh_messages_send_state(struct sh_qp *qp, const struct sc_msg_state *state) SH_LOCKED;

#endif
