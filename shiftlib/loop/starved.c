/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "shiftlib/base/util.h"
#include "shiftlib/loop/starved.h"

#define STARVED_LONG_NS (50 * SH_NS_PER_MS)
#define STARVED_MIN_NS	(2 * SH_NS_PER_MS) /* a little later it comes on a quiet machine, too */
#define STARVED_TIMES	64		   /* are kept */

static struct {
	uint64_t at;
	struct {
		uint64_t from, to;
	} times[STARVED_TIMES]; /* a ring */
	uint32_t n;
} starved;

/*
 * Notes that the thread woke long behind its alarm: it was stopped, or its host paused, so that
 * nobody had time to do what was asked. Or a little behind: it got no processor. An alarm that
 * rang before it slept was not heard as there was work.
 */
void sh_starved_note(uint64_t slept, uint64_t rang, uint64_t now)
{
	uint64_t from = rang > slept ? rang : slept;

	if (now > rang + STARVED_LONG_NS)
		starved.at = now;
	if (now <= from + STARVED_MIN_NS)
		return;
	starved.times[starved.n % STARVED_TIMES].from = from;
	starved.times[starved.n % STARVED_TIMES].to = now;
	starved.n++;
}

uint64_t sh_starved_last(void)
{
	return starved.at;
}

uint64_t sh_starved_had_ns(uint64_t since, uint64_t now)
{
	uint64_t begin = since < starved.at ? starved.at : since, had, from, to;
	uint32_t i;

	had = begin < now ? now - begin : 0;
	for (i = 0; had && i < STARVED_TIMES; i++) {
		from = starved.times[i].from > begin ? starved.times[i].from : begin;
		to = sh_min_ns(starved.times[i].to, now);
		had -= from < to ? to - from : 0;
	}
	return had;
}

void sh_starved_reset(void)
{
	memset(&starved, 0, sizeof(starved));
}
