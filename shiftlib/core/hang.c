/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdbool.h>
#include "shiftlib/core/hang.h"

static bool hang_longer(uint64_t since, uint64_t limit_ns, uint64_t now)
{
	return since && now - since >= limit_ns;
}

/* A command that already runs is as good as ours. */
static bool hang_asks(struct sh_hang *hang, uint64_t busy_since, uint64_t now)
{
	if (busy_since || hang->asked_at || now < hang->ask_again_at)
		return false;
	hang->asked_at = now;
	return true;
}

enum sh_hang_verdict sh_hang_judge(struct sh_hang *hang, const struct sh_hang_config *config,
				   uint64_t waiting_since, uint64_t busy_since, uint64_t now)
{
	if (hang_longer(waiting_since, config->send_ns, now) &&
	    hang_longer(busy_since, config->command_ns, now))
		return SH_HANG_HUNG;
	if (hang_longer(waiting_since, config->ask_ns, now) && hang_asks(hang, busy_since, now))
		return SH_HANG_ASK;
	return SH_HANG_NONE;
}

static uint64_t hang_first_after(uint64_t now, const uint64_t *times, uint32_t n)
{
	uint64_t first = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (times[i] > now && (!first || times[i] < first))
			first = times[i];
	return first;
}

uint64_t sh_hang_next(const struct sh_hang *hang, const struct sh_hang_config *config,
		      uint64_t waiting_since, uint64_t busy_since, uint64_t now)
{
	const uint64_t times[] = { waiting_since + config->ask_ns, waiting_since + config->send_ns,
				   busy_since + config->command_ns, hang->ask_again_at };

	return waiting_since ? hang_first_after(now, times, sizeof(times) / sizeof(times[0])) : 0;
}

void sh_hang_answered(struct sh_hang *hang, const struct sh_hang_config *config, uint64_t now)
{
	hang->asked_at = 0;
	hang->ask_again_at = now + config->command_ns;
}
