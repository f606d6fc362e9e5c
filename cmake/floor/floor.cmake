# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The oldest glibc on which what we ship starts (RHEL 8, SLES 15, Debian 10 and later), whatever glibc it was built
# with. Empty: that of the build machine.
set(SHIFT_GLIBC_FLOOR 2.28 CACHE STRING "oldest glibc to run on; empty: the installed one")

if(SHIFT_GLIBC_FLOOR AND SHIFT_SANITIZE STREQUAL "")
	set(floor_dir ${CMAKE_BINARY_DIR}/floor)
	set(floor_script ${CMAKE_CURRENT_LIST_DIR}/make-stubs.sh)
	execute_process(
		COMMAND ${floor_script} ${CMAKE_C_COMPILER} ${SHIFT_GLIBC_FLOOR} ${floor_dir}
		COMMAND_ERROR_IS_FATAL ANY)
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${floor_script})
	add_library(glibc_floor STATIC ${CMAKE_CURRENT_LIST_DIR}/stat.c ${CMAKE_CURRENT_LIST_DIR}/clocklock.c
		${CMAKE_CURRENT_LIST_DIR}/isoc23.c ${CMAKE_CURRENT_LIST_DIR}/start.c)
	# Headers declare some of these functions under conditions only.
	target_compile_options(glibc_floor PRIVATE -Wno-missing-prototypes)
endif()

# Links targets that are shipped against the floor. Libraries that they need may want a later glibc, which is theirs
# to find.
function(shift_ship)
	foreach(target ${ARGN})
		if(TARGET glibc_floor)
			target_link_options(${target} PRIVATE -L${floor_dir} LINKER:--allow-shlib-undefined)
			get_target_property(type ${target} TYPE)
			if(type STREQUAL EXECUTABLE)
				target_link_options(${target} PRIVATE LINKER:--wrap=__libc_start_main)
			endif()
			target_link_libraries(${target} PRIVATE glibc_floor)
			set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${floor_script})
		endif()
	endforeach()
endfunction()
