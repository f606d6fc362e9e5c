#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For slurm.conf: TaskProlog=/etc/slurm/shift-task-prolog.sh, where libibverbs1-shift is installed on all
# nodes. A job that was submitted with SHIFT=1 in its environment runs under SHIFT, and no other:
#
#   SHIFT=1 sbatch job.sh
#
# Slurm takes "export" lines from what this prints. It runs as the job's user.
if [ "${SHIFT:-0}" = 1 ]; then
	echo "export SHIFT_ENABLE=1"
	[ -n "${SHIFT_KV:-}" ] || echo "export SHIFT_KV=redis://kv.cluster:6379"
fi
