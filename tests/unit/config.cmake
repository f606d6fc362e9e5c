# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What of the environment is believed. Not with sanitizers: their runtimes refuse setuid programs.
if(NOT SHIFT_SANITIZE)
	add_executable(config_secure_test ${CMAKE_CURRENT_LIST_DIR}/config_secure_test.c
		${CMAKE_SOURCE_DIR}/shiftlib/base/config.c ${CMAKE_SOURCE_DIR}/shiftlib/base/log.c ${SHIFT_LOG_NEEDS} ${CMAKE_SOURCE_DIR}/shiftlib/base/settings.c
		${CMAKE_SOURCE_DIR}/shiftlib/base/run_dir.c ${CMAKE_SOURCE_DIR}/shiftlib/report/event_names.c)
	target_link_libraries(config_secure_test PRIVATE shift_core kvclient)
	add_test(NAME unit_config_secure COMMAND ${CMAKE_CURRENT_LIST_DIR}/config_secure_test.py
		$<TARGET_FILE:config_secure_test>)
	set_tests_properties(unit_config_secure PROPERTIES TIMEOUT 60 LABELS unit
		SKIP_RETURN_CODE 77)
endif()
