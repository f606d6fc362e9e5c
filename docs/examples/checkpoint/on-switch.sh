#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For SHIFT_ON_EVENT: as soon as the traffic is on the backup, ask the program for a checkpoint.
[ "$SHIFT_EVENT_KIND" = switch ] || exit 0
echo "on-switch: $SHIFT_EVENT_FROM failed ($SHIFT_EVENT_CAUSE), process $SHIFT_EVENT_PID is asked for a checkpoint"
kill -USR1 "$SHIFT_EVENT_PID"
