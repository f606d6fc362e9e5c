/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Everything, until each file names what it needs. */
#ifndef SHIFTLIB_SHELL_H
#define SHIFTLIB_SHELL_H

#include "shiftlib/loop/loop.h"
#include "shiftlib/news.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/peer/heartbeat.h"
#include "shiftlib/peer/keys.h"
#include "shiftlib/peer/outbox.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/keys.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/replica/srq.h"
#include "shiftlib/nic/yield.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/srq.h"
#include "shiftlib/conn/conn.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/incident.h"
#include "shiftlib/conn/standby.h"
#include "shiftlib/object/yield.h"
#include "shiftlib/object/object.h"
#include "shiftlib/admin/names.h"
#include "shiftlib/admin/admin.h"

#endif
