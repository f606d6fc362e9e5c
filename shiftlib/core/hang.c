/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdbool.h>
#include "shiftlib/core/hang.h"

static bool hang_longer(uint64_t since, uint64_t limit_ns, uint64_t now)
{
	return since && now - since >= limit_ns;
}

/* The NIC sends nothing: judges it by a command. One that already runs is as good as ours. */
static enum sh_hang_verdict hang_obeys(struct sh_hang *hang, const struct sh_hang_config *config,
				       uint64_t busy_since, uint64_t now)
{
	if (hang_longer(busy_since, config->command_ns, now))
		return SH_HANG_HUNG;
	if (hang->asked_at || now < hang->ask_again_at)
		return SH_HANG_NONE;
	hang->asked_at = now;
	return SH_HANG_ASK;
}

enum sh_hang_verdict sh_hang_judge(struct sh_hang *hang, const struct sh_hang_config *config,
				   uint64_t waiting_since, uint64_t busy_since, uint64_t now)
{
	if (!hang_longer(waiting_since, config->send_ns, now))
		return SH_HANG_NONE;
	return hang_obeys(hang, config, busy_since, now);
}

void sh_hang_answered(struct sh_hang *hang, const struct sh_hang_config *config, uint64_t now)
{
	hang->asked_at = 0;
	hang->ask_again_at = now + config->command_ns;
}
