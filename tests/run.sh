#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# All tests: the plain build's, then units and simulation again under ASan+UBSan, and units under TSan.
# Usage: tests/run.sh BUILD_DIR. Closes with "N passed, M failed".
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1
jobs=${JOBS:-$(nproc)}
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
status=0

# run NAME BUILD_DIR CTEST_ARGS...: one ctest run, its counts kept in $logs/NAME.
run() {
	name=$1
	dir=$2
	shift 2
	echo "== tests: $name"
	{
		ctest --test-dir "$dir" --output-on-failure --no-tests=error "$@" 2>&1 ||
			touch "$logs/failed"
	} | tee "$logs/$name" |
		grep --line-buffered -vE '^(Internal ctest|Test project| *Start .*|)$' || true
	[ ! -e "$logs/failed" ] || status=1
}

# build_san TYPE DIR: a sanitizer build of what runs without the drop-in being preloaded.
build_san() {
	nice cmake -S . -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHIFT_SANITIZE="$1" &&
		nice ninja -C "$2" -j "$jobs"
}

# What drives programs and NICs has the machine to itself, the rest shares it; also with the builds.
for san in address thread; do
	build_san "$san" "build-$san" > "$logs/build.$san" 2>&1 || touch "$logs/unbuilt.$san"
done &
builds=$!
run plain "$build" -LE 'e2e|simnic' -j "$jobs"
wait "$builds"
run programs "$build" -L 'e2e|simnic'
# The simulation has one thread.
for san in address thread; do
	[ "$san" = thread ] && but='^sim_' || but='^$'
	if [ ! -e "$logs/unbuilt.$san" ]; then
		run "$san" "build-$san" -LE 'e2e|simnic' -E "$but" -j "$jobs"
	else
		tail -40 "$logs/build.$san"
		echo "the $san sanitizer build failed"
		status=1
	fi
done

passed=$(sed -nE 's/^.*tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\2 \1/p' "$logs"/* |
	awk '{ p += $1 - $2 } END { print p + 0 }')
failed=$(sed -nE 's/^.*tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1/p' "$logs"/* |
	awk '{ f += $1 } END { print f + 0 }')
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
	failed=1 # a build or ctest itself
fi
echo "$passed passed, $failed failed"
[ "$status" -eq 0 ]
