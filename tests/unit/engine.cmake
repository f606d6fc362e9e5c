# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The ring engine on fake rings; against libmlx5 it is tested in tests/diff.
add_library(engine_fake STATIC engine_fake.c engine_rig.c)
target_link_libraries(engine_fake provider_mlx5)

add_executable(engine_test engine_test.c)
target_link_libraries(engine_test engine_fake ${CMOCKA_LIBRARIES} Threads::Threads)
add_test(NAME engine_test COMMAND engine_test)

add_executable(engine_foreign_test engine_foreign_test.c)
target_link_libraries(engine_foreign_test engine_fake ${CMOCKA_LIBRARIES})
add_test(NAME engine_foreign_test COMMAND engine_foreign_test)

add_executable(engine_xlat_test engine_xlat_test.c)
target_link_libraries(engine_xlat_test engine_fake ${CMOCKA_LIBRARIES})
add_test(NAME engine_xlat_test COMMAND engine_xlat_test)

add_executable(engine_poll_test engine_poll_test.c)
target_link_libraries(engine_poll_test engine_fake ${CMOCKA_LIBRARIES} Threads::Threads)
add_test(NAME engine_poll_test COMMAND engine_poll_test)

add_executable(engine_random_test engine_random_test.c)
target_link_libraries(engine_random_test engine_fake)
add_test(NAME engine_random_test COMMAND engine_random_test 300)

add_executable(engine_thread_test engine_thread_test.c)
target_link_libraries(engine_thread_test engine_fake Threads::Threads)
add_test(NAME engine_thread_test COMMAND engine_thread_test)

add_executable(engine_fence_test engine_fence_test.c)
target_link_libraries(engine_fence_test engine_fake ${CMOCKA_LIBRARIES})
add_test(NAME engine_fence_test COMMAND engine_fence_test)

add_executable(engine_srq_test engine_srq_test.c)
target_link_libraries(engine_srq_test engine_fake ${CMOCKA_LIBRARIES})
add_test(NAME engine_srq_test COMMAND engine_srq_test)

add_executable(engine_carriers_test engine_carriers_test.c)
target_link_libraries(engine_carriers_test engine_fake ${CMOCKA_LIBRARIES})
add_test(NAME engine_carriers_test COMMAND engine_carriers_test)
