/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdio.h>
#include "shiftlib/base/config.h"
#include "shiftlib/conn/watch/judged.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/report/event.h"

static void judged_tell(const struct sh_judge *judge, const struct sh_nic *nic,
			const char *why) SH_LOCKED
{
	struct sh_event event = { .kind = SH_EVENT_GRAY, .cause = judge->cause(nic), .why = why };

	judge->log(nic, why);
	snprintf(event.from, sizeof(event.from), "%s", nic->name);
	sh_event_record(&event);
}

/* Again at each look: what kept it may be over. */
static void judged_drain(const struct sh_judge *judge, struct sh_judged *judged,
			 struct sh_nic *nic) SH_LOCKED
{
	const char *stays;

	if (nic->drained & judge->drain)
		return;
	stays = judge->stays(nic);
	if (!stays) {
		judged_tell(judge, nic, "its connections leave in order");
		sh_nic_avoid(nic, judge->drain, true);
	} else if (stays != judged->told_stays) {
		judged_tell(judge, nic, stays);
	}
	judged->told_stays = stays;
}

static void judged_over(const struct sh_judge *judge, struct sh_judged *judged, struct sh_nic *nic,
			enum sh_event_cause cause) SH_LOCKED
{
	judged->told_stays = NULL;
	sh_event_nic(nic->name, SH_EVENT_GRAY_OVER, cause, 0);
	sh_nic_avoid(nic, judge->drain, false);
}

void sh_judged_act(const struct sh_judge *judge, struct sh_judged *judged, struct sh_nic *nic,
		   bool bad, bool changed)
{
	if (bad && sh.config.gray.mode == SH_GRAY_ON) {
		judged_drain(judge, judged, nic);
	} else if (bad && changed) {
		judged_tell(judge, nic, "it is only watched");
	} else if (changed) {
		judge->log_well(nic);
		judged_over(judge, judged, nic, judge->cause(nic));
	}
}

void sh_judged_use(const struct sh_judge *judge, struct sh_judged *judged, struct sh_nic *nic)
{
	judged_over(judge, judged, nic, SH_CAUSE_DRAIN);
}
