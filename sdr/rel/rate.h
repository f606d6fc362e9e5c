/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rate of a sender that shares its link with others. The shell tells what was sent, and what
 * came back of it: delays and losses. Pure; times in ns, sizes in bytes.
 *
 * The rules are Compound TCP's (Tan, Song, Zhang, Sridharan: "A Compound TCP Approach for
 * High-speed and Long Distance Networks", INFOCOM 2006): the window is a sum of two parts. The slow
 * part grows by a packet in a round trip, as TCP Reno's does, so that flows of TCP get their share.
 * The fast part takes what is idle, and gives way as the queue grows.
 *
 * Two rules are for links that lose packets without being full. A loss counts only while a queue
 * stands, as in TCP Veno (Fu, Liew, IEEE JSAC 21(2), 2003), or if more than 5 % are lost. The
 * window shrinks by what stands in the queue, as in H-TCP (Leith, Shorten, PFLDnet 2004), but by a
 * fifth at least and a half at most. Packets at even distances find room where TCP's pairs of them
 * do not, so TCP alone would lose: a long queue that falls counts as a loss of this sender's, too,
 * but as one of what has fallen alone. It may have fallen as this sender's own fast part gave way.
 */
#ifndef SDR_REL_RATE_H
#define SDR_REL_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct sdr_rate {
	uint32_t packet;
	bool starts; /* the window doubles in each round trip */
	bool holds;  /* the window was made smaller a round trip ago: its effect is not seen yet */
	bool known;  /* a delay was heard */
	double slow, fast; /* bytes of each part of the window */

	uint32_t first_us;	    /* the first delay, which the others are counted from */
	int64_t least_us, newer_us; /* least delay of the last one to two spans, and of the last */
	uint64_t span_at;
	int64_t last_us[2]; /* the last two delays: the less of both tells the queue now */
	uint64_t rtt_ns;    /* least round trip */
	double most_queue;  /* ns; the longest queue, which is forgotten slowly */
	double peak;	    /* ns; the longest queue since the window was made smaller */

	/* the present round */
	uint64_t round_at;
	int64_t round_least_us;
	uint32_t samples, silent; /* silent: number of rounds in which nothing was heard */
	bool heard;
	uint64_t round_sent; /* packets */
	uint64_t queue_ns;   /* the last round's that was judged */

	/* rounds since the last one that was judged: those without a delay are not */
	uint32_t rounds;
	uint64_t sent, lost, few; /* packets; few: those of lost that were a small part */
	double sent_lately, lost_lately;
};

/* rtt_ns: a guess. */
void sdr_rate_init(struct sdr_rate *r, uint32_t packet, uint64_t rtt_ns, uint64_t now);
void sdr_rate_sent(struct sdr_rate *r, uint32_t packets);
void sdr_rate_lost(struct sdr_rate *r, uint32_t packets);
/*
 * Takes losses that a code made good, told at once for all the packets that they are of: more than
 * were sent in a round trip, maybe.
 */
void sdr_rate_restored(struct sdr_rate *r, uint32_t packets, uint32_t of);
/*
 * Takes a round trip and the time from here to there, in us of clocks that need not agree: the
 * other end's time at the arrival less this end's at the departure.
 */
void sdr_rate_heard(struct sdr_rate *r, uint64_t rtt_ns, uint32_t delay_us, uint64_t now);
/* Something came back, but no time that can be trusted. */
void sdr_rate_alive(struct sdr_rate *r);
/* Ends the round when it is due. */
void sdr_rate_tick(struct sdr_rate *r, uint64_t now);
/* Bits per second that may leave now. */
uint64_t sdr_rate_bps(const struct sdr_rate *r);
/* Returns how many packets may leave at once: more would be a queue of their own. */
uint32_t sdr_rate_burst(const struct sdr_rate *r);
/* Returns the queue, in ns, that a sender keeps where nobody else fills it. */
uint64_t sdr_rate_target(uint64_t rtt_ns);

#endif
