/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "shiftlib/core/silence.h"

bool sh_silence_stands(struct sh_silence *silence, uint64_t completions, uint64_t now)
{
	if (silence->since && completions == silence->completions)
		return true;
	silence->since = now;
	silence->completions = completions;
	return false;
}

bool sh_silence_dead(struct sh_silence *silence, uint64_t least_ns, uint64_t now)
{
	if (silence->told || !silence->since || now - silence->since < least_ns)
		return false;
	silence->told = true;
	return true;
}

void sh_silence_over(struct sh_silence *silence)
{
	memset(silence, 0, sizeof(*silence));
}
