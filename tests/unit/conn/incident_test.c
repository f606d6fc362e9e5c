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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_open_in_name),
		cmocka_unit_test(one_that_is_not_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
