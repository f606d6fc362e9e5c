/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requests to NICs that change a slot's memory, and their answers. */
#include "sdr/nic/change.h"

#include <errno.h>
#include <stdlib.h>

/* A slot, at all NICs; bits of them. */
struct changed {
	struct ibv_mr *const *mrs;
	uint64_t addr, place;
	uint32_t generation, bound, waits;
	bool binding; /* else it is being unbound */
};

struct changes {
	const struct sdr_change_kind *kind;
	struct sdr_changer at[SDR_NICS_MAX];
	struct changed *slots;
	uint32_t *done; /* a ring of slots at which nothing is waited for: each once at most */
	uint32_t first, n_done;
};

/* ---- open, close ----------------------------------------------------------------------------- */

void sdr_changes_close(struct sdr_slots *s)
{
	struct changes *w = s->priv;

	for (uint32_t i = 0; i < s->n_nics; i++)
		w->kind->close(&w->at[i], s);
	free(w->slots);
	free(w->done);
	free(w);
	s->priv = NULL;
}

int sdr_changes_open(struct sdr_slots *s, const struct sdr_change_kind *kind)
{
	struct changes *w = calloc(1, sizeof(*w));
	int err = 0;

	if (!w)
		return -ENOMEM;
	s->priv = w;
	w->kind = kind;
	w->slots = calloc(s->n, sizeof(*w->slots));
	w->done = calloc(s->n, sizeof(*w->done));
	if (!w->slots || !w->done)
		err = -ENOMEM;
	for (uint32_t i = 0; i < s->n_nics && !err; i++)
		err = kind->open(&w->at[i], s, i);
	if (err)
		sdr_changes_close(s);
	return err;
}

/* ---- requests and answers -------------------------------------------------------------------- */

static void is_done(const struct sdr_slots *s, struct changes *w, uint32_t slot)
{
	w->done[(w->first + w->n_done++) % s->n] = slot;
}

/* Notes that a NIC has nothing more to say of the slot. */
static void settle(const struct sdr_slots *s, struct changes *w, uint32_t slot, uint32_t nic)
{
	struct changed *x = &w->slots[slot];

	if (!(x->waits & 1u << nic))
		return;
	x->waits &= ~(1u << nic);
	if (!x->waits)
		is_done(s, w, slot);
}

static void fail(struct sdr_slots *s, uint32_t nic, const char *fault)
{
	s->failed |= 1u << nic;
	s->fault = fault;
}

static void ask(struct sdr_slots *s, uint32_t slot, uint32_t nic, uint64_t length)
{
	struct changes *w = s->priv;
	const struct changed *x = &w->slots[slot];
	struct sdr_change change = { .slot = slot,
				     .generation = x->generation,
				     .mr = x->mrs[nic % s->n_devices],
				     .addr = x->addr,
				     .length = length };

	if (w->kind->ask(&w->at[nic], s, &change))
		fail(s, nic, "a request that opens or closes a buffer cannot be posted");
	else
		w->at[nic].asked++;
}

int sdr_changes_bind(struct sdr_slots *s, uint32_t slot, uint32_t generation,
		     struct ibv_mr *const *mrs, uint64_t addr, uint64_t length)
{
	struct changes *w = s->priv;
	struct changed *x = &w->slots[slot];
	struct sdr_change where = { .slot = slot, .generation = generation, .addr = addr };

	*x = (struct changed){ .mrs = mrs,
			       .addr = addr,
			       .place = w->kind->place(s, &where),
			       .generation = generation,
			       .binding = true };
	for (uint32_t i = 0; i < s->n_nics; i++)
		if (!w->at[i].lost && mrs[i % s->n_devices])
			x->waits |= 1u << i;
	x->bound = x->waits;
	for (uint32_t i = 0; i < s->n_nics; i++)
		if (x->bound & 1u << i)
			ask(s, slot, i, length);
	return x->bound ? 0 : -EIO;
}

/*
 * Unbinds a slot. A NIC that was lost cannot be asked: what was bound there waits until nothing
 * comes any more.
 */
