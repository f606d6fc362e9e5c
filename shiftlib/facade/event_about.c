/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/facade/event_about.h"

/* The counter of a CQ has another name than that of the other objects. */
#define ABOUT(of, counter)                                                                         \
	((struct sh_event_about){                                                                  \
		.object = (of),                                                                    \
		.context = (of)->context,                                                          \
		.mutex = &(of)->mutex,                                                             \
		.completed = &(of)->counter,                                                       \
	})

struct sh_event_about sh_event_about(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: return ABOUT(event->element.cq, async_events_completed);
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: return ABOUT(event->element.qp, events_completed);
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: return ABOUT(event->element.srq, events_completed);
	case IBV_EVENT_WQ_FATAL: return ABOUT(event->element.wq, events_completed);
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE: break;
	}
	return (struct sh_event_about){ 0 };
}
