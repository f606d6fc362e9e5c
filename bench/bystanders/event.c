// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Asynchronous events, with the driver's names of their objects. The program follows a GID that
 * moves.
 */
#include "bystanders.h"

#include <errno.h>
#include <string.h>

static int queue_of(const struct ibv_cq *cq)
{
	for (int i = 0; i < CQS; i++)
		if (queues[i].cq == cq)
			return i;
	return -1;
}

static int srq_of(const struct ibv_srq *srq)
{
	for (int i = 0; i < SRQS; i++)
		if (shared[i].srq == srq)
			return i;
	return -1;
}

static int end_of_qp(const struct ibv_qp *qp)
{
	for (int i = 0; i < ENDS; i++)
		if (ends[i] && ends[i]->qp == qp)
			return i;
	return -1;
}

static void about(const struct ibv_async_event *event, const char **kind, int *id)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		*kind = "cq";
		*id = queue_of(event->element.cq);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		*kind = "srq";
		*id = srq_of(event->element.srq);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		*kind = "qp";
		*id = end_of_qp(event->element.qp);
		break;
	default:
		*kind = "port";
		*id = event->event_type == IBV_EVENT_DEVICE_FATAL ? 0 : event->element.port_num;
	}
}

static void tell_of(int ctx)
{
	struct ibv_async_event event;
	const char *kind;
	int id;

	while (!ibv_get_async_event(contexts[ctx].ctx, &event)) {
		about(&event, &kind, &id);
		reply("event %d %d %s %d", ctx, event.event_type, kind, id);
		if (id < 0)
			odd("an event %d of a %s that is not there", event.event_type, kind);
		ibv_ack_async_event(&event);
		if (event.event_type == IBV_EVENT_GID_CHANGE)
			context_find_gid(&contexts[ctx]);
	}
}

/* events */
void tell_events(char **word)
{
	(void)word;
	for (int i = 0; i < CTXS; i++)
		if (contexts[i].ctx)
			tell_of(i);
	reply("=");
}
