# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME includes COMMAND ${Python3_EXECUTABLE}
	${CMAKE_CURRENT_LIST_DIR}/../check_includes.py ${CMAKE_CURRENT_LIST_DIR}/../..)
set_tests_properties(includes PROPERTIES TIMEOUT 60 LABELS "unit;style")
add_test(NAME style COMMAND ${Python3_EXECUTABLE}
	${CMAKE_CURRENT_LIST_DIR}/../check_style.py ${CMAKE_CURRENT_LIST_DIR}/../..)
set_tests_properties(style PROPERTIES TIMEOUT 60 LABELS "unit;style")
add_test(NAME man COMMAND ${Python3_EXECUTABLE}
	${CMAKE_CURRENT_LIST_DIR}/../check_man.py ${CMAKE_CURRENT_LIST_DIR}/../..)
set_tests_properties(man PROPERTIES TIMEOUT 60 LABELS "unit;style")
