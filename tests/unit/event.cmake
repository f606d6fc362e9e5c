# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Events: the ring, their names, their JSON, read back by jansson; dates.
set(event_sources ${CMAKE_SOURCE_DIR}/shiftlib/report/event.c ${CMAKE_SOURCE_DIR}/shiftlib/report/metrics.c
	${CMAKE_SOURCE_DIR}/shiftlib/report/event_names.c ${CMAKE_SOURCE_DIR}/shiftlib/base/date.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/json.c ${CMAKE_SOURCE_DIR}/shiftlib/base/log.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/settings.c ${CMAKE_SOURCE_DIR}/shiftlib/report/on_event.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/thread.c ${CMAKE_SOURCE_DIR}/shiftlib/base/crash.c)
add_executable(event_test ${CMAKE_CURRENT_LIST_DIR}/event_test.c ${event_sources})
target_include_directories(event_test PRIVATE ${CMOCKA_INCLUDE_DIRS} ${JANSSON_INCLUDE_DIRS})
target_link_libraries(event_test PRIVATE ${CMOCKA_LIBRARIES} ${JANSSON_LIBRARIES}
	Threads::Threads ${CMAKE_DL_LIBS})
add_test(NAME unit_event COMMAND event_test)
set_tests_properties(unit_event PROPERTIES TIMEOUT 60 LABELS "unit;shell")

# Not with sanitizers: their runtimes refuse setuid programs.
if(NOT SHIFT_SANITIZE)
	add_executable(hook_once ${CMAKE_CURRENT_LIST_DIR}/hook_once.c ${event_sources})
	target_link_libraries(hook_once PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
	add_test(NAME unit_hook_secure COMMAND ${CMAKE_CURRENT_LIST_DIR}/hook_secure_test.py
		$<TARGET_FILE:hook_once>)
	set_tests_properties(unit_hook_secure PROPERTIES TIMEOUT 120 LABELS "unit;shell"
		SKIP_RETURN_CODE 77)
endif()
