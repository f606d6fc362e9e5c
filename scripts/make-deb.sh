#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Builds the Debian packages of this tree in a copy of it, and has lintian look them over: no error, and
# no warning without its reason in debian/*.lintian-overrides. What it needs comes from install-deps.sh.
#
# usage: make-deb.sh FOLDER [--no-lintian]     where the packages go; it is made
#   --no-lintian   the caller does that, beside other work
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
folder=$(realpath "$1")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' INT TERM HUP

missing=$(dpkg-checkbuilddeps 2>&1) || {
	echo "make-deb: $missing; run: scripts/install-deps.sh" >&2
	exit 1
}
rm -f "$folder"/*.deb "$folder"/*.changes "$folder"/*.buildinfo
# What belongs to the tree; also of one that came without its history.
mkdir "$copy/shift-rdma"
if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
	git ls-files -z --cached --others --exclude-standard
else
	find . '(' -type f -o -type l ')' -not -path './build*' -not -path './out/*' -print0
fi | tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "$copy/shift-rdma"

echo "make-deb: building (a minute or two; $folder/build.log)"
if ! (cd "$copy/shift-rdma" && dpkg-buildpackage -b -us -uc "-j$(nproc)") > "$folder/build.log" 2>&1; then
	tail -30 "$folder/build.log" >&2
	echo "make-deb: the build failed; all of it is in $folder/build.log" >&2
	exit 1
fi
mv "$copy"/*.deb "$copy"/*.changes "$copy"/*.buildinfo "$folder"
if [ "${2:-}" != --no-lintian ]; then
	echo "make-deb: lintian"
	lintian --allow-root --fail-on error,warning "$folder"/*.changes
fi
ls -1 "$folder"/*.deb
