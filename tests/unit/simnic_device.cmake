# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The device engine and the fabric linked directly, without a preload: runs under sanitizers.
file(GLOB simnic_device_side CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/simnic/device/*.c
	${CMAKE_SOURCE_DIR}/simnic/fabric/*.c)
add_library(simnic_device STATIC ${simnic_device_side}
	${CMAKE_CURRENT_LIST_DIR}/simnic_device_ring.c)
target_link_libraries(simnic_device PUBLIC Threads::Threads)

add_executable(simnic_device_test ${CMAKE_CURRENT_LIST_DIR}/simnic_device_test.c)
target_link_libraries(simnic_device_test PRIVATE simnic_device ${CMOCKA_LIBRARIES})
add_test(NAME unit_simnic_device COMMAND simnic_device_test)
set_tests_properties(unit_simnic_device PROPERTIES TIMEOUT 120 LABELS "unit;simnic")

add_executable(simnic_device_pair_test ${CMAKE_CURRENT_LIST_DIR}/simnic_device_pair_test.c)
target_link_libraries(simnic_device_pair_test PRIVATE simnic_device)
add_test(NAME unit_simnic_device_pair COMMAND simnic_device_pair_test)
set_tests_properties(unit_simnic_device_pair PROPERTIES TIMEOUT 180 LABELS "unit;simnic")
