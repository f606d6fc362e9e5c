/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sim_mutants.h"
#include "sim_world.h"
#include "sdr/core/mutants.h"

#include <stdio.h>
#include <string.h>

#define CORE(text, what)                                                                           \
	{                                                                                          \
		text, SDR_MUTANT_##what, SIM_MUTANT_NONE                                           \
	}
#define WORLD(text, what)                                                                          \
	{                                                                                          \
		text, SDR_MUTANT_NONE, SIM_MUTANT_##what                                           \
	}

/* What each breaks is the comment at its enumerator. */
static const struct {
	const char *name;
	enum sdr_mutant core;
	enum sim_mutant world;
} mutants[] = {
	WORLD("one-key-for-all-generations", ONE_KEY),
	WORLD("bit-before-payload", BIT_FIRST),
	WORLD("unbound-before-polled", UNBOUND_UNPOLLED),
	WORLD("unbound-before-it-is", UNBOUND_EARLY),
	WORLD("end-counts-less", FORGET_PACKETS),
	WORLD("sent-behind-end", SEND_AFTER_END),
	CORE("no-quarantine", NO_QUARANTINE),
	CORE("count-off-by-one", COUNT_OFF),
	CORE("count-with-duplicates", COUNT_DUPLICATES),
	CORE("reuse-without-end", CLOSE_ALONE),
	CORE("generation-unchecked", ANY_GENERATION),
	CORE("late-packet-counts", LATE_COUNTS),
	CORE("cts-before-bind", CTS_EARLY),
	CORE("complete-without-unbind", NO_UNBIND),
	CORE("cts-by-slot", CTS_BY_SLOT),
	CORE("cts-once", CTS_ONCE),
	CORE("end-once", END_ONCE),
	CORE("known-untold", KNOWN_UNTOLD),
	CORE("send-without-cts", SEND_UNASKED),
	CORE("last-chunk-full", LAST_CHUNK_FULL),
	CORE("last-chunk-early", LAST_CHUNK_EARLY),
	CORE("ack-of-undecoded", ACK_UNDECODED),
	CORE("decode-out-of-too-little", DECODE_SHORT),
	CORE("done-once", DONE_ONCE),
	CORE("done-early", DONE_EARLY),
	CORE("no-fallback", NO_FALLBACK),
	CORE("interleave-off-by-one", INTERLEAVE_OFF),
	CORE("rto-repeats-acknowledged", RTO_ACKED),
	CORE("probe-unanswered", PROBE_UNANSWERED),
	CORE("no-probe", NO_PROBE),
	CORE("hole-named-once", WANT_ONCE),
	CORE("no-deadline", NO_DEADLINE),
	CORE("offer-once", OFFER_ONCE),
	CORE("ack-of-another-write", ACK_OTHER_WRITE),
	CORE("tail-unnamed", TAIL_UNNAMED),
	CORE("fto-without-parity", FTO_WITHOUT_PARITY),
};

void sim_mutants_list(void)
{
	for (size_t i = 0; i < sizeof(mutants) / sizeof(*mutants); i++)
		puts(mutants[i].name);
}

bool sim_mutants_choose(const char *name)
{
	for (size_t i = 0; i < sizeof(mutants) / sizeof(*mutants); i++) {
		if (strcmp(mutants[i].name, name))
			continue;
		sdr_mutant = mutants[i].core;
		sim_mutant = mutants[i].world;
		return true;
	}
	return false;
}
