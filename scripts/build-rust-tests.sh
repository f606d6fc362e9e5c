#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Gets two crates of other people and builds their own tests and examples, for tests/rust: BUILD/rust has the sources and what
# cargo makes of them. It takes a few minutes. Safe to repeat.
#
# usage: build-rust-tests.sh [BUILD]
set -eu

. "$(dirname "$0")/debian.sh"

build=${1:-build}
crates="ibverbs@=0.9.2 sideway@=0.4.3"

command -v cargo >/dev/null || { say "there is no cargo"; exit 77; }
mkdir -p "$build/rust"
rust=$(cd "$build/rust" && pwd)
if [ "$(cat "$rust/got" 2>/dev/null)" != "$crates" ]; then
	install_debian "cmake gcc pkg-config libclang1-14 libclang-common-14-dev libibverbs-dev librdmacm-dev libnl-3-dev libnl-route-3-dev"
	say "getting $crates"
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	(
		cd "$folder"
		cargo init --quiet --vcs none --name scratch .
		# Word splitting is meant: these are names of crates.
		# shellcheck disable=SC2086
		cargo add --quiet $crates
		cargo vendor --quiet vendor >/dev/null
	)
	for crate in ibverbs sideway; do
		rm -rf "${rust:?}/$crate"
		cp -r "$folder/vendor/$crate" "$rust/"
	done
	echo "$crates" > "$rust/got"
fi

# Without debug information, and with nothing kept for a next change.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_INCREMENTAL=0
# The crate ibverbs-sys asks cmake for a whole rdma-core, and needs no more than the headers that are made before it is built.
cat > "$rust/cmake" <<'END'
#!/bin/sh
case "$1 $2" in "--build "*/ibverbs-sys-*) exit 0 ;; esac
exec cmake "$@"
END
chmod +x "$rust/cmake"
export CMAKE="$rust/cmake"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$rust/target}"
for crate in ibverbs sideway; do
	say "building the tests of $crate"
	(cd "$rust/$crate" && cargo test --quiet --no-run && cargo build --quiet --examples)
done
say "done"
