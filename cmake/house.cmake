# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Settings that all projects of this repository share: SHIFT's (CMakeLists.txt) and SDR's (sdr/CMakeLists.txt).
# SHIFT_ROOT is the repository's root, from which sources include each other.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

# SHIFT_SANITIZE: empty, "address" (ASan and UBSan) or "thread" (TSan).
set(SHIFT_SANITIZE "" CACHE STRING "sanitizer build: address, thread or empty")

# A sanitizer names functions and lines; less of its build is optimised, and described, as it is built for each test run.
# gcc knows less of values there, so warnings are the plain build's matter.
set(debug "")
if(SHIFT_SANITIZE)
	set(debug -O1 -g1 -Wno-error)
endif()
add_compile_options(-Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes
	-Wno-unused-parameter -fno-strict-aliasing -fvisibility=hidden ${debug})
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
	# The kernel's command structs end with room for a driver's part, and lie inside of others.
	add_compile_options(-Wno-gnu-variable-sized-type-not-at-end)
endif()
add_compile_definitions(_GNU_SOURCE)
if(SHIFT_SANITIZE STREQUAL "address")
	add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
		-fno-omit-frame-pointer)
	add_link_options(-fsanitize=address,undefined)
elseif(SHIFT_SANITIZE STREQUAL "thread")
	add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
	add_link_options(-fsanitize=thread)
endif()
if(SHIFT_SANITIZE)
	add_compile_definitions(SHIFT_AUDIT) # clocks of connections are checked in each round
endif()

get_filename_component(SHIFT_ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
include_directories(${SHIFT_ROOT})
set(SHIFT_OUT ${CMAKE_BINARY_DIR}/out)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${SHIFT_OUT}/bin)

include(GNUInstallDirs)

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(HIREDIS REQUIRED hiredis)
pkg_check_modules(LMDB REQUIRED lmdb)

include(${CMAKE_CURRENT_LIST_DIR}/floor/floor.cmake)

# A sanitizer's build is for tests: of the rest it makes what they link, or run.
set(SHIFT_IF_NEEDED "")
if(SHIFT_SANITIZE)
	set(SHIFT_IF_NEEDED EXCLUDE_FROM_ALL)
endif()

# Packages are built without tests, which come with the source.
option(SHIFT_TESTS "build tests and benchmarks" ON)
if(SHIFT_TESTS)
	pkg_check_modules(CMOCKA REQUIRED cmocka)
	find_package(Python3 REQUIRED COMPONENTS Interpreter)
	# The interpreter itself, where a script in the path looks for it at each start.
	execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)"
		OUTPUT_VARIABLE Python3_EXECUTABLE OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
	enable_testing()
endif()

# Installs the completions of a program for bash, zsh and fish (tools/completion).
set(SHIFT_ZSH_COMPLETIONS "share/zsh/site-functions" CACHE STRING "where completions of zsh are installed; Debian has a folder of its own")
function(shift_install_completions program)
	set(made ${SHIFT_ROOT}/tools/completion)
	install(FILES ${made}/bash/${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
	install(FILES ${made}/zsh/_${program} DESTINATION ${SHIFT_ZSH_COMPLETIONS})
	install(FILES ${made}/fish/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()
