# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
add_library(kv_test_support STATIC ${CMAKE_CURRENT_LIST_DIR}/kv_support.c
	${CMAKE_CURRENT_LIST_DIR}/kv_common_test.c)
target_include_directories(kv_test_support PUBLIC ${CMOCKA_INCLUDE_DIRS})
target_link_libraries(kv_test_support PUBLIC kvclient ${CMOCKA_LIBRARIES})

foreach(name kv_record kv_redis kv_lmdb kv_seal kv_backup_map)
	add_executable(${name}_test ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c)
	target_link_libraries(${name}_test PRIVATE kv_test_support)
	add_test(NAME unit_${name} COMMAND ${name}_test)
	set_tests_properties(unit_${name} PROPERTIES TIMEOUT 180 LABELS "unit;kv")
endforeach()
target_link_libraries(kv_lmdb_test PRIVATE ${LMDB_LIBRARIES})
target_sources(kv_backup_map_test PRIVATE ${CMAKE_SOURCE_DIR}/shiftlib/backup/map.c
	${CMAKE_SOURCE_DIR}/shiftlib/backup/pair.c)

add_executable(backup_pair_test ${CMAKE_CURRENT_LIST_DIR}/backup_pair_test.c
	${CMAKE_SOURCE_DIR}/shiftlib/backup/pair.c ${CMAKE_SOURCE_DIR}/shiftlib/backup/nic.c)
target_link_libraries(backup_pair_test PRIVATE kv_test_support)
add_test(NAME unit_backup_pair COMMAND backup_pair_test)
set_tests_properties(unit_backup_pair PROPERTIES TIMEOUT 180 LABELS unit)

if(TARGET shiftctl)
	add_library(kv_fixture_distro SHARED ${CMAKE_CURRENT_LIST_DIR}/kv_fixture_dropin.c)
	set_target_properties(kv_fixture_distro PROPERTIES NO_SONAME ON
		LINK_OPTIONS "LINKER:-soname,libibverbs-distro.so.1")
	add_library(kv_fixture_dropin SHARED ${CMAKE_CURRENT_LIST_DIR}/kv_fixture_dropin.c)
	set_target_properties(kv_fixture_dropin PROPERTIES NO_SONAME ON
		BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN"
		LINK_OPTIONS "LINKER:-soname,libibverbs.so.1")
	target_link_libraries(kv_fixture_dropin PRIVATE -Wl,--no-as-needed kv_fixture_distro)
	find_library(KV_DISTRO_IBVERBS NAMES libibverbs.so.1 REQUIRED)
	if(TARGET simnicctl)
		set(kv_simnicctl $<TARGET_FILE:simnicctl>)
	endif()
	add_test(NAME unit_kv_shiftctl COMMAND ${CMAKE_CURRENT_LIST_DIR}/kv_shiftctl_test.py
		$<TARGET_FILE:shiftctl> $<TARGET_FILE:kv_fixture_dropin> ${KV_DISTRO_IBVERBS}
		${kv_simnicctl})
	add_test(NAME unit_kv_tls COMMAND ${CMAKE_CURRENT_LIST_DIR}/kv_tls_test.py
		$<TARGET_FILE:shiftctl>)
	set_tests_properties(unit_kv_shiftctl unit_kv_tls PROPERTIES TIMEOUT 180 LABELS "unit;kv")
	set_tests_properties(unit_kv_tls PROPERTIES SKIP_RETURN_CODE 77)
endif()
