#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Runs a command in an overlay over a system, whose files stay as they are. To be run in a mount namespace of its own, with
# which all mounts go.
#
# usage: enter.sh SYSTEM TOP SHARE COMMAND...
#   TOP     a folder with an empty folder "copy", for what is written
#   SHARE   a folder, which is /mnt/shift there
#   SHIFT_ALSO  more folders, with colons between them, that are there at their own places and cannot be changed
# exit status: 77 if there is no overlay
set -eu
system=$1
top=$2
share=$3
shift 3
mount -t tmpfs tmpfs "$top/copy"
mkdir "$top/copy/upper" "$top/copy/work" "$top/copy/root"
mount -t overlay overlay -o "lowerdir=$system,upperdir=$top/copy/upper,workdir=$top/copy/work" "$top/copy/root" ||
	exit 77
root=$top/copy/root
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/run"
mount -t proc proc "$root/proc"
mkdir -p "$root/mnt/shift"
mount --bind "$share" "$root/mnt/shift"
IFS=:
for folder in ${SHIFT_ALSO:-}; do
	mkdir -p "$root$folder"
	mount --bind "$folder" "$root$folder"
	mount -o remount,bind,ro "$root$folder"
done
unset IFS
exec chroot "$root" "$@"
