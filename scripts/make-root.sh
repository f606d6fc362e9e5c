#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Makes a folder that holds a small Debian of another suite, for tests/distros: its own libibverbs, libmlx5, perftest, Redis
# and Python. What is there already stays. Needs root. Nothing stays mounted, as all that mounts has a namespace of its own.
#
# usage: make-root.sh SUITE FOLDER       FOLDER/SUITE is made, 300 to 450 MB
#   SHIFT_MIRROR   where from (default: where this machine's apt gets Debian)
# exit status: 77 if the suite cannot be had, with the reason in the last line
set -eu

suite=$1
folder=$2
root=$folder/$suite
# What the tests use; then what SHIFT's packages depend on, as there is no network in a test.
packages="libibverbs1 libibverbs-dev ibverbs-providers ibverbs-utils librdmacm1 perftest redis-server redis-tools
	openssl python3 python3-venv iproute2 python3-pyverbs libmicrohttpd12 liblmdb0 libisal2 libnl-3-200 libnl-route-3-200"

. "$(dirname "$0")/debian.sh"

unavailable()
{
	say "$suite: $*"
	exit 77
}

mirror_of_apt()
{
	# These are apt's own variables.
	# shellcheck disable=SC2016
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
		sed -n 's/^Debian|Debian|//p' | head -1
}

# The lists of a fresh machine are empty.
find_mirror()
{
	mirror=${SHIFT_MIRROR:-$(mirror_of_apt)}
	[ -z "$mirror" ] || return 0
	apt-get -qq -o DPkg::Lock::Timeout=300 update > "$log" 2>&1 || :
	mirror=$(mirror_of_apt)
	[ -n "$mirror" ] || unavailable "this machine's apt knows no mirror of Debian; set SHIFT_MIRROR"
}

# An old debootstrap does not know each new suite, which is unpacked as sid is.
script_of()
{
	script=/usr/share/debootstrap/scripts/$suite
	[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
	echo "$script"
}

# What was begun and not ended is begun again. No package may start a service.
unpack()
{
	rm -rf --one-file-system "$root.new"
	say "$suite: unpacking"
	unshare --mount debootstrap --variant=minbase "$suite" "$root.new" "$mirror" "$(script_of)" > "$log" 2>&1 ||
		{ tail -3 "$log"; unavailable "debootstrap cannot make it"; }
	printf '#!/bin/sh\nexit 101\n' > "$root.new/usr/sbin/policy-rc.d"
	chmod 755 "$root.new/usr/sbin/policy-rc.d"
	mv "$root.new" "$root"
}

# inside COMMAND...: in the root.
inside()
{
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child sh -c '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		exec chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
		' sh "$root" "$@"
}

# A mirror that stood for a while is believed where this machine's apt believes it.
apt_inside()
{
	valid=true
	date=true
	eval "$(apt-config shell valid Acquire::Check-Valid-Until date Acquire::Check-Date)"
	inside apt-get -qq -y -o "Acquire::Check-Valid-Until=$valid" -o "Acquire::Check-Date=$date" \
		--no-install-recommends "$@" > "$log" 2>&1 ||
		{ tail -3 "$log"; unavailable "its packages cannot be installed"; }
}

# Word splitting is meant: these are package names.
# shellcheck disable=SC2086
install_packages()
{
	say "$suite: installing" $packages
	apt_inside update
	apt_inside install $packages
	rm -f "$root"/var/cache/apt/archives/*.deb
}

[ "$(id -u)" = 0 ] || unavailable "only root makes a root"
# shellcheck disable=SC2086
made=$(echo "$suite" $packages)
mkdir -p "$folder"
if [ "$(cat "$root.made" 2> /dev/null)" != "$made" ]; then
	command -v debootstrap > /dev/null || install_debian debootstrap || unavailable "debootstrap is not installed"
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	trap 'exit 1' INT TERM HUP
	find_mirror
	[ -d "$root" ] || unpack
	install_packages
	echo "$made" > "$root.made"
fi
say "$suite: rdma-core $(chroot "$root" dpkg-query -W -f '${Version}' libibverbs1)"
