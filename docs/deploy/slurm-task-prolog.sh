#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For slurm.conf: TaskProlog=/etc/slurm/shift-task-prolog.sh, with libibverbs1-shift (RPM: libibverbs-shift) installed on all nodes.
# Only jobs that were submitted with SHIFT=1 in their environment run under SHIFT:
#
#   SHIFT=1 sbatch job.sh
#
# Slurm reads the "export" lines that this script prints. The script runs as the job's user.
if [ "${SHIFT:-0}" = 1 ]; then
	echo "export SHIFT_ENABLE=1"
	[ -n "${SHIFT_KV:-}" ] || echo "export SHIFT_KV=redis://kv.cluster:6379"
fi
