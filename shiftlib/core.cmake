# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The pure core. shift_core: production; shift_core_mutants: with rules that can be broken at run
# time, for the simulation.
include_guard(GLOBAL)

set(SHIFT_CORE_SOURCES
	${CMAKE_CURRENT_LIST_DIR}/core.c
	${CMAKE_CURRENT_LIST_DIR}/core_end.c
	${CMAKE_CURRENT_LIST_DIR}/core_message.c
	${CMAKE_CURRENT_LIST_DIR}/core_move.c
	${CMAKE_CURRENT_LIST_DIR}/core_names.c
	${CMAKE_CURRENT_LIST_DIR}/core_paths.c
	${CMAKE_CURRENT_LIST_DIR}/core_standby.c
	${CMAKE_CURRENT_LIST_DIR}/core_switch.c
	${CMAKE_CURRENT_LIST_DIR}/settle.c)

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