int sdr_changes_unbind(struct sdr_slots *s, uint32_t slot)
{
	struct changes *w = s->priv;
	struct changed *x = &w->slots[slot];
	uint32_t was = x->bound;

	x->binding = false;
	x->waits = was;
	for (uint32_t i = 0; i < s->n_nics; i++) {
		if (!(was & 1u << i))
			continue;
		if (!w->at[i].lost)
			ask(s, slot, i, 0);
		else if (w->at[i].over)
			settle(s, w, slot, i);
	}
	if (!was) /* every NIC that it was bound at is over: one says so for all */
		is_done(s, w, slot);
	return 0;
}

static void poll_one(struct sdr_slots *s, struct changes *w, uint32_t nic)
{
	struct ibv_wc wc[SDR_BURST];
	int n = ibv_poll_cq(w->at[nic].channel.send_cq, SDR_BURST, wc);

	for (int i = 0; i < n && !wc[i].status; i++) {
		w->at[nic].answered++;
		settle(s, w, (uint32_t)wc[i].wr_id, nic);
	}
	for (int i = 0; i < n; i++)
		if (wc[i].status) {
			fail(s, nic, ibv_wc_status_str(wc[i].status));
			return;
		}
	if (n < 0)
		fail(s, nic, "a completion queue has failed");
}

static struct sdr_slot_event event_of(const struct sdr_slots *s, const struct changes *w,
				      uint32_t slot)
{
	const struct changed *x = &w->slots[slot];
	struct sdr_slot_event e = { .bound = x->binding, .slot = slot, .addr = x->place };

	for (uint32_t i = 0; i < s->n_nics; i++)
		if (x->bound & 1u << i && !w->at[i].lost)
			e.rkeys[i] = w->kind->rkey(&w->at[i], slot);
	return e;
}

int sdr_changes_poll(struct sdr_slots *s, struct sdr_slot_event *events, uint32_t max)
{
	struct changes *w = s->priv;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_nics; i++)
		if (!w->at[i].lost)
			poll_one(s, w, i);
	for (; n < max && w->n_done; n++, w->n_done--) {
		events[n] = event_of(s, w, w->done[w->first]);
		w->first = (w->first + 1) % s->n;
	}
	return (int)n;
}

/* ---- NICs that fail, and come back ----------------------------------------------------------- */

/* A key that was not told yet binds nothing; one that was told is dead only when it is all over. */
void sdr_changes_lost(struct sdr_slots *s, uint32_t nic, bool over)
{
	struct changes *w = s->priv;

	w->at[nic].lost = true;
	w->at[nic].over |= over;
	for (uint32_t i = 0; i < s->n; i++) {
		struct changed *x = &w->slots[i];

		if (!(x->waits & 1u << nic) || (!x->binding && !over))
			continue;
		if (x->binding)
			x->bound &= ~(1u << nic);
		settle(s, w, i, nic);
	}
	for (uint32_t i = 0; over && i < s->n; i++)
		w->slots[i].bound &= ~(1u << nic);
}

void sdr_changes_bury(struct sdr_slots *s, uint32_t nic)
{
	struct changes *w = s->priv;

	w->kind->close(&w->at[nic], s);
}

int sdr_changes_renew(struct sdr_slots *s, uint32_t nic)
{
	struct changes *w = s->priv;

	w->at[nic].asked = w->at[nic].answered = 0;
	return w->kind->open(&w->at[nic], s, nic);
}

void sdr_changes_joined(struct sdr_slots *s, uint32_t nic)
{
	struct sdr_changer *c = &((struct changes *)s->priv)->at[nic];

	c->lost = c->over = false;
	s->failed &= ~(1u << nic);
}

uint64_t sdr_changes_waits(const struct sdr_slots *s, uint32_t nic, uint64_t *answered)
{
	const struct sdr_changer *c = &((const struct changes *)s->priv)->at[nic];

	*answered = c->answered;
	return c->lost ? 0 : c->asked - c->answered;
}
