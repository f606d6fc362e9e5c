/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "tools/why_words.h"

#define N(array)   (sizeof(array) / sizeof(*(array)))
#define CHECK_PORT "check cable, transceiver and switch port of that NIC"
#define CHECK_PATH "check the NICs of both ends, and the switch between them"
#define RESTART	   "restart the job from its checkpoint"
#define OTHER_HOST "ask `shiftctl why` on the other host"
#define PAUSED	   "look for pause frames (PFC; ethtool -S, rx_prio*_pause), and who causes them"
#define NOT_READY  "no NIC is at fault: see the program at the other end, which posts no receives"
#define NO_PROGRESS                                                                                \
	"see the program at the other end, and pause frames of both ends (ethtool -S, "            \
	"rx_prio*_pause)"

static const struct why_cause causes[] = {
	{ "port-down", "the port of this host went down", CHECK_PORT },
	{ "link-lost", "the network interface of this host lost its link", CHECK_PORT },
	{ "retry-exceeded", "the path stopped answering", CHECK_PATH },
	{ "transport-error", "an error completion came without a cause", "see dmesg at both ends" },
	{ "silence", "neither heartbeats nor completions came", CHECK_PATH },
	{ "silent-nic", "no peer answers over it, and they answer over other NICs",
	  "check this host's NIC, its cable and its switch's port" },
	{ "hang", "the NIC did not do what it was told", "see dmesg; reset the NIC" },
	{ "async-fatal", "the NIC reported a fatal error", "see dmesg; reset or replace the NIC" },
	{ "removed", "the device was taken away", "see dmesg; look who removed it" },
	{ "cq-error", "a completion queue overran",
	  "the program polls too late, or the backup's queue is smaller (ibv_devinfo -v)" },
	{ "peer", "the other end moved", OTHER_HOST },
	{ "drain", "an operator drained it", "shiftctl undrain, when the work on it is done" },
	{ "better-nic", "a better NIC had recovered", NULL },
	{ "no-standby", "no other NIC was ready", "bring a backup NIC up, at both ends" },
	{ "deadline", "the peer did not answer in time",
	  "look at the other host: its program, all its links" },
	{ "peer-fatal", "the other end could not go on", OTHER_HOST },
	{ "peer-closed", "the other end closed the connection or is gone",
	  "look at the program on the other host" },
	{ "peer-gone", "the peer fell silent on all paths while other peers answered",
	  "look at the other host: its program has ended, or the host is down or cut off" },
	{ "miscount", "a NIC died with data that it had acknowledged", RESTART },
	{ "atomic", "an atomic may have run and must not run twice", RESTART },
	{ "fenced-read", "a fenced request may have run", RESTART },
	{ "memory-key", "memory was not registered on the backup",
	  "raise the limit on locked memory (ulimit -l)" },
	{ "resource", "the backup lacks something", "see column WHY of shiftctl status" },
	{ "atomics-wait", "atomics waited too long for a NIC that runs all of them",
	  "see shiftctl status at the peer" },
	{ "store", "",
	  "check the key-value store: its address (SHIFT_KV), server, password and the way to it" },
	{ "application", "the error is a program's own", "no NIC is at fault: see the program" },
	{ "peer-application", "the error is a program's own, met at the other end",
	  "no NIC is at fault: " OTHER_HOST ", whose program met the error" },
	{ "packet-loss", "packets are lost or damaged", "check cable and transceiver" },
	{ "slow-link", "the link of its port carries less than it can",
	  "check cable, transceiver and the speed of the switch port" },
	{ "slow-pci", "its PCI link carries less than it can",
	  "compare LnkSta with LnkCap (lspci -vv), and look at the seat of the card" },
	{ "slow-path", "round trips take longer than usual",
	  "look for congestion in the switches" },
	{ "paused", "the port may not send", PAUSED },
	{ "no-progress", "all paths answer and the work does not", NO_PROGRESS },
	{ "not-ready", "the program at the other end posts no receive", NOT_READY },
};

static const struct why_kind kinds[] = {
	{ "switch", "left ", " for ", "", "", WHY_MOVE, true },
	{ "return", "went back from ", " to ", "", "", WHY_MOVE, false },
	{ "failed", "on ", "", " could not be moved, and its program got errors",
	  " could not be moved, and their program got errors", WHY_LOST, true },
	{ "ended", "on ", "", " ended with an error that SHIFT does not mend",
	  " ended with an error that SHIFT does not mend", WHY_LOST, true },
	{ "stalled", "on ", "", " stands still", " stand still", WHY_STALL, true },
	{ "flowing", "on ", "", " goes on", " go on", WHY_STALL, false },
	{ "unprotected", "on ", "", " lost its protection", " lost their protection",
	  WHY_PROTECTION, true },
	{ "protected", "on ", "", " is protected by ", " are protected by ", WHY_PROTECTION,
	  false },
	{ "nic-down", "", "", " is not used for now", NULL, WHY_NIC, true },
	{ "nic-up", "", "", " is used again", NULL, WHY_NIC, false },
	{ "drain", "", "", " was drained", NULL, WHY_DRAIN, true },
	{ "undrain", "", "", " may be used again", NULL, WHY_DRAIN, false },
	{ "gray", "", "", " is not well, though nothing has failed", NULL, WHY_GRAY, true },
	{ "gray-over", "", "", " is well again", NULL, WHY_GRAY, false },
	{ "degraded", "of ", "", " runs on a NIC that is not its own",
	  " run on NICs that are not their own", WHY_NONE, false },
	{ "whole", "", "", "no connection is away from its own NIC any more", NULL, WHY_NONE,
	  false },
	{ "kv-lost", "", "", "the key-value store cannot be used (the log says why)", NULL, WHY_KV,
	  true },
	{ "kv-back", "", "", "the key-value store answers again", NULL, WHY_KV, false },
};

