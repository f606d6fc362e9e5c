#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For slurm.conf: Epilog=/etc/slurm/shift-epilog.sh. Runs as root when a job has ended on a node: if slurm-on-event.sh left
# word, nothing more is scheduled there until somebody has mended the NIC. Nothing that the job's user wrote is used.
# On each node once: install -d -m 1777 /var/spool/shift
marks=${SHIFT_MARKS:-/var/spool/shift}
mark=$(find "$marks" -maxdepth 1 -name "$SLURM_JOB_ID" -type f -uid "$SLURM_JOB_UID")
[ -n "$mark" ] || exit 0
rm -f "$mark"
scontrol update "nodename=$SLURMD_NODENAME" state=drain "reason=shift: a NIC failed, or loses packets (job $SLURM_JOB_ID)"
