#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Builds UCX's own tests out of Debian's source package of ucx, for tests/ucx: BUILD/ucx-gtest/gtest. It takes half an hour
# of one processor, and 1 GB in a folder of its own below TMPDIR, which goes afterwards. Safe to repeat.
#
# usage: build-ucx-gtest.sh [BUILD]
set -eu

. "$(dirname "$0")/debian.sh"

build=${1:-build}
mkdir -p "$build/ucx-gtest"
to=$(cd "$build/ucx-gtest" && pwd)
[ ! -x "$to/gtest" ] || exit 0
install_debian "autoconf automake libtool dpkg-dev make g++ pkg-config libibverbs-dev librdmacm-dev"

folder=$(mktemp -d)
trap 'rm -rf "$folder"; [ -x "$to/bin/gtest" ] || tail -20 "$to/log" >&2' EXIT
cd "$folder"

# The machine's own sources of packages, asked for source packages.
mkdir -p lists/partial sources
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
	[ ! -r "$file" ] || sed 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' "$file" > "sources/$(basename "$file")"
done
own="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$folder/sources -o Dir::State::lists=$folder/lists"
say "getting the source of ucx"
# Word splitting is meant: these are options.
# shellcheck disable=SC2086
apt-get -qq $own update && apt-get -qq $own source --download-only ucx >/dev/null
dpkg-source --no-check -x ucx_*.dsc source >/dev/null
cd source

say "building it: half an hour"
# What was compiled before an interruption need not be compiled again.
ccache=$(command -v ccache || :)
flags="-g0 -Wno-error"
{
	./autogen.sh && mkdir out
	cd out
	../configure CC="${ccache:+$ccache }gcc" CXX="${ccache:+$ccache }g++" --prefix="$to" --enable-gtest \
		--enable-params-check --enable-mt --disable-doxygen-doc --without-java --without-go --without-cuda --without-rocm --without-knem --without-xpmem --without-fuse3 --disable-numa \
		--with-verbs --with-mlx5-dv --with-rdmacm
	for part in src/ucm src/ucs src/uct src/ucp src/tools/perf/lib test/gtest; do
		make -s -C "$part" CFLAGS="$flags" CXXFLAGS="-O0 $flags"
	done
} > "$to/log" 2>&1

# The program is linked against the libraries of the build, and loads modules from beside them.
say "installing it into $to"
for part in src/ucm src/ucs src/uct src/ucp; do
	make -s -C "$part" install CFLAGS="$flags"
done >> "$to/log" 2>&1
mkdir -p "$to/bin"
./libtool --mode=install install -m 755 test/gtest/gtest "$to/bin/gtest" >> "$to/log" 2>&1
ln -sf bin/gtest "$to/gtest"
say "done"
