# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What shiftctl does without a process to ask.
add_executable(json_check_test ${CMAKE_CURRENT_LIST_DIR}/json_check_test.c
	${CMAKE_SOURCE_DIR}/tools/json_check.c)
target_include_directories(json_check_test PRIVATE ${CMOCKA_INCLUDE_DIRS} ${JANSSON_INCLUDE_DIRS})
target_link_libraries(json_check_test PRIVATE ${CMOCKA_LIBRARIES} ${JANSSON_LIBRARIES})
add_test(NAME unit_json_check COMMAND json_check_test)
set_tests_properties(unit_json_check PROPERTIES TIMEOUT 60 LABELS "unit")
add_test(NAME completion COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tests/completion.py
	--build ${CMAKE_BINARY_DIR})
set_tests_properties(completion PROPERTIES TIMEOUT 60 LABELS "unit")
add_test(NAME monitoring COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tests/check_monitoring.py
	--build ${CMAKE_BINARY_DIR})
set_tests_properties(monitoring PROPERTIES TIMEOUT 120 LABELS "unit" SKIP_RETURN_CODE 77)
