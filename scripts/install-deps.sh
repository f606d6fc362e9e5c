#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Installs the Debian packages that building and testing need. Does nothing, and needs no root,
# when all are there; safe to repeat.
#
# usage: install-deps.sh [--list]
set -eu

packages="
	gcc gcc-aarch64-linux-gnu libc6-dev libc6-dev-arm64-cross binutils make cmake ninja-build pkg-config git
	clang libclang-rt-dev clang-format valgrind
	libibverbs-dev ibverbs-providers ibverbs-utils perftest librdmacm-dev librdmacm1 rdmacm-utils
	infiniband-diags iproute2
	libnl-3-dev libnl-route-3-dev
	libhiredis-dev liblmdb-dev libssl-dev redis-server openssl stunnel4
	libjansson-dev libmicrohttpd-dev
	libisal-dev
	libcmocka-dev spin
	curl python3 python3-matplotlib python3-pytest python3-pyverbs
	debhelper dpkg-dev lintian
	zsh fish
"
policy=/usr/sbin/policy-rc.d

. "$(dirname "$0")/debian.sh"

# The tests start Redis servers of their own; the package shall not start one for the machine.
# A policy that the administrator has made stays as it is.
hold_services()
{
	[ -e "$policy" ] && return
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' INT TERM HUP
}

install()
{
	# Word splitting is meant: these are package names.
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
		install --no-install-recommends $1 >"$log" 2>&1
}

# A fresh machine has no package lists, and one that stood for a while has old ones.
install_or_update()
{
	install "$1" && return
	say "updating the package lists"
	apt-get -qq -o DPkg::Lock::Timeout=300 update || return
	install "$1"
}

if [ "${1:-}" = --list ]; then
	# shellcheck disable=SC2086
	printf '%s\n' $packages
	exit 0
fi
if ! command -v dpkg-query >/dev/null; then
	say "this is no Debian; install what these Debian packages hold:" $packages >&2
	exit 1
fi
# shellcheck disable=SC2086
todo=$(missing $packages)
if [ -z "$todo" ]; then
	say "all packages are installed"
	exit 0
fi
if [ "$(id -u)" != 0 ]; then
	say "run as root: apt-get install$todo" >&2
	exit 1
fi
say "installing$todo"
log=$(mktemp)
hold_services
if ! install_or_update "$todo"; then
	cat "$log" >&2
	rm -f "$log"
	say "apt-get install failed; see above" >&2
	exit 1
fi
rm -f "$log"
# shellcheck disable=SC2086
todo=$(missing $packages)
if [ -n "$todo" ]; then
	say "still missing:$todo" >&2
	exit 1
fi
say "done"
