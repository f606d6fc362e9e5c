#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Prints the path of the installed libibverbs.so.1, to which libibverbs-distro.so.1 must lead; or of librdmacm.so.1.
# Its soname, not the file behind it, whose name changes with each update of the package.
# usage: find-distro.sh [COMPILER [libibverbs|librdmacm]]
set -eu
cc=${1:-cc} library=${2:-libibverbs}
path=$("$cc" -print-file-name=$library.so.1 2> /dev/null || :)
case $path in
/*) ;;
*)
	# The compiler knows no such file: where the loader would look.
	path=$(ldconfig -p 2> /dev/null || /sbin/ldconfig -p)
	path=$(echo "$path" | sed -n 's/^[[:space:]]*'"$library"'\.so\.1 .*=> //p' | head -n 1)
	;;
esac
if [ -z "$path" ] || [ ! -e "$path" ]; then
	echo "no $library.so.1 is installed (Debian: ${library}1)" >&2
	exit 1
fi
# Spelled without "..", but with the last link kept.
echo "$(realpath "$(dirname "$path")")/$(basename "$path")"
