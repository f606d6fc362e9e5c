# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
add_executable(keymap_test ${CMAKE_CURRENT_LIST_DIR}/keymap_test.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/keymap.c)
target_include_directories(keymap_test PRIVATE ${CMOCKA_INCLUDE_DIRS})
target_link_libraries(keymap_test PRIVATE ${CMOCKA_LIBRARIES} Threads::Threads)
add_test(NAME unit_keymap COMMAND keymap_test)
set_tests_properties(unit_keymap PROPERTIES TIMEOUT 180 LABELS "unit;shell")
