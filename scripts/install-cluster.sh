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

. "$(dirname "$0")/debian.sh"

install_pypi()
{
	! "$folder/bin/python" -c "import simpy" 2>/dev/null || return 0
	"$python" -m venv --system-site-packages "$folder"
	say "installing $pypi into $folder"
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$pypi"
}

failed=0
for what in debian pypi; do
	case $what in
	debian) install_debian "$debian" ;;
	*) "install_$what" ;;
	esac || { say "$what: failed; what needs it is left out" >&2; failed=1; }
done
[ "$failed" -ne 0 ] || say "done: $folder"
exit "$failed"
