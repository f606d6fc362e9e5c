/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Lists that an element leaves without a look at the others: those of sys/queue.h. */
#ifndef SIMNIC_FABRIC_LIST_H
#define SIMNIC_FABRIC_LIST_H

#include <sys/queue.h>

#include "simnic/fabric/check.h"

/* LIST_REMOVE() of an element that must be in a list. */
#define SN_LIST_REMOVE(element, field)                                                             \
	do {                                                                                       \
		SN_ASSERT(*(element)->field.le_prev == (element));                                 \
		LIST_REMOVE(element, field);                                                       \
	} while (0)

#endif
