#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Gets Prometheus and promtool for the tests of the exporter, out of Debian's package and into
# BUILD/programs/prometheus: 19 MB to get, 98 MB there. The package itself would bring 330 MB with what it
# depends on, and a service. Does nothing where both are installed or there already.
#
# usage: get-prometheus.sh [BUILD]
set -eu

build=${1:-build}
folder=$build/programs/prometheus

say()
{
	echo "get-prometheus: $*"
}

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
	say "it is installed"
	exit 0
fi
if [ -x "$folder/prometheus" ] && [ -x "$folder/promtool" ]; then
	say "it is in $folder"
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	say "this is no Debian: install prometheus and promtool; tests of them are skipped" >&2
	exit 1
fi
got=$(mktemp -d)
trap 'rm -rf "$got"' EXIT
get()
{
	(cd "$got" && apt-get -qq download prometheus >log 2>&1)
}
say "getting Debian's package prometheus"
# A fresh machine has no package lists, and one that stood for a while has old ones.
if ! get && ! { [ "$(id -u)" = 0 ] &&
	apt-get -qq -o DPkg::Lock::Timeout=300 update >"$got/log" 2>&1 && get; }; then
	cat "$got/log" >&2
	say "it cannot be had; tests of it are skipped" >&2
	exit 1
fi
dpkg-deb -x "$got"/prometheus_*.deb "$got/x"
mkdir -p "$folder"
cp "$got/x/usr/bin/prometheus" "$got/x/usr/bin/promtool" "$folder/"
say "done"
