#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Builds libfabric's own tests (fabtests) against Debian's libfabric, for tests/fabtests: BUILD/fabtests/bin, and beside that
# the lists of its tests. No package of Debian has them. It takes two minutes. Safe to repeat.
#
# usage: build-fabtests.sh [BUILD] [SOURCE]
#   SOURCE   folder or git repository with libfabric's sources (default: those of the installed version, from GitHub)
set -eu

. "$(dirname "$0")/debian.sh"

build=${1:-build}
source=${2:-https://github.com/ofiwg/libfabric}
mkdir -p "$build/fabtests"
to=$(cd "$build/fabtests" && pwd)
[ ! -x "$to/bin/fi_rdm" ] || exit 0
install_debian "autoconf automake libtool make gcc git libfabric-dev libfabric-bin"

folder=$(mktemp -d)
trap 'rm -rf "$folder"; [ -x "$to/bin/fi_rdm" ] || tail -20 "$to/log" >&2' EXIT
version=$(dpkg-query -W -f '${Version}' libfabric-dev | sed 's/-.*//')
say "getting the source of libfabric $version"
: > "$to/log"
if [ -d "$source/fabtests" ]; then
	cp -R "$source/fabtests" "$folder/fabtests"
else
	git clone --quiet --no-checkout --branch "v$version" "$source" "$folder/git" >> "$to/log" 2>&1
	git -C "$folder/git" archive "v$version" fabtests | tar -x -C "$folder"
fi

say "building fabtests"
{
	cd "$folder/fabtests"
	./autogen.sh && ./configure --prefix="$to"
	make -s -j2 && make -s install
	cp -R test_configs scripts/runfabtests.sh "$to/"
} >> "$to/log" 2>&1
say "done"
