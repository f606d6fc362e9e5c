# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The facades of shiftlib/: completion channels and asynchronous events, over pipes.
add_library(channel_support STATIC channel_support.c ${CMAKE_SOURCE_DIR}/shiftlib/base/fd.c)

add_executable(channel_test channel_test.c ${CMAKE_SOURCE_DIR}/shiftlib/facade/comp_channel.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/readers.c)
target_link_libraries(channel_test PRIVATE channel_support ${CMOCKA_LIBRARIES} Threads::Threads)
add_test(NAME channel COMMAND channel_test)

add_executable(channel_async_test channel_async_test.c ${CMAKE_SOURCE_DIR}/shiftlib/facade/async.c)
target_link_libraries(channel_async_test PRIVATE channel_support ${CMOCKA_LIBRARIES}
	Threads::Threads)
add_test(NAME channel_async COMMAND channel_async_test)

set_tests_properties(channel channel_async PROPERTIES TIMEOUT 120)
