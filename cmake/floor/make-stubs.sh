#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Makes what linking against an older glibc needs: for each of glibc's libraries a library without code, which
# has the installed one's functions in the newest version that FLOOR has. What came later is missing, so the
# linker refuses it. A program that is linked this way starts on FLOOR and on anything later.
#
# glibc 2.34 put its threads, loader and timers into libc.so.6. Before, these functions lay in libraries of
# their own, which a program must name: the stubs have them there. Later systems still have those files.
#
# usage: make-stubs.sh CC FLOOR FOLDER      such as: make-stubs.sh cc 2.28 build/floor
set -eu
cc=$1 floor=$2 folder=$3
READELF=${READELF:-readelf}

mkdir -p "$folder"
rm -f "$folder"/lib*

installed()
{
	path=$($cc -print-file-name="$1")
	[ "$path" != "$1" ] || { echo "make-stubs: $cc knows no $1" >&2; exit 1; }
	echo "$path"
}

# NAME VERSION TYPE ADDRESS SIZE BINDING of each function and variable, the newest version up to FLOOR; in the order of
# addresses.
symbols()
{
	"$READELF" --dyn-syms --wide "$1" | awk -v floor="$floor" '
		function number(version, part, n) {
			n = split(version, part, ".")
			return part[1] * 1000000 + part[2] * 1000 + (n > 2 ? part[3] : 0)
		}
		$4 !~ /^(FUNC|IFUNC|OBJECT)$/ || $7 == "UND" || $8 !~ /@GLIBC_[0-9]/ { next }
		{
			split($8, part, /@+GLIBC_/)
			if (number(part[2]) > number(floor) || number(part[2]) < number(newest[part[1]]))
				next
			newest[part[1]] = part[2]
			rest[part[1]] = ($4 == "OBJECT" ? "object " : "function ") $2 " " $3 \
				($5 == "WEAK" ? " weak" : " globl")
		}
		END {
			for (name in newest)
				print name, newest[name], rest[name]
		}' | LC_ALL=C sort -k 4,4 -k 1,1
}

# The library in which FLOOR has a function of today's libc.so.6.
place()
{
	awk -v want="$1" '
		{ lib = "c" }
		$1 ~ /^(__)?pthread_|^sem_|^(thrd|mtx|cnd|tss)_|^call_once$/ { lib = "pthread" }
		$1 ~ /^dl(open|sym|close|error|addr|addr1|info|mopen|vsym)$/ { lib = "dl" }
		$1 ~ /^(timer|mq|aio|lio)_|^shm_(open|unlink)$/ { lib = "rt" }
		lib == want'
}

# A program may have a copy of a variable, which then stands for all names of this variable: names of one address
# stay together (__environ, and environ, which is weak: so the linker knows them for one).
stub()
{
	soname=$1
	awk '{ print $2 }' "$folder/list" | LC_ALL=C sort -u | sed 's/.*/GLIBC_& { };/' > "$folder/map"
	awk '
		function room() {
			if (bytes)
				printf ".zero %d\n", bytes
			bytes = 0
		}
		$4 != address || $3 != type {
			room()
			print ($3 == "object" ? ".data\n.balign 64" : ".text")
			address = $4
			type = $3
		}
		{
			size = $3 == "object" ? $5 : 8
			bytes = size > bytes ? size : bytes
			printf ".%s %s\n.type %s, %%%s\n.size %s, %s\n", $6, $1, $1, $3, $1, size
			printf ".symver %s, %s@@@GLIBC_%s\n%s:\n", $1, $1, $2, $1
		}
		END { room() }' "$folder/list" > "$folder/stub.s"
	$cc -shared -nostdlib -Wl,-soname,"$soname" -Wl,--version-script,"$folder/map" \
		-o "$folder/$soname" -x assembler "$folder/stub.s"
}

libc=$(installed libc.so.6)
symbols "$libc" > "$folder/all"
for name in c:libc.so.6 pthread:libpthread.so.0 dl:libdl.so.2 rt:librt.so.1; do
	place "${name%%:*}" < "$folder/all" > "$folder/list"
	stub "${name#*:}"
done
symbols "$(installed libm.so.6)" > "$folder/list"
stub libm.so.6

# The names by which the compiler asks for them. The loader itself is what it was then.
loader=$("$READELF" --program-headers --wide "$libc" | sed -n 's|.*interpreter: .*/\(.*\)\].*|\1|p')
cat > "$folder/libc.so" << END
GROUP ( $folder/libc.so.6 $(installed libc_nonshared.a)
	AS_NEEDED ( $folder/libpthread.so.0 $folder/libdl.so.2 $folder/librt.so.1 $(installed "$loader") ) )
END
ln -s libm.so.6 "$folder/libm.so"
rm -f "$folder/all" "$folder/list" "$folder/map" "$folder/stub.s"
