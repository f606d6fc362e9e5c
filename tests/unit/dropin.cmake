# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# The hooks of libibverbs/ over a shell that forwards and counts.
# The facades with their shift_*() renamed, so that the pass-through counts first.
add_library(dropin_renamed_facades OBJECT ${CMAKE_SOURCE_DIR}/shiftlib/facade/comp_channel.c
	${CMAKE_SOURCE_DIR}/shiftlib/facade/async.c ${CMAKE_SOURCE_DIR}/shiftlib/base/fd.c
	${CMAKE_SOURCE_DIR}/shiftlib/base/readers.c)
foreach(verb channel_real get_cq_event ack_cq_events async_real_begin async_real_end
		get_async_event ack_async_event)
	target_compile_definitions(dropin_renamed_facades PRIVATE shift_${verb}=facade_${verb})
endforeach()
add_library(dropin_passthrough_shell STATIC dropin_passthrough.c dropin_facades.c
	$<TARGET_OBJECTS:dropin_renamed_facades>)
shift_add_dropin(dropin_passthrough ${SHIFT_OUT}/tests/passthrough dropin_passthrough_shell)

foreach(target dropin dropin_passthrough)
	if(TARGET ${target})
		add_test(NAME ${target}_versions
			COMMAND ${CMAKE_SOURCE_DIR}/libibverbs/check-versions.sh
				$<TARGET_FILE:${target}> ${SHIFT_DISTRO_LIBIBVERBS}
				${CMAKE_SOURCE_DIR}/libibverbs/overrides.txt)
	endif()
endforeach()
add_subdirectory(${CMAKE_SOURCE_DIR}/tests/e2e/loaders ${CMAKE_BINARY_DIR}/tests/loaders)

add_library(dropin_newer SHARED dropin_newer.c)
add_executable(dropin_known_test dropin_known_test.c ${CMAKE_SOURCE_DIR}/libibverbs/known.c)
target_link_libraries(dropin_known_test PRIVATE ${CMOCKA_LIBRARIES} ${CMAKE_DL_LIBS})
add_dependencies(dropin_known_test dropin_newer)
add_test(NAME dropin_known COMMAND dropin_known_test $<TARGET_FILE:dropin_newer>)
