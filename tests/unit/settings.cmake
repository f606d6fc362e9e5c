# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
add_executable(settings_test ${CMAKE_CURRENT_LIST_DIR}/settings_test.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/settings.c)
target_include_directories(settings_test PRIVATE ${CMOCKA_INCLUDE_DIRS})
target_link_libraries(settings_test PRIVATE ${CMOCKA_LIBRARIES} Threads::Threads ${CMAKE_DL_LIBS})
add_test(NAME unit_settings COMMAND settings_test)
set_tests_properties(unit_settings PROPERTIES TIMEOUT 60 LABELS "unit;shell")
