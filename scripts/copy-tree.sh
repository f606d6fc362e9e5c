#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Copies what belongs to this tree, with changes that are not committed; also of a tree without its history.
#
# usage: copy-tree.sh FOLDER     it is made
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
	git ls-files -z --cached --others --exclude-standard
else
	find . '(' -type f -o -type l ')' -not -path './build*' -not -path './out/*' -print0
fi | tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "$1"
