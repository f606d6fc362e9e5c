# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# How the package takes the place of the distribution's libibverbs.so.1, and gives it back. In all of its
# scripts, since the files of the package are not there for the first and the last.
#
# dpkg never puts or deletes $lib/libibverbs.so.1 itself, as no package has this name any more: it is
# exchanged by renaming only, when all that it needs is in place. So there is a working library at each
# moment, also when dpkg is killed. Both functions may be repeated, and begin where they were ended.
#
#   $lib/libibverbs.so.1             leads to shift/system/libibverbs.so.1, ours
#   $lib/shift-libibverbs.so.1       the distribution's link of that name. It leads nowhere, but to the new
#                                    library between the unpacking of a libibverbs1 and our trigger, if
#                                    that has another name. SHIFT looks there first (shift/next).
#   $lib/shift/distro/               the distribution's library and development link: out of the way of
#                                    ldconfig, which links the newest library of a soname
#   $lib/shift/libibverbs-distro.so.1  leads to that library
#   $lib/libibverbs.so               if there is one: a linker script, so that programs are linked against
#                                    the distribution's library; who loads this name gets shift/dlopen
# What dpkg-divert says is read.
export LC_ALL=C
lib=/@LIB@
shift=$lib/shift
distro=$shift/distro
below=$lib/shift-libibverbs.so.1
beside=$shift/libibverbs-distro.so.1
conf=/etc/ld.so.conf.d/zz-libibverbs1-shift.conf

say()
{
	echo "libibverbs1-shift: $*" >&2
}

diverter()
{
	dpkg-divert --listpackage "$1"
}

diverted()
{
	[ "$(diverter "$1")" = libibverbs1-shift ]
}

divert()
{
	dpkg-divert --quiet --package libibverbs1-shift --no-rename --divert "$2" --add "$1"
}

undivert()
{
	dpkg-divert --quiet --package libibverbs1-shift --no-rename --remove "$1"
}

# Lines of "PATH TO".
our_diversions()
{
	dpkg-divert --list | sed -n 's/^diversion of \(.*\) to \(.*\) by libibverbs1-shift$/\1 \2/p'
}

# also_as PATH TO: the file, not a copy where that can be.
also_as()
{
	ln -f "$1" "$2" 2> /dev/null && return
	cp -a "$1" "$shift/new"
	mv -fT "$shift/new" "$2"
}

put_link()
{
	ln -sfn "$1" "$shift/new"
	mv -fT "$shift/new" "$2"
}

ours_in_place()
{
	[ "$(readlink $lib/libibverbs.so.1)" = shift/system/libibverbs.so.1 ]
}

# The libraries of the installed libibverbs1, as its package names them.
owned()
{
	dpkg-query --listfiles "libibverbs1:$DPKG_MAINTSCRIPT_ARCH" | grep "^$lib/libibverbs\.so\.1\.[^/]*$"
}

# divert_link PATH TO. Where it is diverted already, dpkg has put the newest link to where that leads; none is
# there if a giving back was killed that had moved it to its place.
divert_link()
{
	if [ ! -L "$2" ] && [ -L "$1" ]; then
		case $(readlink "$1") in
		shift/system/* | distro/*) ;; # ours
		*) cp -aT "$1" "$2" ;;
		esac
	fi
	diverted "$1" || divert "$1" "$2"
}

divert_links()
{
	divert_link $lib/libibverbs.so.1 $below
	divert_link $lib/libibverbs.so $distro/libibverbs.so
	divert_link $beside $beside.shift-rdma
}

divert_libraries()
{
	for path in $(owned); do
		diverted "$path" && continue
		[ ! -f "$path" ] || also_as "$path" "$distro/${path##*/}"
		divert "$path" "$distro/${path##*/}"
	done
}

# Those of a libibverbs1 that is not there any more.
forget_libraries()
{
	now=$(owned)
	our_diversions | while read -r path to; do
		case $path in
		$lib/libibverbs.so.1.*)
			echo "$now" | grep -Fqx "$path" && continue
			rm -f "$to"
			undivert "$path"
			;;
		esac
	done
}

take_dev_link()
{
	if [ -L $distro/libibverbs.so ]; then
		[ ! -f $lib/libibverbs.so ] || [ -L $lib/libibverbs.so ] || return 0
		echo "$shift/dlopen" > $conf
		ldconfig
		cp $shift/system/libibverbs.ld $shift/new
		mv -fT $shift/new $lib/libibverbs.so
	elif [ -f $conf ]; then
		rm -f $lib/libibverbs.so $conf
		ldconfig
	fi
}

take_over()
{
	if [ -z "$(owned)" ]; then
		say "libibverbs1 has no $lib/libibverbs.so.1.*; the system's library stays as it is"
		return 1
	fi
	mkdir -p $distro
	divert_libraries
	divert_links
	name=$(readlink $below)
	if [ ! -f "$distro/$name" ]; then
		say "$below leads to no library of libibverbs1; reinstall that"
		return 1
	fi
	put_link "distro/$name" $beside
	put_link shift/system/libibverbs.so.1 $lib/libibverbs.so.1
	for path in $(owned); do
		rm -f "$path"
	done
	# An ldconfig that ran meanwhile may have put the distribution's back.
	ours_in_place || put_link shift/system/libibverbs.so.1 $lib/libibverbs.so.1
	take_dev_link
	forget_libraries
}

give_back_dev_link()
{
	if [ -L $distro/libibverbs.so ]; then
		mv -fT $distro/libibverbs.so $lib/libibverbs.so
	elif [ -f $conf ] && [ ! -L $lib/libibverbs.so ]; then
		rm -f $lib/libibverbs.so # ours; a link is the distribution's, and back already
	fi
	if [ -f $conf ]; then
		rm -f $conf
		ldconfig
	fi
}

give_back()
{
	our_diversions | while read -r path to; do
		case $path in
		$lib/libibverbs.so.1.*) [ ! -f "$to" ] || also_as "$to" "$path" ;;
		esac
	done
	if [ -L $below ]; then
		mv -fT $below $lib/libibverbs.so.1
	elif ours_in_place; then
		rm -f $lib/libibverbs.so.1
	fi
	give_back_dev_link
	if [ -L $beside.shift-rdma ]; then
		mv -fT $beside.shift-rdma $beside
	elif [ "$(dirname "$(readlink $beside)")" = distro ]; then
		rm -f $beside
	fi
	our_diversions | while read -r path to; do
		undivert "$path"
	done
	rm -rf $distro $shift/new
	[ ! -d $shift ] || rmdir --ignore-fail-on-non-empty $shift
}
