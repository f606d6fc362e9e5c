# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# For the install-*-lane.sh of this folder, which read it behind debian.sh: Debian's packages as files, for guests of QEMU.
# Who reads it sets packages, the folder of the files, and has get_packages(), which gets those that its lane needs.

# Neither the cloud's kernels, which have no RDMA, nor the debugger's symbols.
kernels='^linux-image-6\.1\.0-[0-9]+-amd64$'

# begin_lane NEED: what no other system has. Makes log, a file for what apt says.
begin_lane()
{
	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		say "this is no Debian; the lane needs $1" >&2
		exit 1
	fi
	log=$(realpath "$(mktemp)")
	trap 'rm -f "$log"' EXIT
	trap 'exit 1' INT TERM HUP
}

newest_kernel()
{
	apt-cache pkgnames linux-image-6.1.0- | grep -E "$kernels" | sort -V | tail -1
}

# get_package PACKAGE PATTERN: its file; nothing is to do where this version is there. Others of the pattern go.
get_package()
{
	file=$(apt-get -qq --print-uris download "$1" 2>/dev/null | cut -d' ' -f2)
	[ -n "$file" ] || return 1
	[ ! -e "$packages/$file" ] || return 0
	say "getting $file"
	(cd "$packages" && apt-get -qq -o APT::Sandbox::User=root download "$1" >"$log" 2>&1) || return 1
	find "$packages" -name "$2_*.deb" ! -name "$file" -delete
}

# A kernel, which is named in kernel, and a static busybox.
get_guest()
{
	kernel=$(newest_kernel)
	[ -n "$kernel" ] && get_package "$kernel" 'linux-image-6.1.0-*' && get_package busybox-static busybox-static
}

# The packages' files, with fresh lists where they are not to be had by the old ones.
get_files()
{
	mkdir -p "$packages"
	get_packages && return
	say "updating the package lists"
	apt-get -qq -o DPkg::Lock::Timeout=300 update && get_packages && return
	cat "$log" >&2
	return 1
}
