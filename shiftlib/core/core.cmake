# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The pure core. shift_core: production; shift_core_mutants: with rules that can be broken at run
# time, for the simulation.
include_guard(GLOBAL)

set(SHIFT_CORE_SOURCES core.c end.c hang.c message.c move.c names.c path_health.c paths.c settle.c
	standby.c switch.c)
list(TRANSFORM SHIFT_CORE_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

if(NOT TARGET shift_core)
	add_library(shift_core STATIC ${SHIFT_CORE_SOURCES})
	target_compile_options(shift_core PRIVATE -Wswitch-enum)
	if(SHIFT_MUTANT)
		target_compile_definitions(shift_core PRIVATE SHIFT_MUTANT=${SHIFT_MUTANT})
	endif()

	add_library(shift_core_mutants STATIC EXCLUDE_FROM_ALL ${SHIFT_CORE_SOURCES})
	target_compile_options(shift_core_mutants PRIVATE -Wswitch-enum)
	target_compile_definitions(shift_core_mutants PUBLIC SC_MUTANTS)
endif()
