# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
add_executable(worker_test ${CMAKE_CURRENT_LIST_DIR}/worker_test.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/worker.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/thread.c ${CMAKE_SOURCE_DIR}/shiftlib/base/crash.c ${CMAKE_SOURCE_DIR}/shiftlib/base/log.c ${SHIFT_LOG_NEEDS} ${CMAKE_SOURCE_DIR}/shiftlib/base/settings.c)
target_include_directories(worker_test PRIVATE ${CMOCKA_INCLUDE_DIRS})
target_link_libraries(worker_test PRIVATE ${CMOCKA_LIBRARIES} Threads::Threads)
add_test(NAME unit_worker COMMAND worker_test)
set_tests_properties(unit_worker PROPERTIES TIMEOUT 180 LABELS "unit;shell")
