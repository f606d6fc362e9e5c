#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Gets what the driver lane (tests/driver) and simnic's PCI device (simnic/pci) need beyond install-deps.sh: QEMU from
# Debian, the headers of that very QEMU from its source package, the kernel's headers and image, a static busybox.
# All but QEMU is unpacked below BUILD/driver, not installed: 110 MB are fetched, 200 MB stay. Safe to repeat.
#
#   BUILD/driver/qemu/      include/, and generated/ (what QEMU's own build would make)
#   BUILD/driver/glib/      headers of GLib, which QEMU's headers include
#   BUILD/driver/mlx5/      the driver's headers, against which the field table is held
#   BUILD/driver/packages/  linux-image-*.deb and busybox-static_*.deb, for the guest
#
# With "backports" also the newest kernel that Debian 12 has in bookworm-backports: 110 MB more.
#
# usage: install-driver-lane.sh [BUILD [backports]]
set -eu

build=${1:-build}
newer=${2:-}
programs="qemu-system-x86 dpkg-dev patch"

. "$(dirname "$0")/debian.sh"
. "$(dirname "$0")/guest.sh"

mkdir -p "$build/driver/packages"
folder=$(realpath "$build/driver")
packages=$folder/packages

get_packages()
{
	get_guest || return 1
	headers=$(echo "$kernel" | sed 's/image/headers/; s/-amd64$/-common/')
	get_package "$headers" 'linux-headers-*' && get_package libglib2.0-dev libglib2.0-dev
}

# apt with lists of its own, which has the suite bookworm-backports of the machine's mirror alone.
apt_backports()
{
	backports=$folder/backports
	program=$1
	shift
	"$program" -qq -o Dir::Etc::sourcelist=- -o "Dir::Etc::sourceparts=$backports/parts" -o Dir::Cache::pkgcache= \
		-o "Dir::State::lists=$backports/lists" -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root "$@"
}

backports_list()
{
	mkdir -p "$folder/backports/lists/partial" "$folder/backports/parts"
	for list in /etc/apt/sources.list.d/*.sources; do
		! grep -q '^Suites: bookworm ' "$list" 2>/dev/null ||
			sed 's/^Suites: bookworm .*/Suites: bookworm-backports/' "$list" >"$folder/backports/parts/debian.sources"
	done
	if grep -q '^deb .* bookworm main' /etc/apt/sources.list 2>/dev/null; then
		sed -n 's/^\(deb .*\) bookworm main.*/\1 bookworm-backports main/p' /etc/apt/sources.list \
			>"$folder/backports/parts/debian.list"
	fi
}

# Neither the cloud's kernels nor the real-time ones.
get_backports()
{
	backports_list
	apt_backports apt-get update >"$log" 2>&1 || { cat "$log" >&2; return 1; }
	kernel=$(apt_backports apt-cache pkgnames linux-image-6. | grep -E '^linux-image-6\.[0-9.]+\+deb12-amd64$' | sort -V | tail -1)
	[ -n "$kernel" ] || return 1
	! ls "$packages/${kernel}"_*.deb >/dev/null 2>&1 || return 0
	say "getting $kernel"
	(cd "$packages" && apt_backports apt-get download "$kernel" >"$log" 2>&1) || { cat "$log" >&2; return 1; }
	find "$packages" -name 'linux-image-*+deb12-*.deb' ! -name "${kernel}_*" -delete
}

# unpack DEB FOLDER PATTERN: of a package what the pattern names, its path below usr/ shortened to FOLDER.
unpack()
{
	[ "$(cat "$2/of" 2>/dev/null)" != "$(basename "$1")" ] || return 0
	rm -rf "$2" && mkdir -p "$2"
	dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards "$3" && basename "$1" >"$2/of"
}

unpack_headers()
{
	unpack "$(ls "$packages"/libglib2.0-dev_*.deb)" "$folder/glib" './usr/*.h' &&
		unpack "$(ls "$packages"/linux-headers-*.deb)" "$folder/mlx5" '*/include/linux/mlx5/*.h' &&
		ln -sfn "$(dirname "$(find "$folder/mlx5" -name mlx5_ifc.h)")" "$folder/mlx5/include"
}

