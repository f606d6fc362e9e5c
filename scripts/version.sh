# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# For the make-*.sh of this folder, which read it at the root of the tree: which version, and of when.

version=$(sed -n 's/^project(shift VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# The time of what is packed: the commit's, else of the newest entry of debian/changelog.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2> /dev/null) ||
		SOURCE_DATE_EPOCH=$(date -d "$(sed -n 's/^ -- .*>  //p' debian/changelog | head -n 1)" +%s)
fi
export SOURCE_DATE_EPOCH
