#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Gets the two simulators of bench/cluster, which nothing else needs: SimGrid from Debian (60 MB there) and
# SimPy from PyPI, into BUILD/cluster. Does nothing when both are there; safe to repeat.
#
# usage: install-cluster.sh [BUILD]
set -eu

build=${1:-build}
folder=$build/cluster
debian="python3-simgrid python3-venv"
pypi="simpy==4.1.2"
python=/usr/bin/python3 # that Debian's SimGrid is for, whichever stands first in the path

say()
{
	echo "install-cluster: $*"
}

missing()
{
	for package in $debian; do
		status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=
		[ "$status" = installed ] || printf ' %s' "$package"
	done
}

apt()
{
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@"
}

install_debian()
{
	todo=$(missing)
	[ -n "$todo" ] || return 0
	say "installing$todo"
	if [ "$(id -u)" != 0 ]; then
		say "run as root: apt-get install --no-install-recommends$todo" >&2
		return 1
	fi
	# Word splitting is meant: these are package names.
	# shellcheck disable=SC2086
	apt install --no-install-recommends $todo >/dev/null ||
		{ apt update && apt install --no-install-recommends $todo >/dev/null; }
}

install_pypi()
{
	! "$folder/bin/python" -c "import simpy" 2>/dev/null || return 0
	"$python" -m venv --system-site-packages "$folder"
	say "installing $pypi into $folder"
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$pypi"
}

failed=0
for what in debian pypi; do
	"install_$what" || { say "$what: failed; what needs it is left out" >&2; failed=1; }
done
[ "$failed" -ne 0 ] || say "done: $folder"
exit "$failed"
