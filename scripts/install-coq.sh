#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Installs Debian's Coq, with the OCaml that it brings, for `make proof` and the tests named proof.*:
# 11 packages, 250 MB to get, 1.0 GB on disk. Does nothing, and needs no root, where it is there.
#
# usage: install-coq.sh
set -eu

say()
{
	echo "install-coq: $*"
}

if command -v coqc >/dev/null && command -v ocamlfind >/dev/null; then
	say "it is installed: $(coqc --print-version)"
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	say "this is no Debian: install Coq 8.16 with OCaml; tests of the proof are skipped" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	say "run as root: apt-get install --no-install-recommends coq" >&2
	exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
get()
{
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1
}
# What apt would do, before it does it; a fresh machine has no package lists.
plan()
{
	apt-get -s install --no-install-recommends coq 2>/dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p'
}
packages=$(plan) && [ -n "$packages" ] || { get update || true; packages=$(plan) || true; }
say "installing $(echo $packages)"
if ! get install --no-install-recommends coq; then
	cat "$log" >&2
	say "it cannot be had; tests of the proof are skipped" >&2
	exit 1
fi
say "done: Coq $(coqc --print-version)"
