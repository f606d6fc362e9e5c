#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For SHIFT_ON_EVENT, with SHIFT_ON_EVENT_KINDS=switch,degraded,whole. As soon as the traffic is on the backup, asks the
# program for a checkpoint. While the program is degraded, a mark in the folder DEGRADED says so, and since when.
mark=$DEGRADED/$(uname -n)-$SHIFT_EVENT_PID
case $SHIFT_EVENT_KIND in
switch)
	echo "on-switch: $SHIFT_EVENT_FROM failed ($SHIFT_EVENT_CAUSE), process $SHIFT_EVENT_PID is asked for a checkpoint"
	kill -USR1 "$SHIFT_EVENT_PID"
	;;
degraded)
	[ -n "$DEGRADED" ] || exit 0
	mkdir -p "$DEGRADED"
	echo "$SHIFT_EVENT_SINCE $SHIFT_EVENT_NUMBER" > "$DEGRADED/.new-$$" && mv "$DEGRADED/.new-$$" "$mark"
	;;
whole)	# unless it is degraded again: of events of a kind that came meanwhile only the newest is told
	[ -f "$mark" ] && read -r _ number < "$mark" && [ "$number" -lt "$SHIFT_EVENT_NUMBER" ] && rm -f "$mark"
	;;
esac
