#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Rails of soft-RoCE in one guest. Rail R is a pair of veth interfaces, aR (10.77.R.1) and bR (10.77.R.2), with the
# RDMA devices rxe_aR and rxe_bR on them: what runs on the a devices is one host, what runs on the b devices the other.
#
# rxe answers in the initial network namespace only, so both hosts are there, and every address is a local one.
# Rules make packets take the wire all the same: what comes in over an interface is looked up in the table of local
# addresses, what goes to the rail's other end leaves by the own interface, also where the sender has not chosen an
# address yet (rdma_cm's clients, TCP's), and all else comes after these rules.
#
# usage: rails.sh add N | renew N | up END RAIL | down END RAIL
set -eu

queue="pfifo limit 10000"       # rig.py's QUEUE
mtu=4200        # room for RoCE's 4096 and its headers: under emulation each packet costs

# Of one end of a rail: the other end, both addresses, its routing table.
end_of()
{
	case $1 in
	a) peer=b own=10.77.$2.1 other=10.77.$2.2 table=$((100 + 2 * $2)) ;;
	b) peer=a own=10.77.$2.2 other=10.77.$2.1 table=$((101 + 2 * $2)) ;;
	*) echo "rails.sh: no end $1" >&2; exit 2 ;;
	esac
}

# The numbers of so many.
rails()
{
	seq 0 $(($1 - 1))
}

mac()
{
	[ "$1" = a ] && echo "02:00:00:00:0a:0$2" || echo "02:00:00:00:0b:0$2"
}

# Routes and neighbours go away with an interface that goes down; the addresses stay.
batch_up()
{
	end_of "$1" "$2"
	echo "link set $1$2 up"
	echo "route replace $other dev $1$2 src $own table $table"
	echo "neigh replace $other lladdr $(mac "$peer" "$2") dev $1$2 nud permanent"
}

batch_end()
{
	end_of "$1" "$2"
	echo "addr add $own/24 dev $1$2"
	echo "rule add pref 10 iif $1$2 lookup local"
	echo "rule add pref 20 from $own to $other lookup $table"
	echo "rule add pref 21 from 0.0.0.0/32 to $other lookup $table"
	batch_up "$1" "$2"
}

batch_all()
{
	echo "link set lo up"
	for rail in $(rails "$1"); do
		echo "link add a$rail mtu $mtu address $(mac a "$rail") type veth" \
			"peer name b$rail mtu $mtu address $(mac b "$rail")"
		batch_end a "$rail"
		batch_end b "$rail"
	done
	echo "rule add pref 30 lookup local"
	echo "rule del pref 0"
}

# A veth has no queue of its own: what its other end drops, being down, then comes back to rxe as congestion, and rxe
# tries again for ever, without leaving the CPU. No NIC does that.
# That of lo stays: the first filter of a kernel has its code changed (a static key), and so has the last one's end,
# while the other CPU runs that code. QEMU's translator does not bear it: "soft lockup" in __netif_receive_skb_core.
batch_queues()
{
	echo "qdisc replace dev lo clsact"
	for rail in $(rails "$1"); do
		echo "qdisc replace dev a$rail root $queue"
		echo "qdisc replace dev b$rail root $queue"
	done
}

# A management datagram that rdma_cm sends over a link that is down leaves QP 1 of its device in error, and no
# connection is made there any more.
batch_rdma_gone()
{
	for rail in $(rails "$1"); do
		for end in a b; do
			[ ! -e "/sys/class/infiniband/rxe_$end$rail" ] || echo "link del rxe_$end$rail"
		done
	done
}

batch_rdma()
{
	for rail in $(rails "$1"); do
		echo "link add rxe_a$rail type rxe netdev a$rail"
		echo "link add rxe_b$rail type rxe netdev b$rail"
	done
}

settings()
{
	cd /proc/sys/net
	echo 20000 > core/netdev_max_backlog
	echo 1 > ipv6/conf/default/disable_ipv6
	for which in all default; do
		echo 1 > ipv4/conf/$which/accept_local
		echo 0 > ipv4/conf/$which/rp_filter
		echo 1 > ipv4/conf/$which/arp_ignore
		echo 2 > ipv4/conf/$which/arp_announce
	done
}

case ${1:-} in
add)
	settings
	batch_all "$2" | ip -batch -
	batch_queues "$2" | tc -batch -
	batch_rdma "$2" | rdma -b -
	;;
renew) { batch_rdma_gone "$2" && batch_rdma "$2"; } | rdma -b - ;;
up) batch_up "$2" "$3" | ip -batch - ;;
down) ip link set "$2$3" down ;;
*)
	echo "usage: rails.sh add N | renew N | up END RAIL | down END RAIL" >&2
	exit 2
	;;
esac
