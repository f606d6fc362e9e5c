# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Small parts of the shell: the health of paths, NICs that hang, links that are lost, the timers.
foreach(name path hang netdev timers)
	add_executable(${name}_test ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c)
	target_include_directories(${name}_test PRIVATE ${CMOCKA_INCLUDE_DIRS}
		${NL_INCLUDE_DIRS})
	target_link_libraries(${name}_test PRIVATE shift_base shift_core ${CMOCKA_LIBRARIES}
		Threads::Threads ${CMAKE_DL_LIBS})
	add_test(NAME unit_${name} COMMAND ${name}_test)
	set_tests_properties(unit_${name} PROPERTIES TIMEOUT 180 LABELS "unit;shell"
		SKIP_RETURN_CODE 77)
endforeach()
target_sources(netdev_test PRIVATE ${CMAKE_SOURCE_DIR}/shiftlib/nic/netdev.c)
