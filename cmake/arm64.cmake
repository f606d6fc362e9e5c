# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For arm64 on another machine: -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake, in the copy of scripts/arm64.sh, which has the
# libraries where a Debian of arm64 has them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(PKG_CONFIG_EXECUTABLE aarch64-linux-gnu-pkg-config CACHE FILEPATH "pkg-config of arm64")
