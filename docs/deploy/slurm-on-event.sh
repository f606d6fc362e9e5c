#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For SHIFT_ON_EVENT in a job of Slurm, with SHIFT_ON_EVENT_KINDS=switch,gray: leaves word for slurm-epilog.sh that a NIC
# of this node failed, or has a bad link. The job goes on; the node is drained when it has ended. Runs as the job's user.
marks=${SHIFT_MARKS:-/var/spool/shift}
case "$SHIFT_EVENT_KIND $SHIFT_EVENT_CAUSE" in
# The other node's NIC; an order; to a backup that is back. Of several in one only the newest is told: one of them may be this node's.
"switch peer" | "switch drain" | "switch better-nic") [ "${SHIFT_EVENT_COUNT:-1}" -gt 1 ] || exit 0 ;;
switch*) ;;
"gray packet-loss" | "gray slow-link" | "gray slow-pci") [ "$SHIFT_EVENT_WHY" = "its connections leave in order" ] || exit 0 ;;
*) exit 0 ;;
esac
[ -n "$SLURM_JOB_ID" ] && umask 077 && echo "$SHIFT_EVENT_FROM" > "$marks/$SLURM_JOB_ID"
