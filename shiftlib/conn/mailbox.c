/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The stack of connections of which the data path has reported something. */
#include "shiftlib/shell.h"

void sh_mailbox_read(void)
{
	struct sh_qp *qp = atomic_exchange_explicit(&sh_conns.mail, NULL, memory_order_acquire);

	sh_outbox_hold();
	while (qp) {
		/* next before pending: with pending 0 the data path may push the QP again. */
		struct sh_qp *next = atomic_load_explicit(&qp->mailbox.next, memory_order_relaxed);
		uint32_t pending =
			atomic_exchange_explicit(&qp->mailbox.pending, 0, memory_order_acq_rel);

		sh_conn_pending(qp, pending);
		qp = next;
	}
	sh_outbox_release();
}

static void mailbox_run(uint64_t now)
{
	(void)now;
	sh_mailbox_read();
}

/* Read before anything else, and again behind the look for errors that nobody polls. */
const struct sh_module sh_mailbox_module = {
	.name = "mailbox",
	.heard = sh_mailbox_read,
	.run = mailbox_run,
};
