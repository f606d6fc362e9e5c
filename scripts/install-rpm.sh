#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Gets what building and trying the RPMs needs beyond install-deps.sh, from Debian. Safe to repeat.
#
# usage: install-rpm.sh
set -eu
. "$(dirname "$0")/debian.sh"
install_debian "rpm"
