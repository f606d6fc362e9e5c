/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The names of events. They need nothing else, as settings name them, too. */
#include <errno.h>
#include <string.h>
#include "shiftlib/report/event.h"

const char *sh_event_kind_name(enum sh_event_kind kind)
{
	static const char *const names[SH_EVENT_KINDS] = {
		[SH_EVENT_SWITCH] = "switch",	    [SH_EVENT_RETURN] = "return",
		[SH_EVENT_FAILED] = "failed",	    [SH_EVENT_UNPROTECTED] = "unprotected",
		[SH_EVENT_PROTECTED] = "protected", [SH_EVENT_NIC_DOWN] = "nic-down",
		[SH_EVENT_NIC_UP] = "nic-up",	    [SH_EVENT_DRAIN] = "drain",
		[SH_EVENT_UNDRAIN] = "undrain",	    [SH_EVENT_KV_LOST] = "kv-lost",
		[SH_EVENT_KV_BACK] = "kv-back",	    [SH_EVENT_GRAY] = "gray",
		[SH_EVENT_GRAY_OVER] = "gray-over", [SH_EVENT_DEGRADED] = "degraded",
		[SH_EVENT_WHOLE] = "whole",	    [SH_EVENT_ENDED] = "ended",
		[SH_EVENT_STALLED] = "stalled",	    [SH_EVENT_FLOWING] = "flowing",
	};

	return kind < SH_EVENT_KINDS ? names[kind] : "unknown";
}

const char *sh_event_cause_name(enum sh_event_cause cause)
{
	static const char *const names[SH_CAUSES] = {
		[SH_CAUSE_NONE] = "none",
		[SH_CAUSE_PORT_DOWN] = "port-down",
		[SH_CAUSE_LINK_LOST] = "link-lost",
		[SH_CAUSE_RETRY_EXCEEDED] = "retry-exceeded",
		[SH_CAUSE_TRANSPORT] = "transport-error",
		[SH_CAUSE_SILENCE] = "silence",
		[SH_CAUSE_HANG] = "hang",
		[SH_CAUSE_FATAL] = "async-fatal",
		[SH_CAUSE_REMOVED] = "removed",
		[SH_CAUSE_CQ] = "cq-error",
		[SH_CAUSE_PEER] = "peer",
		[SH_CAUSE_DRAIN] = "drain",
		[SH_CAUSE_BETTER_NIC] = "better-nic",
		[SH_CAUSE_STANDBY] = "no-standby",
		[SH_CAUSE_DEADLINE] = "deadline",
		[SH_CAUSE_PEER_FATAL] = "peer-fatal",
		[SH_CAUSE_PEER_CLOSED] = "peer-closed",
		[SH_CAUSE_MISCOUNT] = "miscount",
		[SH_CAUSE_ATOMIC] = "atomic",
		[SH_CAUSE_FENCED_READ] = "fenced-read",
		[SH_CAUSE_KEY] = "memory-key",
		[SH_CAUSE_RESOURCE] = "resource",
		[SH_CAUSE_LOSS] = "packet-loss",
		[SH_CAUSE_SLOW] = "slow-link",
		[SH_CAUSE_SLOW_PATH] = "slow-path",
		[SH_CAUSE_APPLICATION] = "application",
		[SH_CAUSE_HOME] = "atomics-wait",
		[SH_CAUSE_PEER_APPLICATION] = "peer-application",
		[SH_CAUSE_PAUSED] = "paused",
		[SH_CAUSE_NO_PROGRESS] = "no-progress",
		[SH_CAUSE_PEER_GONE] = "peer-gone",
		[SH_CAUSE_NOT_READY] = "not-ready",
		[SH_CAUSE_SLOW_PCI] = "slow-pci",
	};

	return cause < SH_CAUSES ? names[cause] : "unknown";
}

static int event_kind(const char *name, size_t length)
{
	int kind;

	for (kind = 0; kind < SH_EVENT_KINDS; kind++) {
		const char *known = sh_event_kind_name((enum sh_event_kind)kind);

		if (strlen(known) == length && !strncmp(known, name, length))
			return kind;
	}
	return -EINVAL;
}

int sh_event_kinds(const char *text, uint32_t *kinds)
{
	size_t length;
	int kind;

	*kinds = (1u << SH_EVENT_KINDS) - 1;
	if (!strcmp(text, "all"))
		return 0;
	for (*kinds = 0;; text += length + 1) {
		length = strcspn(text, ",");
		kind = event_kind(text, length);
		if (kind < 0)
			return kind;
		*kinds |= 1u << kind;
		if (!text[length])
			return 0;
	}
}
