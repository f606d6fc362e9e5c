# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Small parts of the shell: the health of paths, NICs that hang, lost carriers, the timers.
foreach(name path hang netdev timers)
	add_executable(${name}_test ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c
		${CMAKE_SOURCE_DIR}/shiftlib/${name}.c)
	target_include_directories(${name}_test PRIVATE ${CMOCKA_INCLUDE_DIRS}
		${NL_INCLUDE_DIRS})
	target_link_libraries(${name}_test PRIVATE ${CMOCKA_LIBRARIES} Threads::Threads
		${CMAKE_DL_LIBS})
	add_test(NAME unit_${name} COMMAND ${name}_test)
	set_tests_properties(unit_${name} PROPERTIES TIMEOUT 180 LABELS "unit;shell"
		SKIP_RETURN_CODE 77)
endforeach()
