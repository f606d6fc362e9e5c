/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/admin/waits.h"
#include "shiftlib/base/util.h"
#include "shiftlib/nic/nic.h"

void admin_held(struct sh_json *json, const struct sh_held_path *held)
{
	if (!held->nic) {
		sh_json_text(json, ", \"held\": null");
		return;
	}
	sh_json_print(json, ", \"held\": {\"falls\": %u, \"left_ms\": %llu, \"nic\": ", held->falls,
		      (unsigned long long)(held->left_ns / SH_NS_PER_MS));
	sh_json_string(json, held->nic->name);
	sh_json_print(json, "}");
}

void admin_stalled(struct sh_json *json, const struct sh_stall_why *why, uint64_t ns)
{
	if (!why) {
		sh_json_text(json, ", \"stalled\": null");
		return;
	}
	sh_json_print(json, ", \"stalled\": {\"ms\": %llu, \"cause\": \"%s\", \"why\": ",
		      (unsigned long long)(ns / SH_NS_PER_MS), sh_event_cause_name(why->cause));
	sh_json_string(json, why->text);
	sh_json_print(json, "}");
}
