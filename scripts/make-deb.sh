#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Builds the Debian packages of this tree in a copy of it, and has lintian look them over: no error, and
# no warning without its reason in debian/*.lintian-overrides. What it needs comes from install-deps.sh.
#
# usage: make-deb.sh FOLDER [--no-lintian] [--arch ARCH]     where the packages go; it is made
#   --no-lintian   the caller does that, beside other work
#   --arch         packages for another architecture, by a cross compiler (in the copy of arm64.sh)
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
folder=$(realpath "$1")
shift
lintian=1
arch=
while [ $# -gt 0 ]; do
	case $1 in
	--no-lintian) lintian= ;;
	--arch) arch=$2; shift ;;
	*) echo "make-deb: what is $1?" >&2; exit 2 ;;
	esac
	shift
done
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' INT TERM HUP

missing=$(dpkg-checkbuilddeps ${arch:+-a "$arch"} 2>&1) || {
	echo "make-deb: $missing; run: scripts/install-deps.sh" >&2
	exit 1
}
rm -f "$folder"/*.deb "$folder"/*.changes "$folder"/*.buildinfo
scripts/copy-tree.sh "$copy/shift-rdma"

echo "make-deb: building (a minute or two; $folder/build.log)"
if ! (cd "$copy/shift-rdma" && dpkg-buildpackage ${arch:+-a "$arch"} -b -us -uc "-j$(nproc)") > "$folder/build.log" 2>&1; then
	tail -30 "$folder/build.log" >&2
	echo "make-deb: the build failed; all of it is in $folder/build.log" >&2
	exit 1
fi
mv "$copy"/*.deb "$copy"/*.changes "$copy"/*.buildinfo "$folder"
python3 -B scripts/check-packages.py "$folder"/*.deb
if [ -n "$lintian" ]; then
	echo "make-deb: lintian"
	lintian --allow-root --fail-on error,warning "$folder"/*.changes
fi
ls -1 "$folder"/*.deb
