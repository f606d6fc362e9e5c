# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Programs that drive mlx5 rings themselves.
add_executable(direct direct/direct.c)
target_link_libraries(direct PRIVATE test_pair mlx5)
add_executable(made direct/made.c)
target_link_libraries(made PRIVATE test_pair mlx5)
add_executable(unseen unseen/unseen.c)
target_link_libraries(unseen PRIVATE test_pair mlx5 ${CMAKE_DL_LIBS})
set_target_properties(unseen PROPERTIES ENABLE_EXPORTS TRUE)
if(NOT SHIFT_SANITIZE)
	e2e_test(direct 200 direct.py)
	e2e_test(unseen 200 unseen.py)
endif()
