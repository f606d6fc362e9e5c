/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The causes of events: what was seen first, and whose error it is. */
#include "shiftlib/conn/carrier.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/told/cause.h"
#include "shiftlib/nic/nic.h"

static enum sh_event_cause cause_of_device(const struct sh_qp *qp, const struct sh_nic *nic)
{
	if (sh_carrier_unseen(qp, qp->active))
		return SH_CAUSE_CQ;
	return nic->fatal ? SH_CAUSE_FATAL : SH_CAUSE_HANG;
}

static enum sh_event_cause cause_of_port(const struct sh_nic *nic)
{
	return nic->link_lost && !nic->port_down ? SH_CAUSE_LINK_LOST : SH_CAUSE_PORT_DOWN;
}

enum sh_event_cause sh_cause_of_peer(const struct sh_nic *nic)
{
	if (nic->fatal)
		return SH_CAUSE_FATAL;
	if (nic->port_down || nic->link_lost)
		return cause_of_port(nic);
	if (nic->sick)
		return SH_CAUSE_HANG;
	return nic->drained ? SH_CAUSE_DRAIN : SH_CAUSE_PEER;
}

enum sh_event_cause sh_cause_of(const struct sh_qp *qp, enum sc_reason reason)
{
	const struct sh_nic *nic = qp->active->nic;

	switch (reason) {
	case SC_REASON_NONE: return SH_CAUSE_NONE;
	case SC_REASON_TRANSPORT:
		return qp->error.status == IBV_WC_RETRY_EXC_ERR ? SH_CAUSE_RETRY_EXCEEDED
								: SH_CAUSE_TRANSPORT;
	case SC_REASON_PORT: return cause_of_port(nic);
	case SC_REASON_DEVICE: return cause_of_device(qp, nic);
	case SC_REASON_PEER: return sh_cause_of_peer(nic);
	case SC_REASON_ORDER: return SH_CAUSE_DRAIN;
	case SC_REASON_SILENCE: return SH_CAUSE_SILENCE;
	case SC_REASON_RETURN: return SH_CAUSE_BETTER_NIC;
	case SC_REASON_NO_STANDBY: return SH_CAUSE_STANDBY;
	case SC_REASON_DEADLINE: return SH_CAUSE_DEADLINE;
	case SC_REASON_PEER_FATAL: return SH_CAUSE_PEER_FATAL;
	case SC_REASON_PEER_CLOSED: return SH_CAUSE_PEER_CLOSED;
	case SC_REASON_MISCOUNT: return SH_CAUSE_MISCOUNT;
	case SC_REASON_ATOMIC: return SH_CAUSE_ATOMIC;
	case SC_REASON_FENCED_READ: return SH_CAUSE_FENCED_READ;
	case SC_REASON_KEY: return SH_CAUSE_KEY;
	case SC_REASON_APPLICATION: return SH_CAUSE_APPLICATION;
	case SC_REASON_RESOURCE: return SH_CAUSE_RESOURCE;
	case SC_REASON_HOME: return SH_CAUSE_HOME;
	case SC_REASON_OVERRUN: return SH_CAUSE_CQ;
	case SC_REASON_PEER_APPLICATION: return SH_CAUSE_PEER_APPLICATION;
	case SC_REASONS: break;
	}
	return SH_CAUSE_NONE;
}

const char sh_cause_outran[] =
	"this program left more completions unpolled than its completion queue holds";
const char sh_cause_peer_outran[] =
	"the peer's program left more completions unpolled than its completion queue holds";

const char *sh_cause_passed(enum ibv_wc_status status)
{
	switch ((int)status) {
	case IBV_WC_SUCCESS:
		return "the peer's program asked for what this one does not allow (key, bounds, "
		       "rights, or a receive that is too small)";
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_ABORT_ERR:
		return "this program asked for what its peer does not allow (key, bounds, rights, "
		       "or a receive that is too small)";
	case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer's program posted no receive in time";
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_WR_FLUSH_ERR:
		return "it was not protected, and its path or its peer stopped answering";
	default: return "a request of this program is wrong (its key, length or rights)";
	}
}
