/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When a hang showed first is asked of the NIC's control QP, which one that was given up has no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shiftlib/base/lock.h"
#include "shiftlib/base/worker.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/told/incident.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/cq.h"
#include "shiftlib/report/event.h"

static struct sh_nic nic;
static struct sh_cq cq;
static struct ibv_qp app_qp;
static struct sh_qp qp;
static struct sh_carrier carrier;

static void moves_from(enum sh_nic_state state)
{
	sh_incidents_module.reset();
	sh_conns_module.reset();
	nic = (struct sh_nic){ .name = "gone", .state = state };
	nic.prompt = sh_worker_start("gone");
	assert_non_null(nic.prompt);
	carrier = (struct sh_carrier){ .nic = &nic };
	qp = (struct sh_qp){ .qp = &app_qp, .scq = &cq, .rcq = &cq, .active = &carrier };
	qp.core.reason = SC_REASON_DEVICE; /* and it does not say that it died: it hangs */
	sh_lock();
	sh_incident_part.move.begins(&qp, qp.core.reason);
	assert_int_not_equal(qp.incident.moving, 0);
	sh_incident_part.life.leaves(&qp);
	sh_unlock();
	assert_int_equal(sh_worker_stop(nic.prompt, UINT64_MAX / 2), 0);
}

static void one_that_is_open_in_name(void **state)
{
	moves_from(SH_NIC_OPEN);
}

static void one_that_is_not_open(void **state)
{
	moves_from(SH_NIC_FAILED);
}

/* The peer moves first, and the port of this end says a moment later that it is down. */
static void what_the_peer_saw_first(void **state)
{
	const struct sh_event *event;
	uint64_t before = sh_event_last();
	struct sp_settled settled = { 0 };
	static struct sh_carrier to;

	sh_incidents_module.reset();
	sh_conns_module.reset();
	sh_nics.n = 2;
	sh_nics.nic[0] = (struct sh_nic){ .name = "first", .state = SH_NIC_OPEN };
	sh_nics.nic[1] = (struct sh_nic){ .name = "second", .state = SH_NIC_OPEN };
	carrier = (struct sh_carrier){ .nic = &sh_nics.nic[0] };
	to = (struct sh_carrier){ .nic = &sh_nics.nic[1], .path = 1 };
	qp = (struct sh_qp){ .qp = &app_qp, .scq = &cq, .rcq = &cq, .active = &carrier };
	qp.core.reason = SC_REASON_PEER;
	sh_lock();
	sh_incident_part.move.begins(&qp, qp.core.reason);
	sh_incident_part.move.settled(&qp, &to, &settled);
	sh_nics.nic[0].port_down = true;
	sh_incidents_module.run(UINT64_MAX / 2);
	event = sh_event_after(before);
	assert_non_null(event);
	assert_int_equal(event->kind, SH_EVENT_SWITCH);
	assert_int_equal(event->cause, SH_CAUSE_PORT_DOWN);
	sh_unlock();
	sh_nics.n = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_open_in_name),
		cmocka_unit_test(one_that_is_not_open),
		cmocka_unit_test(what_the_peer_saw_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
