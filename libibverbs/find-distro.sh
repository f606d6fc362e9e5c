#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Prints the path of the installed libibverbs.so.1, to which libibverbs-distro.so.1 must lead.
# Its soname, not the file behind it, whose name changes with each update of the package.
# usage: find-distro.sh [COMPILER]
set -eu
cc=${1:-cc}
path=$("$cc" -print-file-name=libibverbs.so.1 2> /dev/null || :)
case $path in
/*) ;;
*)
	# The compiler knows no such file: where the loader would look.
	path=$(ldconfig -p 2> /dev/null || /sbin/ldconfig -p)
	path=$(echo "$path" | sed -n 's/^[[:space:]]*libibverbs\.so\.1 .*=> //p' | head -n 1)
	;;
esac
if [ -z "$path" ] || [ ! -e "$path" ]; then
	echo "no libibverbs.so.1 is installed (Debian: libibverbs1)" >&2
	exit 1
fi
# Spelled without "..", but with the last link kept.
echo "$(realpath "$(dirname "$path")")/$(basename "$path")"
