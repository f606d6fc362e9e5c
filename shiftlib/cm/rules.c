/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/cm/rules.h"

const char *sh_cm_verdict_name(enum sh_cm_verdict verdict)
{
	switch (verdict) {
	case SH_CM_PASS: return "pass";
	case SH_CM_TAKE: return "take";
	case SH_CM_ASK: return "ask";
	}
	return "?";
}

static bool carried(const struct sh_cm_known *known)
{
	return known->established && known->standing == SH_CM_ALIVE && !known->leaves;
}

/*
 * Judges the goodbye of the peer's kernel: it comes of its program's own will, or as the program
 * is gone, or only its NIC. An end that was told once is not told again.
 */
static enum sh_cm_verdict judge_disconnected(const struct sh_cm_known *known)
{
	if (known->told)
		return SH_CM_TAKE;
	return carried(known) ? SH_CM_ASK : SH_CM_PASS;
}

/* The kernel may say it before SHIFT sees the fault, or where there is none. */
static enum sh_cm_verdict judge_path(const struct sh_cm_known *known)
{
	if (!carried(known))
		return SH_CM_PASS;
	return known->fault ? SH_CM_TAKE : SH_CM_ASK;
}

/*
 * Decides on kept events. The end of a connection is the kernel's to tell, where its word can
 * come: made up as well, it would come twice. What was kept for a fault that never showed is the
 * program's, and so is what was kept behind an end that it has heard of.
 */
enum sh_cm_end sh_cm_decide(const struct sh_cm_known *known, bool ending, bool alive)
{
	if (!known->told && (ending || known->leaves))
		return known->orphan || known->fault ? SH_CM_HAND_OVER : SH_CM_WAIT;
	return carried(known) && known->fault && alive ? SH_CM_FORGET : SH_CM_HAND_OVER;
}

enum sh_cm_verdict sh_cm_judge(enum rdma_cm_event_type event, const struct sh_cm_known *known)
{
	switch (event) {
	case RDMA_CM_EVENT_DISCONNECTED: return judge_disconnected(known);
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_UNREACHABLE: return judge_path(known);
	case RDMA_CM_EVENT_DEVICE_REMOVAL: return carried(known) ? SH_CM_TAKE : SH_CM_PASS;
	/* the end of an id whose program did not hear of it, or not from the kernel */
	case RDMA_CM_EVENT_TIMEWAIT_EXIT: return known->orphan ? SH_CM_TAKE : SH_CM_PASS;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR: break;
	}
	return SH_CM_PASS;
}
