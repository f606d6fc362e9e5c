# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The socket of a process, shiftctl's commands for it, and the public header as a program uses it.
add_executable(api_drain ctl/api_drain.c)
target_include_directories(api_drain PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(api_drain PRIVATE ibverbs)
if(NOT SHIFT_SANITIZE)
	e2e_test(ctl 300 ctl.py)
	e2e_test(events 300 events.py)
	e2e_test(exporter 300 exporter.py fault late killed hostile http)
	e2e_test(prometheus 200 exporter.py prometheus)
	set_tests_properties(e2e.prometheus PROPERTIES SKIP_RETURN_CODE 77)
endif()
