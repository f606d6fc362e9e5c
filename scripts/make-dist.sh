#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Makes the archive of a release's source: what the commit has. The same commit gives the same bytes, whoever makes it,
# where and when: nothing of the configuration of git, of the user or of the machine counts. Its times are the commit's.
#
# usage: make-dist.sh FOLDER [BUILD [PACKAGES]]      FOLDER is made, and emptied
#   BUILD      the bill of materials of what it installs is made, too
#   PACKAGES   a folder whose packages come to it
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1
umask 022

fail()
{
	echo "make-dist: $*" >&2
	exit 1
}

git rev-parse --verify --quiet HEAD > /dev/null || fail "the archive is made of a commit, and this is no clone"
attributes=$(git rev-parse --git-path info/attributes)
[ ! -s "$attributes" ] || fail "$attributes would change the archive; take a clone without it"
[ -z "$(git status --porcelain)" ] || echo "make-dist: what is not committed is not in the archive" >&2
version=$(git show HEAD:CMakeLists.txt | sed -n 's/^project(shift VERSION \([0-9.]*\).*/\1/p')
name=shift-rdma-$version
mkdir -p "$1"
rm -f "$1"/shift-rdma-*.tar* "$1"/*.spdx.json "$1"/*.deb "$1"/*.rpm "$1"/*.whl "$1"/SHA256SUMS
git -c core.attributesFile=/dev/null -c core.autocrlf=false -c core.eol=lf -c tar.umask=0022 \
	archive --format=tar --prefix="$name/" HEAD > "$1/$name.tar"
gzip -9 -n "$1/$name.tar"
[ -z "${2:-}" ] || python3 -B scripts/make-sbom.py "$2" "$1/$name.spdx.json" > /dev/null
for kind in ${3:+deb rpm whl}; do
	cp "$3"/*[-_]"$version"[-_]*."$kind" "$1"
done
cd "$1"
sums=$(sha256sum -- *)
echo "$sums" > SHA256SUMS
echo "$sums" | cut -d ' ' -f 3- | sed "s|^|$1/|"
