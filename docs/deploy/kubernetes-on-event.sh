#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For SHIFT_ON_EVENT in a pod, with SHIFT_ON_EVENT_KINDS=switch,gray: cordons the node if one of its NICs failed, or has a
# bad link. Pods go on; new ones are placed elsewhere. The image needs kubectl; the pod, NODE_NAME and the account of
# kubernetes-cordon.yaml.
case "$SHIFT_EVENT_KIND $SHIFT_EVENT_CAUSE" in
# The other node's NIC; an order; to a backup that is back. Of several in one only the newest is told: one of them may be this node's.
"switch peer" | "switch drain" | "switch better-nic") [ "${SHIFT_EVENT_COUNT:-1}" -gt 1 ] || exit 0 ;;
switch*) ;;
"gray packet-loss" | "gray slow-link" | "gray slow-pci") [ "$SHIFT_EVENT_WHY" = "its connections leave in order" ] || exit 0 ;;
*) exit 0 ;;
esac
exec kubectl cordon "$NODE_NAME"
