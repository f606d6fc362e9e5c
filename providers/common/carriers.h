/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The carriers of a queue pair. Compiled into each engine, over its own struct sp_qp and struct
 * sp_carrier: the engine's qp.h includes this behind them.
 */
#ifndef SHIFT_CARRIERS_H
#define SHIFT_CARRIERS_H

/* Returns the oldest, which is the application's own QP. */
static inline struct sp_carrier *sp_carrier_zero(const struct sp_qp *qp)
{
	struct sp_carrier *c = qp->carriers;

	while (c->next)
		c = c->next;
	return c;
}

/* Returns the carrier of that epoch, or NULL. */
static inline struct sp_carrier *sp_carrier_at(const struct sp_qp *qp, uint32_t epoch)
{
	struct sp_carrier *c = qp->carriers;

	while (c && c->epoch != epoch)
		c = c->next;
	return c;
}

/* Takes a carrier, which is not the oldest, out of the list. */
static inline void sp_carrier_unlink(struct sp_qp *qp, const struct sp_carrier *c)
{
	struct sp_carrier **at = &qp->carriers;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

/* Returns the epoch up to which carriers are left when the active ones are. */
static inline uint32_t sp_carriers_last(const struct sp_qp *qp)
{
	return qp->tx->epoch > qp->rx->epoch ? qp->tx->epoch : qp->rx->epoch;
}

/*
 * Returns the active carrier whose first error counts: an application's own error, wherever it was
 * seen, forbids to go on.
 */
static inline const struct sp_carrier *sp_carrier_of_error(const struct sp_qp *qp)
{
	enum ibv_wc_status status = atomic_load(&qp->rx->app_status);

	if (!atomic_load(&qp->tx->app_status) ||
	    (status && sp_error_class_of(status) == SP_ERROR_APPLICATION))
		return qp->rx;
	return qp->tx;
}

#endif
