#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Runs within the copy of the system that run.sh made: what packages do to a system, and what they
# leave of it. usage: inside.sh FOLDER-OF-PACKAGES
set -eu
debs=$1
lib=/usr/lib/$(dpkg --print-architecture | sed 's/amd64/x86_64/; s/arm64/aarch64/')-linux-gnu
work=$(mktemp -d)
export SIMNIC_FABRIC=packages-$$ DEBIAN_FRONTEND=noninteractive
passed=0

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

ok()
{
	echo "ok     $*"
	passed=$((passed + 1))
}

# Every file and link of rdma-core, and every name beside its library.
state()
{
	for package in $(dpkg-query -W -f '${Package}:${db:Status-Status}\n' 'libibverbs*' 'ibverbs-*' 'rdma*' \
		'librdmacm*' | sed -n 's/:installed$//p' | grep -v shift); do
		dpkg -L "$package"
	done | sort -u | while read -r path; do
		if [ -L "$path" ]; then
			echo "$path -> $(readlink "$path")"
		elif [ -f "$path" ]; then
			sha256sum "$path"
		fi
	done
	find "$lib" -maxdepth 1 -name 'libibverbs*' | sort
	dpkg-divert --list | grep -i 'verbs' || :
	dpkg --verify libibverbs1 ibverbs-utils || :
}

loads_ours()
{
	ldd "$(command -v "$1")" | grep -q "libibverbs-distro.so.1 => .*/shift/libibverbs-distro.so.1"
}

# bw WHAT-THE-CLIENT-MUST-END-WITH: ib_write_bw whose first NIC dies.
bw()
{
	simnicctl create > /dev/null
	simnicctl run --host h0 -- ib_write_bw -d mlx5_0 -x 0 -F -D 6 > "$work/server" 2>&1 &
	server=$!
	for _ in $(seq 100); do
		ss -ltn 2> /dev/null | grep -q :18515 && break
		sleep 0.1
	done
	simnicctl run --host h1 -- ib_write_bw -d mlx5_0 -x 0 -F -D 6 127.0.0.1 > "$work/client" 2>&1 &
	client=$!
	sleep 2
	shiftctl status > "$work/status"
	simnicctl fault port-down h1/mlx5_0
	result=0
	wait $client || result=$?
	wait $server || :
	simnicctl destroy
	cat "$work/client" >> "$work/all"
	[ "$1" = "$result" ] || { cat "$work/client" "$work/status" >&2; fail "ib_write_bw ended with $result"; }
}

state > "$work/before"
dpkg -i "$debs"/shift-rdma_*.deb "$debs"/simnic_*.deb > "$work/log" 2>&1 || { cat "$work/log"; fail "install"; }
loads_ours ib_write_bw && fail "shift-rdma changes what other programs load"
ok "shift-rdma alone changes nothing for other programs"
simnicctl create > /dev/null
simnicctl run --host h0 -- shiftctl run -- ibv_devinfo -l > "$work/out" || fail "shiftctl run"
grep -q mlx5_1 "$work/out" || fail "ibv_devinfo under shiftctl run"
simnicctl run --host h0 -- shiftctl doctor > "$work/doctor" 2>&1 || { cat "$work/doctor"; fail "doctor"; }
simnicctl destroy
ok "shiftctl run and doctor find the library"

dpkg -i "$debs"/libibverbs1-shift_*.deb > "$work/log" 2>&1 || { cat "$work/log"; fail "install"; }
ldconfig
loads_ours ib_write_bw || fail "ib_write_bw does not load SHIFT"
[ "$(readlink "$lib/libibverbs.so.1")" = shift/libibverbs.so.1 ] || fail "ldconfig put another one in its place"
ok "every program loads SHIFT, also after ldconfig"
bw 1
grep -q "Failed status 12" "$work/all" || fail "no error without SHIFT"
ok "and it keeps out of those that nobody named: ib_write_bw ends with status 12"
echo "SHIFT_PROGRAMS = ib_*" > /etc/shift.conf
bw 0
grep -q protected "$work/status" || { cat "$work/status"; fail "not protected"; }
ok "named in /etc/shift.conf, ib_write_bw outlives its NIC with no variable set"
simnicctl create > /dev/null
simnicctl run --host h0 -- shiftctl doctor > "$work/doctor" 2>&1 || { cat "$work/doctor"; fail "doctor"; }
simnicctl destroy
grep -q /etc/shift.conf "$work/doctor" || fail "doctor does not name the settings"
ok "shiftctl doctor, with SHIFT in the system's place"

