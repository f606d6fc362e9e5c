/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rules of core and rel that the simulation breaks on purpose; compiled in for tests alone. */
#ifndef SDR_CORE_MUTANTS_H
#define SDR_CORE_MUTANTS_H

enum sdr_mutant {
	SDR_MUTANT_NONE,
	SDR_MUTANT_NO_QUARANTINE,    /* a slot is free as soon as it is unbound */
	SDR_MUTANT_COUNT_OFF,	     /* the count rule is content with one packet less */
	SDR_MUTANT_COUNT_DUPLICATES, /* the count rule is content with duplicates */
	SDR_MUTANT_CLOSE_ALONE, /* a lifetime from the close, whether or not the sender has ended */
	SDR_MUTANT_ANY_GENERATION,   /* the generation of a packet is not looked at */
	SDR_MUTANT_LATE_COUNTS,	     /* a packet after the close marks bits */
	SDR_MUTANT_CTS_EARLY,	     /* CTS before the bind is done */
	SDR_MUTANT_NO_UNBIND,	     /* a receive completes without its unbinding */
	SDR_MUTANT_CTS_BY_SLOT,	     /* a CTS of an earlier use of the slot is taken */
	SDR_MUTANT_CTS_ONCE,	     /* a lost CTS is not repeated */
	SDR_MUTANT_END_ONCE,	     /* a lost END is not repeated */
	SDR_MUTANT_KNOWN_UNTOLD,     /* the peer's repeats are not answered */
	SDR_MUTANT_SEND_UNASKED,     /* sends without a CTS */
	SDR_MUTANT_LAST_CHUNK_FULL,  /* the last chunk waits for packets that there are none of */
	SDR_MUTANT_LAST_CHUNK_EARLY, /* or does not wait for its last packet */
	/* decodable chunks are acknowledged undecoded */
	SDR_MUTANT_ACK_UNDECODED,
	SDR_MUTANT_DECODE_SHORT,       /* decodes with one chunk of parity less than it takes */
	SDR_MUTANT_DONE_ONCE,	       /* DONE is not repeated */
	SDR_MUTANT_DONE_EARLY,	       /* DONE with the last chunk missing */
	SDR_MUTANT_NO_FALLBACK,	       /* chunks that cannot be decoded are never asked for */
	SDR_MUTANT_INTERLEAVE_OFF,     /* a chunk counts for the submessage beside its own */
	SDR_MUTANT_RTO_ACKED,	       /* timers repeat what was acknowledged */
	SDR_MUTANT_PROBE_UNANSWERED,   /* the receiver says nothing when asked */
	SDR_MUTANT_NO_PROBE,	       /* the sender does not ask when nothing comes */
	SDR_MUTANT_WANT_ONCE,	       /* a hole is named once, whether or not the repeat came */
	SDR_MUTANT_NO_DEADLINE,	       /* a Write waits for ever */
	SDR_MUTANT_OFFER_ONCE,	       /* how a Write is coded is said once */
	SDR_MUTANT_ACK_OTHER_WRITE,    /* an acknowledgement is taken for any Write under way */
	SDR_MUTANT_TAIL_UNNAMED,       /* losses at the end of a NACKed Write are not named */
	SDR_MUTANT_FTO_WITHOUT_PARITY, /* the fallback does not wait for the parity */
	SDR_MUTANT_JOIN_NO_REST,       /* a NIC joins before a packet's lifetime has passed */
	SDR_MUTANT_JOIN_UNCONNECTED,   /* a NIC is used before the peer is connected */
	SDR_MUTANT_JOIN_LATE_HEAD,     /* an old head is taken for what is so now */
	SDR_MUTANT_JOIN_OLD_KEYS       /* keys of an earlier life are used */
};

#ifdef SDR_MUTANTS
extern enum sdr_mutant sdr_mutant;
#define SDR_MUTATED(name) (sdr_mutant == SDR_MUTANT_##name)
#else
#define SDR_MUTATED(name) 0
#endif

#endif
