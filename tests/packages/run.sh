#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Installs, upgrades and removes the packages in a copy of this system: an overlay that is gone with the
# test. Needs root, and says why where it cannot run.
#
# usage: run.sh FOLDER-OF-PACKAGES
set -eu
debs=$(realpath "$1")
here=$(dirname "$(realpath "$0")")

skip()
{
	echo "skipped: $*"
	exit 77
}

[ "$(id -u)" = 0 ] || skip "only root can install packages"
ls "$debs"/*.deb > /dev/null 2>&1 || skip "no packages in $debs; run: make deb"
for tool in unshare chroot ib_write_bw ibv_devinfo cc; do
	command -v $tool > /dev/null || skip "$tool is not installed"
done

if [ "${SHIFT_PACKAGES_INSIDE:-}" != 1 ]; then
	SHIFT_PACKAGES_INSIDE=1 exec unshare --mount --pid --fork --mount-proc "$0" "$debs" || skip "unshare"
fi

top=$(mktemp -d)
mount -t tmpfs tmpfs "$top" || skip "a file system in memory cannot be mounted here"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root" ||
	skip "this kernel has no overlays"
mount --bind /dev "$top/root/dev"
mount -t tmpfs tmpfs "$top/root/dev/shm"
mount -t proc proc "$top/root/proc"
mkdir -p "$top/root/mnt/packages" "$top/root/mnt/test"
cp "$debs"/*.deb "$top/root/mnt/packages"
cp "$here/inside.sh" "$top/root/mnt/test"
result=0
chroot "$top/root" /bin/bash /mnt/test/inside.sh /mnt/packages || result=$?
umount "$top/root/proc" "$top/root/dev/shm" "$top/root/dev" "$top/root" "$top"
rmdir "$top"
exit $result
