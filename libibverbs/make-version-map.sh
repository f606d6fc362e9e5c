#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Writes the linker's version script: every version node that an installed libibverbs may have, so
# that the loader accepts ours in its place, with the overrides of overrides.txt under their nodes.
# There is no `local: *`, as the BASE symbols must keep the base version; everything else is hidden
# by -fvisibility=hidden and --exclude-libs, and a test compares what is exported with the list.
# usage: make-version-map.sh overrides.txt > libibverbs.map
set -eu
awk '
/^#/ || NF == 0 { next }
NF != 2 { print FILENAME ": bad line: " $0 > "/dev/stderr"; bad = 1; exit }
$1 != "BASE" { names[$1] = names[$1] "\t\t" $2 ";\n"; asked[$1] = 1 }
END {
	if (bad)
		exit 1
	parent = ""
	for (i = 0; i <= 40; i++) {
		node = "IBVERBS_1." i
		delete asked[node]
		if (names[node] == "")
			printf "%s {\n}%s;\n", node, parent
		else
			printf "%s {\n\tglobal:\n%s}%s;\n", node, names[node], parent
		parent = " " node
	}
	for (i = 1; i <= 128; i++)
		printf "IBVERBS_PRIVATE_%d {\n};\n", i
	split("SHIFT_1.0 RDMACM_1.0", others)
	for (i in others) {
		delete asked[others[i]]
		printf "%s {\n\tglobal:\n%s};\n", others[i], names[others[i]]
	}
	for (node in asked) {
		print "no such node: " node > "/dev/stderr"
		exit 1
	}
}' "$1"
