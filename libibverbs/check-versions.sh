#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Holds the drop-in against the installed library: every version node of the installed one must be
# in ours (else the loader refuses programs or providers), and ours must export exactly overrides.txt
# and need the installed library under its private name only.
# usage: check-versions.sh DROPIN INSTALLED overrides.txt
set -eu
dropin=$1 installed=$2 overrides=$3
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Version nodes that a library defines.
nodes()
{
	readelf -W -V "$1" | sed -n '/^Version definition/,/^Version needs/p' |
		sed -n 's/.*Name: \(IBVERBS_[A-Z0-9_.]*\).*/\1/p' | sort -u
}

# "NODE name" of each defined function; BASE where the version is the base one.
functions()
{
	readelf -W --dyn-syms "$1" | awk '$4 == "FUNC" && $7 != "UND" { print $8 }' | while read -r s; do
		case $s in
		*@@*) echo "${s#*@@} ${s%%@@*}" ;;
		*@*) echo "${s#*@} ${s%%@*}" ;;
		*) echo "BASE $s" ;;
		esac
	done | sed 's/^libibverbs.so.1 /BASE /' | sort
}

status=0
nodes "$dropin" > "$tmp/ours"
nodes "$installed" > "$tmp/theirs"
if [ ! -s "$tmp/theirs" ]; then
	echo "$installed: no version nodes found" >&2
	status=1
fi
missing=$(comm -13 "$tmp/ours" "$tmp/theirs")
if [ -n "$missing" ]; then
	echo "nodes of $installed that the drop-in lacks:" $missing >&2
	status=1
fi
functions "$dropin" > "$tmp/exported"
awk '!/^#/ && NF == 2 { print $1 " " $2 }' "$overrides" | sort > "$tmp/wanted"
if ! diff "$tmp/wanted" "$tmp/exported" >&2; then
	echo "exported functions (>) differ from $overrides (<)" >&2
	status=1
fi
# An override must lie under the node that the installed library gives it, or nobody asks for it.
functions "$installed" > "$tmp/installed"
grep -v '^BASE ' "$tmp/wanted" | while read -r node name; do
	grep -q " $name\$" "$tmp/installed" || continue # older than this function
	grep -q "^$node $name\$" "$tmp/installed" || echo "$name is not under $node" >&2
done > "$tmp/wrong" 2>&1
if [ -s "$tmp/wrong" ]; then
	cat "$tmp/wrong" >&2
	status=1
fi
# Whatever else it links, verbs come from the installed library alone, by the name beside it.
needed=$(readelf -d "$dropin" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
echo "$needed" | grep -qx libibverbs-distro.so.1 || {
	echo "$dropin does not need libibverbs-distro.so.1" >&2
	status=1
}
if echo "$needed" | grep -q -e '^libibverbs\.so' -e '^libmlx5'; then
	echo "$dropin links a verbs library directly" >&2
	status=1
fi
[ $status -eq 0 ] && echo "$(wc -l < "$tmp/theirs") nodes, $(wc -l < "$tmp/wanted") overrides: good"
exit $status
