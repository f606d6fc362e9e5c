# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
add_executable(admin_test ${CMAKE_CURRENT_LIST_DIR}/admin_test.c
	${CMAKE_SOURCE_DIR}/shiftlib/admin/parse.c ${CMAKE_SOURCE_DIR}/shiftlib/base/json.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/run_dir.c)
target_include_directories(admin_test PRIVATE ${CMOCKA_INCLUDE_DIRS} ${JANSSON_INCLUDE_DIRS})
target_link_libraries(admin_test PRIVATE ${CMOCKA_LIBRARIES} ${JANSSON_LIBRARIES})
add_test(NAME unit_admin COMMAND admin_test)
set_tests_properties(unit_admin PROPERTIES TIMEOUT 60 LABELS "unit;shell")
