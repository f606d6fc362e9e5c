#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Builds the Debian packages of this tree and looks them over with lintian.
#
# usage: make-deb.sh FOLDER     the packages, in a folder that is made
set -eu
cd "$(dirname "$0")/.."
folder=$1
tools="debhelper dpkg-dev fakeroot lintian"

missing=$(for tool in $tools; do
	dpkg-query -W -f '${db:Status-Status}' "$tool" 2> /dev/null | grep -qx installed || echo "$tool"
done)
if [ -n "$missing" ]; then
	echo "make-deb: installing" $missing
	# Word splitting is meant: these are package names.
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $missing \
		> /dev/null || { echo "make-deb: cannot install them (apt-get update?)" >&2; exit 1; }
fi

mkdir -p "$folder"
folder=$(realpath "$folder")
rm -rf "$folder"/*.deb "$folder/source"
mkdir "$folder/source"
# What belongs to the tree; without its history, also of a tree that has none.
if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
	git ls-files -z --cached --others --exclude-standard
else
	find . -type f -not -path './build*' -not -path './out/*' -print0
fi | tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "$folder/source"

echo "make-deb: building in $folder/source (a minute or two)"
if ! (cd "$folder/source" && dpkg-buildpackage -b -us -uc) > "$folder/build.log" 2>&1; then
	tail -30 "$folder/build.log" >&2
	echo "make-deb: the build failed; all of it is in $folder/build.log" >&2
	exit 1
fi
echo "make-deb: lintian"
lintian --fail-on error,warning "$folder"/*.changes
ls -1 "$folder"/*.deb
