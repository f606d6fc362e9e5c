#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Builds the packages, unless some are given, and installs, upgrades and removes them in a copy of this
# system: an overlay that is gone with the test. Needs root, and says why where it cannot run.
#
# usage: run.sh [--debs FOLDER] [--cuts N|all] [--steps NAME,...] [--autopkgtest]
#   --cuts         at how many random points each operation is killed (2)
#   --steps        only these of inside.py
#   --autopkgtest  instead, debian/tests by autopkgtest, which is installed in the copy
set -eu
here=$(dirname "$(realpath "$0")")
tree=$(realpath "$here/../..")
debs=
cuts=2
steps=
autopkgtest=
lintian=
while [ $# -gt 0 ]; do
	case $1 in
	--debs) debs=$(realpath "$2"); shift ;;
	--cuts) cuts=$2; shift ;;
	--steps) steps=$2; shift ;;
	--autopkgtest) autopkgtest=1 ;;
	*) echo "run.sh: what is $1?" >&2; exit 2 ;;
	esac
	shift
done

skip()
{
	echo "skipped: $*"
	exit 77
}

[ "$(id -u)" = 0 ] || skip "only root can install packages"
for tool in dpkg unshare chroot ib_write_bw ibv_devices cc setpriv; do
	command -v $tool > /dev/null || skip "$tool is not installed"
done
top=$(mktemp -d)
# In namespaces of its own: whatever happens, no mount and no process is left.
inside="unshare --mount --pid --fork --kill-child --mount-proc --ipc"
enter=$here/enter.sh
$inside true 2> "$top/why" || skip "no namespaces here: $(cat "$top/why")"
mkdir "$top/copy" "$top/share"
trap 'rm -rf "$top"' EXIT
$inside "$enter" / "$top" "$top/share" true 2> "$top/why" || skip "no overlay over this system: $(cat "$top/why")"

if [ -z "$debs" ]; then
	debs=$top/share/debs
	# Not optimised, described or packed well: it is what is done with files that counts here, and CI has two cores.
	DEB_BUILD_OPTIONS="noopt noautodbgsym parallel=$(nproc)" DEB_CFLAGS_APPEND=-g0 \
		DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1 "$tree/scripts/make-deb.sh" "$debs" --no-lintian
	# What follows mostly waits.
	lintian --allow-root --fail-on error,warning "$debs"/*.changes > "$top/lintian" 2>&1 &
	lintian=$!
else
	mkdir "$top/share/debs"
	cp "$debs"/*.deb "$top/share/debs"
fi
rm -f "$top/share/debs"/*-dbgsym_*.deb
cp -r "$here" "$tree/tests/lib" "$tree/debian" "$tree/docs" "$top/share"
cc -shared -fPIC -D_GNU_SOURCE "$here/cut.c" -o "$top/share/cut.so"
set -- python3 /mnt/shift/packages/inside.py --debs /mnt/shift/debs --cut /mnt/shift/cut.so --cuts "$cuts" \
	${steps:+--steps "$steps"}
[ -z "$autopkgtest" ] || set -- sh -c '
	echo "run.sh: installing autopkgtest (in the copy alone)"
	apt-get -qq -y --no-install-recommends install autopkgtest > /mnt/shift/apt.log 2>&1 ||
		{ cat /mnt/shift/apt.log; echo "skipped: autopkgtest cannot be installed"; exit 77; }
	autopkgtest -B /mnt/shift/debs/*.deb /mnt/shift/ -- null'
status=0
$inside "$enter" / "$top" "$top/share" env PYTHONDONTWRITEBYTECODE=1 PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@" || status=$?
if [ -n "$lintian" ] && ! wait $lintian; then
	echo "FAILED lintian"
	cat "$top/lintian"
	status=1
fi
exit $status
