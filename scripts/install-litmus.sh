#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Gets herd7, which tries litmus tests on a processor's memory model (tests/litmus). Debian has it in sid alone: it is unpacked
# with the libraries of that release below BUILD/litmus, not installed (43 MB are fetched, 60 MB stay). Safe to repeat.
#
#   BUILD/litmus/herd7      starts it
#
# usage: install-litmus.sh [BUILD]
set -eu
build=${1:-build}
. "$(dirname "$0")/debian.sh"

mkdir -p "$build/litmus"
folder=$(realpath "$build/litmus")
if [ -x "$folder/herd7" ]; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	say "this is no Debian; get herd7 (herdtools7) from elsewhere, into the path" >&2
	exit 1
fi
rm -rf "$folder/apt" "$folder/root"
mkdir -p "$folder/apt/parts" "$folder/apt/state/lists/partial" "$folder/apt/cache/archives/partial" "$folder/root"
trap 'rm -rf "$folder/apt"' EXIT
trap 'exit 1' INT TERM HUP

# The machine's own sources, asked for sid, which that of security updates has not: a state of apt of its own leaves the
# machine's as it is.
for list in /etc/apt/sources.list.d/*.sources; do
	[ ! -e "$list" ] || sed 's/^Suites:.*/Suites: sid/' "$list" >"$folder/apt/parts/$(basename "$list")"
done
if [ -e /etc/apt/sources.list ]; then
	sed -n 's/^deb \(\[.*\] \)\{0,1\}\([^ ]*\) .*/deb \1\2 sid main/p' /etc/apt/sources.list | sort -u >"$folder/apt/parts/main.list"
fi
: >"$folder/apt/status"

own_apt()
{
	apt-get -qq -y -o Dir::Etc::sourcelist=- -o "Dir::Etc::sourceparts=$folder/apt/parts" -o "Dir::State=$folder/apt/state" \
		-o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt/cache" -o APT::Sandbox::User=root \
		-o APT::Install-Recommends=false -o Acquire::Languages=none "$@" >"$folder/apt/log" 2>&1
}

say "getting herd7"
own_apt update || :
own_apt --download-only install herdtools7 || { cat "$folder/apt/log" >&2; exit 1; }
for package in herdtools7 libc6 libgmp10; do
	dpkg-deb --fsys-tarfile "$folder/apt/cache/archives/$package"_*.deb |
		tar -x -C "$folder/root" --wildcards './usr/bin/herd7' './usr/share/herdtools7/herd/*' './usr/lib/*' 2>/dev/null || :
done
loader=$(find "$folder/root" -name 'ld-linux*.so.*' -type f | head -n 1)
libraries=$(dirname "$(find "$folder/root" -name 'libgmp.so.10' | head -n 1)")
cat >"$folder/herd7.new" <<END
#!/bin/sh
exec "$loader" --library-path "$libraries" "$folder/root/usr/bin/herd7" -set-libdir "$folder/root/usr/share/herdtools7/herd" "\$@"
END
chmod 755 "$folder/herd7.new"
"$folder/herd7.new" -version >/dev/null
mv "$folder/herd7.new" "$folder/herd7"
