#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The first process of a guest: loads the modules, makes a root out of the host's files, which stay as they are,
# and runs there the program that the kernel's command line names (lane.run=PROGRAM, in lane.tree=FOLDER).
bb=/bin/busybox

ends()
{
	$bb echo "guest.sh: $*" > /dev/console
	$bb poweroff -f
}

$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev
for word in $($bb cat /proc/cmdline); do
	case $word in
	lane.tree=*) tree=${word#*=} ;;
	lane.run=*) run=${word#*=} ;;
	lane.module=*) with=${word#*=} ;;
	esac
done
# One module may have a parameter: lane.module=NAME:PARAMETER=VALUE
while read -r name; do
	parameter=
	[ "$name" != "${with%%:*}" ] || parameter=${with#*:}
	$bb insmod "/modules/$name.ko" $parameter || ends "module $name does not load"
done < /order

# The host's root, read-only; what the guest writes goes to memory and is gone with it.
cd /mnt
$bb mkdir host new memory
$bb mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host host || ends "no files of the host"
$bb mount -t tmpfs memory memory
$bb mkdir memory/upper memory/work
$bb mount -t overlay root -o lowerdir=host,upperdir=memory/upper,workdir=memory/work new || ends "no overlay"
for name in run; do
	$bb mount -t tmpfs "$name" "new/$name"
done
$bb mount -t proc proc new/proc
$bb mount -t sysfs sys new/sys
$bb mount -t devtmpfs dev new/dev
$bb mkdir -p new/dev/shm new/dev/pts
$bb mount -t tmpfs shm new/dev/shm
$bb mount -t devpts pts new/dev/pts
# Logs go to the host as they come: they are there also when the guest is not any more.
$bb mkdir new/run/out
$bb mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=512000 out new/run/out || ends "no folder for logs"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
$bb chroot new "$tree/$run" < /dev/console > /dev/console 2>&1
ends "$run ended with status $?"
