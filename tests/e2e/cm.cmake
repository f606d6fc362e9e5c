# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# rdma_cm without a kernel: a librdmacm of the tests' own.
add_library(cm_fake SHARED cm/cm_fake.c ${CMAKE_SOURCE_DIR}/tests/unit/cm/fake_rdmacm.c)
set_target_properties(cm_fake PROPERTIES
	LIBRARY_OUTPUT_DIRECTORY ${SHIFT_OUT}/tests/cm
	LINK_OPTIONS LINKER:--version-script,${CMAKE_CURRENT_SOURCE_DIR}/cm/cm_fake.map)
target_compile_options(cm_fake PRIVATE -fvisibility=default)
target_link_libraries(cm_fake PRIVATE ibverbs Threads::Threads)
add_executable(cm cm/cm.c)
target_link_libraries(cm PRIVATE cm_fake test_pair)
if(NOT SHIFT_SANITIZE)
	e2e_test(cm 200 cm.py)
endif()
