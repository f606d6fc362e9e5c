#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Runs a command in a copy of this system that builds for arm64: an overlay, in which Debian's second architecture is
# arm64, with its libraries and the cross compiler. The tree is the same inside and outside; nothing else of this system
# changes. The copy stays in FOLDER/system for the next time (500 MB, of which 190 MB are fetched), and is made anew when
# this system's packages have changed. Needs root and Debian; says why where it cannot run, and ends with 77.
#
# usage: arm64.sh FOLDER COMMAND [ARGUMENT...]     such as: arm64.sh build-arm64 make deb
set -eu
tree=$(realpath "$(dirname "$0")/..")
. "$tree/scripts/debian.sh"

# What a program of ours is built of, is tested with, and the wrapper by which pkg-config finds it.
libraries="libibverbs-dev ibverbs-providers librdmacm-dev libnl-3-dev libnl-route-3-dev libhiredis-dev liblmdb-dev
	libssl-dev libjansson-dev libmicrohttpd-dev libisal-dev libcmocka-dev pkg-config"

skip()
{
	echo "skipped: $*"
	exit 77
}

# ---- in the copy ---------------------------------------------------------------------------------------

# An emulator that is one file, for it runs before any library of arm64 is found. It is taken out of its package: to install
# that might tell this system's kernel of it.
get_emulator()
{
	(cd /tmp && apt-get -qq -o APT::Sandbox::User=root download qemu-user-static &&
		dpkg-deb --fsys-tarfile qemu-user-static_*.deb | tar -x -C / ./usr/bin/qemu-aarch64-static &&
		rm qemu-user-static_*.deb)
}

fill()
{
	dpkg --add-architecture arm64 && apt-get -qq update &&
		apt install --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
			$(printf '%s:arm64 ' $libraries) && get_emulator
}

if [ "$1" = --inside ]; then
	shift
	if [ ! -e /var/lib/shift-arm64 ]; then
		say "getting the libraries of arm64 (once; this system stays as it is)"
		fill >/tmp/arm64.log 2>&1 || { cat /tmp/arm64.log; skip "they are not to be had; see above"; }
		touch /var/lib/shift-arm64
	fi
	cd "$tree"
	exec "$@"
fi

# ---- the copy ------------------------------------------------------------------------------------------

# Where an overlay is not possible on the file system of FOLDER, as in most containers, the copy is in memory. It becomes the
# root, for a process that has changed its root by chroot may have no user namespace (tests/run_arm64.py).
enter='
system=$1 tree=$2
shift 2
lay()
{
	mkdir -p "$1/upper" "$1/work" "$system/root" &&
		mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$system/root" 2>/dev/null
}
lay "$system" || { mount -t tmpfs tmpfs "$system" && lay "$system"; } || exit 76
for folder in /dev /dev/shm /sys /run "$tree"; do
	mkdir -p "$system/root$folder" && mount --rbind "$folder" "$system/root$folder" || exit 76
done
mount -t proc proc "$system/root/proc" && cd "$system/root" && pivot_root . mnt && umount -l /mnt || exit 76
exec "$tree/scripts/arm64.sh" --inside "$@"'

folder=$1
shift
[ "$(id -u)" = 0 ] || skip "only root can make a copy of this system"
for tool in dpkg-query apt-get unshare pivot_root; do
	command -v $tool >/dev/null || skip "$tool is not installed"
done
if [ "$(dpkg --print-architecture)" = arm64 ]; then
	skip "this is arm64: build and test as anywhere"
fi
mkdir -p "$folder/system"
system=$(realpath "$folder/system")
# One at a time: two overlays over the same changes would not know of each other.
exec 9>"$folder/system.lock"
flock 9
stamp=$({ cat /var/lib/dpkg/status; echo "$libraries"; } | sha256sum)
if [ "$(cat "$system/of" 2>/dev/null)" != "$stamp" ]; then
	rm -rf "$system"
	mkdir "$system"
	echo "$stamp" >"$system/of"
fi
status=0
unshare --mount --pid --fork --kill-child --mount-proc --ipc sh -c "$enter" enter "$system" "$tree" "$@" || status=$?
[ "$status" != 76 ] || skip "no overlay over this system here"
exit "$status"
