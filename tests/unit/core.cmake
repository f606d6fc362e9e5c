# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
include(${CMAKE_SOURCE_DIR}/shiftlib/core/core.cmake)

# The tables hold for the unbroken core only.
if(NOT SHIFT_MUTANT)
	foreach(name core_test core_lazy_test core_table_test settle_test)
		add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
		target_link_libraries(${name} shift_core ${CMOCKA_LIBRARIES})
		add_test(NAME unit_${name} COMMAND ${name})
	endforeach()
	foreach(name core_test core_lazy_test core_table_test)
		target_sources(${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/core_fixture.c)
	endforeach()
endif()
