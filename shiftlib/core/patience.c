/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The limits of a move's time. P9: no fault ends a connection sooner than it would have ended
 * without us. Stock retries for the QP's own retry time, whatever the silence is due to: a dead
 * peer, a stopped one, a paused host. So does each stage of a move, which begins later; where the
 * retry time is short, a move has its own time. A NIC may retry for several times the nominal time
 * (sc_retries_ns). The other clocks end no connection: after that of a standby another one is made,
 * after that of a fence the switch is cancelled or the move is abrupt, after that of a message it
 * is sent again.
 */
#include "shiftlib/core/internal.h"

uint64_t sc_retries_ns(const struct sc_config *config)
{
	return config->retry_time_ns * (SC_MUTANT(NOMINAL) ? 1 : config->retry_stretch);
}

static uint64_t patience_at_least(uint64_t retries_ns, uint64_t ns)
{
	return retries_ns > ns && !SC_MUTANT(IMPATIENT) ? retries_ns : ns;
}

/* Applies the operator's limit. */
static uint64_t patience_within_limit(const struct sc_config *cfg, uint64_t ns)
{
	return cfg->limit_ns && cfg->limit_ns < ns ? cfg->limit_ns : ns;
}

static uint64_t patience_with(const struct sc_conn *c, uint64_t ns)
{
	const struct sc_config *cfg = &c->config;

	if (cfg->lazy) /* thousands may make their standbys now, in line for one NIC */
		ns = SC_LAZY_PATIENCE * cfg->deadline_ns;
	/* where stock's connection is over, no retry of its NIC need be outlived */
	ns = patience_at_least(c->beyond ? cfg->retry_time_ns : sc_retries_ns(cfg), ns);
	ns += SC_LIFETIMES * cfg->packet_lifetime_ns;
	return patience_within_limit(cfg, ns);
}

/*
 * Limit for a request that needs something of the peer. Stock would have told its error at once, so
 * no retry is outlived here either.
 */
uint64_t sc_patience_ns(const struct sc_config *config)
{
	return patience_within_limit(config,
				     patience_at_least(config->retry_time_ns, config->deadline_ns));
}

static uint64_t patience_ns(const struct sc_conn *c)
{
	return patience_with(c, c->beyond ? c->config.silence_ns : c->config.deadline_ns);
}

/*
 * True if stock would go on: there only an end's own requests end its QP, unless it retries for
 * ever. But where a sick NIC cannot count, waiting for ever helps nobody: P5 forbids to go on.
 */
static bool patience_stock_goes_on(const struct sc_frame *x)
{
	const struct sc_conn *c = x->c;

	return !c->beyond && !c->config.limit_ns && c->move != SC_MOVE_COUNTING &&
	       !SC_MUTANT(IMPATIENT) && (x->ev->idle || !c->config.retry_time_ns);
}

/* Puts off the deadline of an end that has nothing to send: its clock has not begun. */
void sc_patience_follow(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (patience_stock_goes_on(x))
		c->deadline_at = x->now + patience_ns(c);
}

/*
 * Notes that the carrier of c->epoch died on the default path, the only one that stock would have
 * had. For a fault at this end, or the peer's word while that carrier is in use here: the reason
 * why a peer left says nothing of the path that a move under way leads to.
 */
void sc_patience_beyond(struct sc_frame *x, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	c->beyond |= !c->path && (reason == SC_REASON_TRANSPORT || reason == SC_REASON_DEVICE);
}

void sc_patience_start(struct sc_frame *x, enum sc_reason reason)
{
	struct sc_conn *c = x->c;

	c->reason = reason;
	c->deadline_at = x->now + patience_ns(c);
	c->peer.heard_at = x->now;
}

/*
 * True if too many carriers passed nothing. Heartbeats say that a path lives, and work says that it
 * passes nothing: either no path does, or the work is to blame. On stock the retries of one path
 * would have been the end.
 */
bool sc_patience_nothing_passes(struct sc_frame *x)
{
	struct sc_conn *c = x->c;

	if (c->move != SC_MOVE_NONE || x->ev->reason != SC_REASON_TRANSPORT)
		return false;
	if (!x->ev->fruitless)
		c->fruitless = 0;
	if (!c->fruitless++)
		c->fruitless_since = x->now;
	return c->fruitless >= SC_FRUITLESS_ROUNDS * sc_paths_count(c) &&
	       x->now - c->fruitless_since >= c->config.retry_time_ns && !SC_MUTANT(FOR_EVER);
}

/*
 * Returns the end of a dark time. An end with nothing outstanding does not learn from its own NIC
 * that the last path to the peer is dead, and the peer cannot say so: both its NICs may be. Stock's
 * connection ended when the default path died; one that lives on beyond that may not leave an end
 * waiting for ever.
 */
uint64_t sc_patience_dark_until(const struct sc_conn *c)
{
	if (!c->dark_since || !c->beyond || !c->guarded || c->move != SC_MOVE_NONE)
		return 0;
	return c->dark_since + patience_with(c, c->config.deadline_ns);
}

void sc_patience_dark(struct sc_frame *x)
{
	uint64_t since = x->now > x->ev->silent_ns ? x->now - x->ev->silent_ns : 1;

	if (!x->ev->ok)
		x->c->dark_since = 0;
	else if (!x->c->dark_since)
		x->c->dark_since = since;
}

void sc_patience_timer(struct sc_frame *x)
{
	uint64_t until = sc_patience_dark_until(x->c);

	if (!until || x->now < until)
		return;
	if (x->ev->idle)
		sc_end_fail(x, SC_REASON_DEADLINE);
	else
		x->c->dark_since = x->now; /* the own retries decide */
}
