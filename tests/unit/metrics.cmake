# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
add_executable(metrics_test ${CMAKE_CURRENT_LIST_DIR}/metrics_test.c
	${CMAKE_SOURCE_DIR}/shiftlib/report/metrics.c)
target_include_directories(metrics_test PRIVATE ${CMOCKA_INCLUDE_DIRS})
target_link_libraries(metrics_test PRIVATE ${CMOCKA_LIBRARIES})
add_test(NAME unit_metrics COMMAND metrics_test)
set_tests_properties(unit_metrics PROPERTIES TIMEOUT 60 LABELS "unit;shell"
	ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