/* The first part that a reason has decides. */
static const struct why_reason {
	const char *part, *todo;
} reasons[] = {
	{ "the peer's program asked for what this one does not allow",
	  "no NIC is at fault: see the peer's program (keys, bounds, rights), then how large the "
	  "receives of this one are" },
	{ "the peer is silent on all paths",
	  "look at the other host: its program may be stopped or gone, or all its links down" },
	{ "nothing passes: no NIC is left", "bring a backup NIC up, at both ends" },
	{ "its port sends nothing", PAUSED "; if there are none, see dmesg" },
	{ "no counter of its port says why", NO_PROGRESS },
	{ "or the port may not send", "no NIC is at fault: see the program at the other end, and "
				      "who sends pause frames (PFC)" },
	{ "its port may not send", PAUSED },
	{ "the program at the other end posts no receive", NOT_READY },
	{ "has not left its own NIC", OTHER_HOST },
	{ "has not flushed", "see dmesg; reset the NIC" },
	{ "does not run SHIFT",
	  "run the peer's program under SHIFT (shiftctl run), without SHIFT_DISABLE in its "
	  "environment or /etc/shift.conf, with the same SHIFT_KV and SHIFT_JOB" },
	{ "the same version of SHIFT", "run the same version of SHIFT at both ends" },
	{ "run the same one at both ends", "run the same version of SHIFT at both ends" },
	{ "another protocol", "run the same version of SHIFT at both ends" },
	{ "MAC", "use the same SHIFT_SECRET_FILE on all hosts of the job" },
	{ "there is no third NIC", "repair the NIC that was left; traffic returns by itself" },
	{ "no path to its peer over another NIC answers",
	  "check the backup NICs of both ends, their cables and switch, and that SHIFT_BACKUP "
	  "pairs NICs that reach each other" },
	{ "the peer has no standby", OTHER_HOST },
	{ "no other NIC of its kind", "add a NIC of its kind, or name one in SHIFT_BACKUP" },
	{ "no backup NIC is named", "name a backup in SHIFT_BACKUP" },
	{ "path MTU", "set the same MTU on the interfaces of the NIC and of its backup" },
	{ "partition",
	  "put the ports of the backups of both ends into the job's partition, one end as a full "
	  "member" },
	{ "P_Key",
	  "put the ports of the backups of both ends into the job's partition, one end as a full "
	  "member" },
	{ "VLAN", "give the backup's interface that VLAN, or set SHIFT_ANY_VLAN=on, at both ends" },
	{ "no GID of type", "give the backup's interface an address of that kind" },
	{ "ulimit -n", "raise the limit on file descriptors (ulimit -n)" },
	{ "fds for", "raise the limit on file descriptors (ulimit -n)" },
	{ "file descriptor", "raise the limit on file descriptors (ulimit -n)" },
	{ "ulimit -l", "raise the limit on locked memory (ulimit -l)" },
	{ "memory could not be registered",
	  "raise the limit on locked memory (ulimit -l), or name another backup NIC" },
	{ "no protection domain", "compare the limits of both NICs (ibv_devinfo -v)" },
	{ "could not be made larger",
	  "make the completion queue as large as the queues of all its queue pairs together" },
	{ "could not be made", "raise the limit on locked memory (ulimit -l), or compare the "
			       "limits of both NICs (ibv_devinfo -v)" },
	{ "smaller than its own", "name another backup NIC (ibv_devinfo -v shows their limits)" },
	{ "the device refuses its size",
	  "compare the limits of that NIC with those of the others (ibv_devinfo -v: max_qp_wr, "
	  "max_cqe), or name another backup NIC" },
	{ "control QP cannot be opened",
	  "see the log; raise the limit on locked memory (ulimit -l), or look at that NIC" },
	{ "no room for a flush", "" },
	{ "completion queue overran", "the program polls too late for its completion queue" },
	{ "timestamps", "make its completion queue without timestamps, if it needs none" },
	{ "neither RC nor UD", "only RC queue pairs are protected: see the program" },
	{ "one that SHIFT drives", "only RC queue pairs are protected: see the program" },
	{ "datagrams need no protection", "" },
	{ "its next standby is not ready", "" },
	{ "its standby", "" },
	{ "its peer is found", "" },
	{ "looking for its peer", "" },
	{ "not connected yet", "" },
	{ "setting up", "" },
	{ "preparing", "" },
	{ "the application's own error or close", "" },
	{ "NIC of the standby", "see dmesg, and `ibv_devinfo -v` of that NIC" },
};

const struct why_cause *why_cause(const struct why_kind *kind, const char *cause)
{
	if (kind->group == WHY_NIC && !strcmp(cause, "silence"))
		cause = "silent-nic";
	if (kind->group == WHY_KV && kind->opens)
		cause = "store";
	for (size_t i = 0; i < N(causes); i++)
		if (!strcmp(cause, causes[i].cause))
			return &causes[i];
	return NULL;
}

const struct why_kind *why_kind(const char *kind)
{
	for (size_t i = 0; i < N(kinds); i++)
		if (!strcmp(kind, kinds[i].kind))
			return &kinds[i];
	return NULL;
}

const char *why_remedy(const char *reason)
{
	for (size_t i = 0; i < N(reasons); i++)
		if (strstr(reason, reasons[i].part))
			return reasons[i].todo;
	return NULL;
}
