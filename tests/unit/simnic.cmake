# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The fabric alone, and the whole software NIC under the distribution's libibverbs.
file(GLOB simnic_fabric_side CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/simnic/fabric/*.c)

add_executable(simnic_fabric_test test_simnic_fabric.c ${simnic_fabric_side})
target_link_libraries(simnic_fabric_test PRIVATE ${CMOCKA_LIBRARIES} Threads::Threads)
add_test(NAME unit_simnic_fabric COMMAND simnic_fabric_test)
set_tests_properties(unit_simnic_fabric PROPERTIES TIMEOUT 60 LABELS "unit;simnic")

foreach(part verbs srq faults)
	set(program simnic_${part}_test)
	add_executable(${program} test_simnic_${part}.c test_simnic_rig.c ${simnic_fabric_side})
	target_link_libraries(${program} PRIVATE ${CMOCKA_LIBRARIES} ibverbs mlx5 Threads::Threads)
	target_compile_definitions(${program} PRIVATE SIMNICCTL="$<TARGET_FILE:simnicctl>")
	add_dependencies(${program} simnicctl simnic)
	foreach(link eth ib)
		add_test(NAME unit_simnic_${part}_${link} COMMAND ${program} ${link})
		set_tests_properties(unit_simnic_${part}_${link} PROPERTIES TIMEOUT 120
			RUN_SERIAL TRUE LABELS "unit;simnic")
	endforeach()
endforeach()