qemu_version()
{
	dpkg-query -W -f '${source:Version}' qemu-system-x86
}

# apt's own sources, asked for source packages: a folder of lists of its own leaves the machine's as they are.
source_lists()
{
	mkdir -p "$folder/apt/lists/partial" "$folder/apt/parts"
	for list in /etc/apt/sources.list.d/*.sources; do
		[ ! -e "$list" ] || sed 's/^Types:.*/Types: deb-src/' "$list" >"$folder/apt/parts/$(basename "$list")"
	done
	if [ -e /etc/apt/sources.list ]; then
		sed 's/^deb /deb-src /' /etc/apt/sources.list >"$folder/apt/parts/main.list"
	fi
}

apt_source()
{
	apt-get -qq -o Dir::Etc::sourcelist=- -o "Dir::Etc::sourceparts=$folder/apt/parts" \
		-o "Dir::State::lists=$folder/apt/lists" -o APT::Sandbox::User=root "$@" >"$log" 2>&1
}

get_qemu_source()
{
	source_lists
	say "getting the source package of QEMU $1"
	(cd "$folder/apt" && apt_source update && apt_source source --download-only "qemu=$1") ||
		{ cat "$log" >&2; return 1; }
}

# What QEMU's headers want of its build: its choices do not touch the device model, and the device checks the sizes
# of what it shares with QEMU when it is loaded.
generate()
{
	mkdir -p generated/qapi
	python3 scripts/qapi-gen.py -o generated/qapi -b qapi/qapi-schema.json || return 1
	touch generated/config-poison.h
	cat >generated/config-host.h <<-'END'
		#define CONFIG_POSIX 1
		#define CONFIG_LINUX 1
		#define CONFIG_INT128 1
		#define CONFIG_ATOMIC64 1
		#define CONFIG_ATOMIC128 1
		#define CONFIG_CMPXCHG128 1
		#define CONFIG_MADVISE 1
		#define CONFIG_POSIX_MADVISE 1
		#define CONFIG_PPOLL 1
		#define CONFIG_IOVEC 1
		#define CONFIG_EVENTFD 1
		#define CONFIG_MALLOC_TRIM 1
		#define CONFIG_STATX 1
		#define CONFIG_GETRANDOM 1
		#define CONFIG_PREADV 1
		#define CONFIG_SIGNALFD 1
		#define CONFIG_EPOLL 1
		#define CONFIG_TCG 1
		#define CONFIG_KVM_TARGETS "x86_64-softmmu"
		#define HOST_X86_64 1
		#define QEMU_VERSION_MAJOR 7
		#define QEMU_VERSION_MINOR 2
		#define QEMU_VERSION_MICRO 0
	END
}

# Debian's patches touch headers as well, so the whole source is unpacked and patched, and what is not needed is removed.
unpack_qemu()
{
	rm -rf "$folder/qemu" && say "unpacking the headers of QEMU" &&
		dpkg-source --no-check -x "$folder"/apt/qemu_*.dsc "$folder/qemu" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
	(cd "$folder/qemu" && generate &&
		find . -mindepth 1 -maxdepth 1 ! -name include ! -name linux-headers ! -name generated \
			! -name VERSION -exec rm -rf {} +) && rm -rf "$folder/apt" "$folder"/qemu_*.orig.tar.*
}

get_qemu_headers()
{
	version=$(qemu_version) || return 1
	[ "$(cat "$folder/qemu/of" 2>/dev/null)" != "$version" ] || return 0
	rm -rf "$folder/apt"
	get_qemu_source "$version" && unpack_qemu && echo "$version" >"$folder/qemu/of"
}

begin_lane "Debian's kernel and QEMU"
for what in programs files headers QEMU ${newer:+backports}; do
	case $what in
	programs) install_debian "$programs" ;;
	files) get_files ;;
	headers) unpack_headers ;;
	QEMU) get_qemu_headers ;;
	backports) get_backports ;;
	esac || { say "no $what; see above" >&2; exit 1; }
done
say "all is there: $(cd "$packages" && echo linux-image-*.deb), QEMU $(cat "$folder/qemu/of")"
