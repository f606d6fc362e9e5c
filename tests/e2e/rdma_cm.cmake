# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# simnic's /dev/infiniband/rdma_cm, under the distribution's librdmacm: as it is, and with SHIFT.
add_executable(rdma_cm rdma_cm/rdma_cm.c)
target_link_libraries(rdma_cm PRIVATE rdmacm ibverbs)
if(NOT SHIFT_SANITIZE)
	e2e_test(rdma_cm 300 rdma_cm.py)
	e2e_test(mad 200 mad.py)
	e2e_test(rdma_cm_protected 300 rdma_cm_protected.py)
endif()
