#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Builds the RPMs of this tree, source and binary, in a copy of it; also with Debian's rpmbuild, whose packages then serve
# for what the spec file names. The same tree gives the same bytes on the same machine. check-packages.py looks them over.
#
# usage: make-rpm.sh FOLDER      where they go; it is made
set -eu
cd "$(dirname "$0")/.."
. scripts/version.sh
umask 022
mkdir -p "$1"
folder=$(realpath "$1")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' INT TERM HUP

command -v rpmbuild > /dev/null || {
	echo "make-rpm: there is no rpmbuild; run: scripts/install-rpm.sh" >&2
	exit 1
}
rm -f "$folder"/*.rpm
mkdir "$copy/SOURCES"
scripts/copy-tree.sh "$copy/shift-rdma-$version"
tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime="@$SOURCE_DATE_EPOCH" -C "$copy" \
	-cf "$copy/SOURCES/shift-rdma-$version.tar" "shift-rdma-$version"
gzip -9 -n "$copy/SOURCES/shift-rdma-$version.tar"
touch -d "@$SOURCE_DATE_EPOCH" "$copy/SOURCES/shift-rdma-$version.tar.gz"
# Where another package manager rules, the database of RPM is empty.
others=
[ ! -e /var/lib/dpkg/status ] || others=--nodeps

# build KIND OPTION...
build()
{
	rpmbuild $others --define "_topdir $copy" --define "_buildhost shift" --define "vendor SHIFT" \
		--define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
		--define "_libdir /usr/lib64" --define "_libexecdir /usr/libexec" --define "_source_payload w9.gzdio" \
		--define "_binary_payload w9.gzdio" --define "_smp_mflags -j$(nproc)" "$@" "$spec"
}

# A source package has its spec file as it was read, with all folders; so these have names that are nobody's.
build_both()
{
	build -bb &&
		(cd "$copy/SOURCES" && build -bs --define "_sourcedir ." --define "_builddir /usr/src" \
			--define "_buildrootdir /usr/src" --define "_smp_mflags -j1")
}

spec=$(realpath rpm/shift-rdma.spec)
echo "make-rpm: building (a minute or two; $folder/build-rpm.log)"
if ! build_both > "$folder/build-rpm.log" 2>&1; then
	tail -30 "$folder/build-rpm.log" >&2
	echo "make-rpm: the build failed; all of it is in $folder/build-rpm.log" >&2
	exit 1
fi
mv "$copy"/RPMS/*/*.rpm "$copy"/SRPMS/*.rpm "$folder"
python3 -B scripts/check-packages.py "$folder"/*.rpm
ls -1 "$folder"/*.rpm
