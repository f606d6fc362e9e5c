/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A compare-and-swap that may have run, and whose answer is lost: did it swap? That is all that is to be known. One
 * that did has the old value that it compared with. One that did not has changed nothing: it may run again, as if
 * it came only now.
 *
 * The word tells, if the application keeps to this (SHIFT_ATOMICS=owner): a value that is swapped in is its owner's
 * alone, nobody writes it there by other means, and it stays until its owner changes it. The owner has not seen the
 * completion, so nothing that it does because of the swap has been done. So the word holds the value if, and only if,
 * the swap was made; and that stays so until the request completes, as the peer's old queue pair executes nothing any
 * more. Any other word, also the one that was compared with, says that it was not made: a word that
 * had been swapped and was changed back cannot be, as that were its owner's doing.
 *
 * What the owner had posted behind it without waiting may be that doing; then the word tells nothing, nor where it
 * would put in the value that was there. What it had posted before, of unknown fate, would come again over the
 * value. And a request with the fence flag that has begun says that the answer had come: what it
 * was is not ours to change. These end as without the word.
 */
#include "shiftlib/core/internal.h"

bool sc_owner_asks(const struct sp_request *request)
{
	return request->published && request->cas && request->swap != request->compare;
}

static bool changes(const struct sp_request *r, uint64_t addr)
{
	return r->bytes && r->addr < addr + sizeof(uint64_t) && addr < r->addr + r->bytes;
}

/* May its owner have changed the word since, or had its answer? */
static bool undone_behind(const struct sp_request *r, uint32_t begun, uint32_t i)
{
	for (uint32_t k = i + 1; k < begun; k++)
		if (r[k].published && (r[k].send_fence || changes(&r[k], r[i].addr)))
			return true;
	return false;
}

/* Will something from before it come a second time, over what it swapped in? */
static bool undone_again(const struct sp_request *r, uint32_t i, const enum sp_fate *fates)
{
	for (uint32_t k = 0; k < i; k++)
		if (r[k].published && fates[k] == SP_FATE_RESEND && changes(&r[k], r[i].addr))
			return true;
	return false;
}

bool sc_owner_decides(const struct sp_request *requests, uint32_t begun, uint32_t i,
		      enum sp_fate *fates)
{
	const struct sp_request *r = &requests[i];
	bool won = r->word == r->swap && !SC_MUTANT(OWN_IS_LOST);

	if (!sc_owner_asks(r) || !r->told || undone_behind(requests, begun, i) ||
	    undone_again(requests, i, fates))
		return false;
	if (SC_MUTANT(OTHER_IS_WON) && r->word != r->compare)
		won = true;
	fates[i] = won ? SP_FATE_WON : SP_FATE_RESEND;
	return true;
}
