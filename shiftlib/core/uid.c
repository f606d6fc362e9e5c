/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fates of compare-and-swaps by shift_uid_cas() (SHIFT_ATOMICS=uid); uid/protocol.h has the
 * rules. Their numbers tell them apart. A swap that compares with a number finds that number once
 * at most, as each is used once: it may run again at any time. A swap that puts in a number must
 * not: it completes without its answer, which the library sees by the value that it had laid in the
 * answer's place. The library then asks for the fate itself, which is safe, as the peer's old queue
 * pair executes nothing any more.
 */
#include "shiftlib/core/internal.h"

/* UID_MARK of uid/protocol.h; UID_COMMITTED is its neighbour. */
#define UID_MARK 0xd4u

static bool uid_is_number(uint64_t word)
{
	return word >> 57 == UID_MARK >> 1;
}

bool sc_uid_decides(const struct sp_request *request, enum sp_fate *fate)
{
	if (!request->uid || !request->published || !request->cas || request->answered)
		return false;
	if (uid_is_number(request->compare)) {
		*fate = SC_MUTANT(UID_STEP_DROPPED) ? SP_FATE_DELIVERED : SP_FATE_RESEND;
		return true;
	}
	if (request->swap >> 56 != UID_MARK)
		return false;
	*fate = SC_MUTANT(UID_AGAIN) ? SP_FATE_RESEND : SP_FATE_DELIVERED;
	return true;
}
