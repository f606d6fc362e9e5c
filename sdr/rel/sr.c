/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sender's timers of SR, without a timer for each chunk: ranges in the order in which they were
 * sent. A range that is old enough is taken off, and its chunks that are not acknowledged are
 * wanted again.
 */
#include "internal.h"

/* A range that grows must not grow so old that its end waits for long: a 32nd of the timeout. */
static bool grows(const struct sdr_tx *t, const struct sdr_flight *f, uint32_t first, uint64_t now)
{
	return f->first + f->count == first && now - f->at <= t->plan.rto_ns / 32;
}

static struct sdr_flight *flight(struct sdr_tx *t, uint32_t i)
{
	return &t->flights[(t->flight_first + i) % SDR_FLIGHTS];
}

bool sdr_sr_room(const struct sdr_tx *t)
{
	return t->flights_n < SDR_FLIGHTS;
}

void sdr_sr_sent(struct sdr_tx *t, uint32_t first, uint32_t count, uint64_t now)
{
	struct sdr_flight *f = t->flights_n ? flight(t, t->flights_n - 1) : NULL;

	if (f && grows(t, f, first, now)) {
		f->count += count;
		return;
	}
	SDR_ASSERT(sdr_sr_room(t));
	*flight(t, t->flights_n++) =
		(struct sdr_flight){ .first = first, .count = count, .at = now };
}

static bool all_acked(const struct sdr_tx *t, const struct sdr_flight *f)
{
	return sdr_find(t->acked, f->first, f->first + f->count, false) >= f->first + f->count;
}

void sdr_sr_expire(struct sdr_tx *t, uint64_t now)
{
	struct sdr_flight *f;

	while (t->flights_n) {
		f = flight(t, 0);
		/* The end of a range was sent up to a 32nd of the timeout after its head. */
		if (!all_acked(t, f) && now < f->at + t->plan.rto_ns + t->plan.rto_ns / 32)
			return;
		for (uint32_t i = f->first; i < f->first + f->count; i++)
			if (!sdr_has(t->acked, i) || SDR_MUTATED(RTO_ACKED))
				sdr_tx_want(t, i);
		t->flight_first = (t->flight_first + 1) % SDR_FLIGHTS;
		t->flights_n--;
	}
}
