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
folder=$build/kernel/packages
# The cloud's kernels have no soft-RoCE, the debugger's symbols are no kernels.
kernels='^linux-image-6\.1\.0-[0-9]+-amd64$'
programs="qemu-system-x86 iproute2 rdmacm-utils libfabric-bin"

. "$(dirname "$0")/debian.sh"

newest_kernel()
{
	apt-cache pkgnames linux-image-6.1.0- | grep -E "$kernels" | sort -V | tail -1
}

# One package's file; nothing is to do where this version is there.
get_package()
{
	file=$(apt-get -qq --print-uris download "$1" 2>/dev/null | cut -d' ' -f2)
	[ -n "$file" ] || return 1
	[ ! -e "$folder/$file" ] || return 0
	say "getting $file"
	(cd "$folder" && apt-get -qq -o APT::Sandbox::User=root download "$1" >"$log" 2>&1) || return 1
	find "$folder" -name "$2_*.deb" ! -name "$file" -delete
}

get_kernel()
{
	kernel=$(newest_kernel)
	[ -n "$kernel" ] && get_package "$kernel" 'linux-image-*' && get_package busybox-static busybox-static
}

get_files()
{
	mkdir -p "$folder"
	get_kernel && return
	say "updating the package lists"
	apt-get -qq -o DPkg::Lock::Timeout=300 update && get_kernel && return
	cat "$log" >&2
	# An older kernel is a kernel.
	ls "$folder"/linux-image-*.deb "$folder"/busybox-static_*.deb >/dev/null 2>&1 &&
		say "using what is in $folder"
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	say "this is no Debian; the lane needs Debian's kernel" >&2
	exit 1
fi
log=$(realpath "$(mktemp)")
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM HUP
failed=0
for what in programs files; do
	case $what in
	programs) install_debian "$programs" ;;
	files) get_files ;;
	esac || { say "no $what; see above" >&2; failed=1; }
done
[ "$failed" -ne 0 ] || say "all is there: $(cd "$folder" && ls linux-image-*.deb)"
exit "$failed"
