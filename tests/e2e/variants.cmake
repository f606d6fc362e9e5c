# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Variants of the drop-in, made by the tests that need them. A variant compiles what differs, and takes the rest from
# the drop-in's own libraries: an object comes before a library's member with the same symbols.
function(variant name definition)
	set(target dropin_${name})
	shift_add_dropin(${target} ${SHIFT_OUT}/variants/${name} shift_shell shift_core providers kvclient)
	target_sources(${target} PRIVATE ${ARGN})
	target_compile_definitions(${target} PRIVATE ${definition} SHIFT_VERSION="${PROJECT_VERSION}")
	target_compile_options(${target} PRIVATE -O1 -g1)
	set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
endfunction()

# The sources of libraries in which something matches.
function(sources_naming found pattern)
	set(matching "")
	foreach(library ${ARGN})
		get_target_property(sources ${library} SOURCES)
		get_target_property(folder ${library} SOURCE_DIR)
		foreach(source ${sources})
			cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
			file(STRINGS ${source} lines REGEX "${pattern}" LIMIT_COUNT 1)
			if(lines)
				list(APPEND matching ${source})
			endif()
		endforeach()
	endforeach()
	set(${found} ${matching} PARENT_SCOPE)
endfunction()

# One rule broken on purpose: docs/mutants.md.
sources_naming(early "SC_MUTANT\\(COUNT_EARLY\\)" shift_core)
variant(mutant_1 SHIFT_MUTANT=1 ${early})
sources_naming(unasked "SC_MUTANT\\(NO_ANSWER\\)" shift_core)
variant(mutant_2 SHIFT_MUTANT=2 ${unasked})
variant(mutant_3 SHIFT_MUTANT=3 ${CMAKE_SOURCE_DIR}/providers/mlx5/driven_cq.c)
variant(mutant_4 SHIFT_MUTANT=4 ${CMAKE_SOURCE_DIR}/providers/mlx5/move.c)
variant(mutant_5 SHIFT_MUTANT=5 ${CMAKE_SOURCE_DIR}/providers/mlx5/settle.c)

# Another protocol than that of kvclient/kv.h.
sources_naming(versioned "KV_PROTOCOL" shift_shell shift_control kvclient)
variant(protocol_99 KV_PROTOCOL=99 ${versioned})
