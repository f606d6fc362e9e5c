# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
add_executable(control_log_test ${CMAKE_CURRENT_LIST_DIR}/control_log_test.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/log.c ${SHIFT_LOG_NEEDS} ${CMAKE_SOURCE_DIR}/shiftlib/base/settings.c)
target_include_directories(control_log_test PRIVATE ${CMOCKA_INCLUDE_DIRS})
target_link_libraries(control_log_test PRIVATE ${CMOCKA_LIBRARIES} Threads::Threads)
add_test(NAME unit_log COMMAND control_log_test)
set_tests_properties(unit_log PROPERTIES TIMEOUT 60 LABELS "unit;shell")

add_executable(control_peer ${CMAKE_CURRENT_LIST_DIR}/control_peer.c
	${CMAKE_SOURCE_DIR}/shiftlib/control/control_qp.c ${CMAKE_SOURCE_DIR}/shiftlib/base/log.c ${SHIFT_LOG_NEEDS} ${CMAKE_SOURCE_DIR}/shiftlib/base/settings.c)
target_link_libraries(control_peer PRIVATE ibverbs Threads::Threads)
add_test(NAME unit_control COMMAND ${CMAKE_CURRENT_LIST_DIR}/control_test.py ${SHIFT_OUT}/bin)
set_tests_properties(unit_control PROPERTIES TIMEOUT 180 LABELS "unit;shell;simnic")
add_executable(log_say ${CMAKE_CURRENT_LIST_DIR}/log_say.c ${CMAKE_SOURCE_DIR}/shiftlib/base/log.c
	${SHIFT_LOG_NEEDS} ${CMAKE_SOURCE_DIR}/shiftlib/base/settings.c)
target_link_libraries(log_say PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
add_test(NAME unit_log_json COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/log_json_test.py
	$<TARGET_FILE:log_say>)
set_tests_properties(unit_log_json PROPERTIES TIMEOUT 60 LABELS "unit;shell")
