#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Gets what the kernel lane (tests/kernel) needs beyond install-deps.sh: QEMU and programs of rdma_cm and libfabric from
# Debian; and Debian's newest kernel of series 6.1 and a static busybox, as files into BUILD/kernel/packages, 72 MB.
# Those two are only unpacked, not installed. Safe to repeat.
#
# usage: install-kernel-lane.sh [BUILD]
set -eu

build=${1:-build}
packages=$build/kernel/packages
programs="qemu-system-x86 iproute2 rdmacm-utils libfabric-bin"

. "$(dirname "$0")/debian.sh"
. "$(dirname "$0")/guest.sh"

get_packages()
{
	get_guest
}

# An older kernel is a kernel.
get_some_files()
{
	get_files && return
	ls "$packages"/linux-image-*.deb "$packages"/busybox-static_*.deb >/dev/null 2>&1 &&
		say "using what is in $packages"
}

begin_lane "Debian's kernel"
failed=0
for what in programs files; do
	case $what in
	programs) install_debian "$programs" ;;
	files) get_some_files ;;
	esac || { say "no $what; see above" >&2; failed=1; }
done
[ "$failed" -ne 0 ] || say "all is there: $(cd "$packages" && ls linux-image-*.deb)"
exit "$failed"
