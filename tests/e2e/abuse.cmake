# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
add_executable(abuse abuse/main.c abuse/armed.c abuse/cancelled.c abuse/life.c abuse/ends.c abuse/ending.c
	abuse/objects.c abuse/limits.c abuse/memory.c abuse/rare.c abuse/shared.c abuse/states.c)
target_link_libraries(abuse PRIVATE test_pair)

# All, and more cycles: make cases
e2e_test(abuse 400 abuse.py --few --cycles 300)
