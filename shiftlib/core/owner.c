/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fate of a compare-and-swap that may have run and whose answer is lost. The only question is
 * whether it swapped. If it did, the old value is the one that it compared with. If not, it has
 * changed nothing and may run again, as if it came only now.
 *
 * The word tells, if the application keeps to this (SHIFT_ATOMICS=owner): a value that is swapped
 * in is its owner's alone, nobody writes it there by other means, and it stays until its owner
 * changes it. The owner has not seen the completion, so has done nothing because of the swap. So
 * the word holds the value if, and only if, the swap was made. That stays so until the request
 * completes, as the peer's old queue pair executes nothing any more. Any other word, also the one
 * compared with, says that the swap was not made: only the owner could have changed the value back.
 *
 * The owner may have changed it by requests posted behind the swap without waiting. Then the word
 * tells nothing, and a repeated swap would put in an old value. Requests posted before the swap, of
 * unknown fate, would come again over the value. And a request with the fence flag that has begun
 * says that the swap's answer had come, which is not ours to change. In these cases the fate is as
 * without the word.
 */
#include "shiftlib/core/internal.h"

bool sc_owner_asks(const struct sp_request *request)
{
	return request->published && request->cas && request->swap != request->compare;
}

static bool owner_changes(const struct sp_request *r, uint64_t addr)
{
	return r->bytes && r->addr < addr + sizeof(uint64_t) && addr < r->addr + r->bytes;
}

/* True if the owner may have changed the word since, or had its answer. */
static bool owner_undone_behind(const struct sp_request *r, uint32_t begun, uint32_t i)
{
	for (uint32_t k = i + 1; k < begun; k++)
		if (r[k].published && (r[k].send_fence || owner_changes(&r[k], r[i].addr)))
			return true;
	return false;
}

/* True if an earlier request will come a second time, over the value swapped in. */
static bool owner_undone_again(const struct sp_request *r, uint32_t i, const enum sp_fate *fates)
{
	for (uint32_t k = 0; k < i; k++)
		if (r[k].published && fates[k] == SP_FATE_RESEND && owner_changes(&r[k], r[i].addr))
			return true;
	return false;
}

bool sc_owner_decides(const struct sp_request *requests, uint32_t begun, uint32_t i,
		      enum sp_fate *fates)
{
	const struct sp_request *r = &requests[i];
	bool won = r->word == r->swap && !SC_MUTANT(OWN_IS_LOST);

	if (!sc_owner_asks(r) || !r->told || owner_undone_behind(requests, begun, i) ||
	    owner_undone_again(requests, i, fates))
		return false;
	if (SC_MUTANT(OTHER_IS_WON) && r->word != r->compare)
		won = true;
	fates[i] = won ? SP_FATE_WON : SP_FATE_RESEND;
	return true;
}
