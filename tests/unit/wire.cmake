# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
add_executable(wire_test ${CMAKE_CURRENT_LIST_DIR}/wire_test.c
	${CMAKE_CURRENT_LIST_DIR}/../fuzz/wire_fuzz.c ${CMAKE_SOURCE_DIR}/shiftlib/control/wire.c
	${CMAKE_SOURCE_DIR}/shiftlib/control/auth.c)
target_include_directories(wire_test PRIVATE ${CMOCKA_INCLUDE_DIRS})
target_link_libraries(wire_test PRIVATE kvclient ${CMOCKA_LIBRARIES})
add_test(NAME unit_wire COMMAND wire_test)
set_tests_properties(unit_wire PROPERTIES TIMEOUT 180 LABELS "unit;shell")

add_executable(auth_test ${CMAKE_CURRENT_LIST_DIR}/auth_test.c ${CMAKE_SOURCE_DIR}/shiftlib/control/auth.c)
target_include_directories(auth_test PRIVATE ${CMOCKA_INCLUDE_DIRS})
target_link_libraries(auth_test PRIVATE kvclient ${CMOCKA_LIBRARIES})
add_test(NAME unit_auth COMMAND auth_test)
set_tests_properties(unit_auth PROPERTIES TIMEOUT 180 LABELS "unit;shell" SKIP_RETURN_CODE 77)