# A program that uses what SHIFT does not override still links.
cat > "$work/t.c" << 'C'
#include <infiniband/verbs.h>
int main(void) { int n; struct ibv_device **l = ibv_get_device_list(&n);
return l && n ? ibv_get_device_index(l[0]) == -2 : 0; }
C
cc "$work/t.c" -libverbs -o "$work/t" || fail "programs do not link any more"
loads_ours "$work/t" || fail "a program linked now does not load SHIFT"
ok "programs link against the distribution's library, and load SHIFT"

# repack NAME VERSION: the installed libibverbs1 as a package, with its library under that name.
repack()
{
	root=$work/repack
	rm -rf "$root"
	mkdir -p "$root/DEBIAN"
	dpkg-query -s libibverbs1 | grep -v '^Status:' | sed "s/^Version: .*/Version: $2/" > "$root/DEBIAN/control"
	for file in /var/lib/dpkg/info/libibverbs1:*; do
		case $file in
		*.list | *.md5sums) ;;
		*) cp "$file" "$root/DEBIAN/${file##*.}" ;;
		esac
	done
	dpkg -L libibverbs1 | while read -r path; do
		true=$(dpkg-divert --truename "$path")
		if [ -d "$true" ] && [ ! -L "$true" ]; then
			mkdir -p "$root$path"
		else
			mkdir -p "$(dirname "$root$path")"
			cp -a "$true" "$root$path"
		fi
	done
	library=$(basename "$(readlink "$root$lib/libibverbs.so.1")")
	[ "$library" = "$1" ] || mv "$root$lib/$library" "$root$lib/$1"
	ln -sf "$1" "$root$lib/libibverbs.so.1"
	(cd "$root" && find . -type f -not -path './DEBIAN/*' -printf '%P\0' | xargs -0 md5sum > DEBIAN/md5sums)
	dpkg-deb --root-owner-group -b "$root" "$work/$1_$2.deb" > /dev/null
}

name=$(basename "$(readlink "$lib/shift/distro/libibverbs.so.1")")
version=$(dpkg-query -W -f '${Version}' libibverbs1)
repack "$name" "$version"
repack libibverbs.so.1.99.0.0 "99.0-1"

# put PACKAGE NAME: after it, SHIFT is in place and loads the library of that name.
put()
{
	dpkg -i "$1" > "$work/log" 2>&1 || { cat "$work/log"; fail "dpkg -i $1"; }
	ldconfig
	loads_ours ib_write_bw || fail "SHIFT is not in place any more"
	[ "$(readlink "$lib/shift/distro/libibverbs.so.1")" = "$2" ] || fail "the diverted link leads elsewhere"
	[ ! -e "$lib/$2" ] || fail "$2 lies where ldconfig finds it"
	cmp -s "$lib/shift/distro/$2" "$lib/shift/libibverbs-distro.so.1" || fail "SHIFT loads another one"
	[ "$(find "$lib/shift/distro" -name 'libibverbs.so.1.*' | wc -l)" = 1 ] || fail "an old one is left"
}

put "$work/${name}_$version.deb" "$name"
ok "libibverbs1 is installed again"
put "$work/libibverbs.so.1.99.0.0_99.0-1.deb" libibverbs.so.1.99.0.0
bw 0
ok "a libibverbs1 whose library has another name"
dpkg -i "$debs"/libibverbs1-shift_*.deb > "$work/log" 2>&1 || fail "installing libibverbs1-shift again"
loads_ours ib_write_bw || fail "SHIFT is not in place any more"
ok "libibverbs1-shift is installed again"
put "$work/${name}_$version.deb" "$name"
ok "and the old libibverbs1"

rm /etc/shift.conf
dpkg -r libibverbs1-shift > "$work/log" 2>&1 || { cat "$work/log"; fail "remove"; }
state > "$work/removed"
diff "$work/before" "$work/removed" || fail "not as before after removal"
ok "removed: every file of rdma-core is as before"
dpkg -i "$debs"/libibverbs1-shift_*.deb > "$work/log" 2>&1 || fail "install"
dpkg -P libibverbs1-shift shift-rdma simnic > "$work/log" 2>&1 || { cat "$work/log"; fail "purge"; }
state > "$work/purged"
diff "$work/before" "$work/purged" || fail "not as before after purge"
[ ! -e "$lib/shift" ] && [ ! -e "$lib/simnic" ] || fail "something is left in $lib"
ok "purged: every file of rdma-core is as before, and nothing is left"
rm -rf "$work"
echo "$passed passed, 0 failed"
