/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Questions about the carriers that a move leaves: did the driver destroy them, has what their
 * NICs acknowledged reached memory?
 */
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/quiesce.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/shift.h"

/* A standby that nothing was laid on was told to nobody as one to send to. */
static bool left_has_carried(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	return carrier == &qp->carriers.own || carrier == qp->active || carrier == qp->receiving ||
	       carrier->reached;
}

/* Carriers that nothing may run on any more: all before the one to come that have carried. */
bool sh_quiesce_left(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	return carrier->nic && carrier->qp && left_has_carried(qp, carrier) &&
	       (int32_t)(carrier->epoch - qp->quiesce.epoch) < 0;
}

/*
 * Was it destroyed by its driver? That its file has no commands is less: nic/removal.h. Whether
 * the device was there then is known by the time that it counts.
 */
bool sh_quiesce_removed(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	const struct sh_nic *nic = carrier->nic;
	const struct sh_removal *removal =
		carrier == &qp->carriers.own ? &qp->ctx->removal : &nic->removal;

	return carrier->lost && removal->over && (nic->cut.seen || nic->cut.fd < 0);
}

bool sh_quiesce_over(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	const struct sh_nic *nic = carrier->nic;

	return carrier->over || sh_quiesce_removed(qp, carrier) ||
	       (nic->cut.off && carrier->incarnation == nic->incarnation);
}

/* A NIC that is cut off need not have obeyed: its command hangs until the driver gives it up. */
bool sh_quiesce_stopped(const struct sh_qp *qp)
{
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++) {
		const struct sh_carrier *carrier = sh_carrier_at(qp, i);

		if (sh_quiesce_left(qp, carrier) && !carrier->in_error &&
		    !sh_quiesce_over(qp, carrier))
			return false;
	}
	return true;
}

/*
 * Returns the time after which no acknowledgement reached the peer's application; far in the
 * future while the peer has not left.
 */
static uint64_t drained_since(const struct sh_qp *qp)
{
	const struct sc_peer *peer = &qp->core.peer;

	if (!peer->quiesced)
		return UINT64_MAX - sh.config.core.settle_ns;
	return peer->quiesced_at > qp->quiesce.begun ? peer->quiesced_at : qp->quiesce.begun;
}

/*
 * True if the NIC had the time for that, or its driver destroyed the QP before it took the NIC
 * away in order.
 */
bool sh_quiesce_drained(const struct sh_qp *qp, const struct sh_carrier *carrier)
{
	const struct sh_nic *nic = carrier->nic;

	return sh_nic_drained(nic, carrier->incarnation, drained_since(qp)) ||
	       (carrier->incarnation == nic->incarnation && sh_quiesce_removed(qp, carrier) &&
		nic->cut.seen && !nic->cut.gone);
}

static bool drained_unknown(const struct sh_qp *qp, const struct sh_carrier *carrier) SH_LOCKED
{
	return qp->core.peer.quiesced && !sh_quiesce_drained(qp, carrier) &&
	       sh_nic_drain_unknown(carrier->nic, carrier->incarnation, drained_since(qp));
}

bool sh_quiesce_drain_unknown(const struct sh_qp *qp)
{
	return drained_unknown(qp, qp->active) || drained_unknown(qp, qp->receiving);
}

void sh_quiesce_peer_left(struct sh_qp *qp)
{
	int i;

	for (i = 0; i < SH_MAX_CARRIERS; i++)
		if (sh_quiesce_left(qp, sh_carrier_at(qp, i)))
			sh_nic_drains(sh_carrier_at(qp, i)->nic, qp->core.peer.quiesced_at);
}
