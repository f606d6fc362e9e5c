/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The failure detector: faults that raise no event. */
#ifndef SHIFTLIB_CONN_WATCH_DETECTOR_H
#define SHIFTLIB_CONN_WATCH_DETECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include "providers/qp.h"
#include "shiftlib/loop/loop.h"

struct sh_conn_part;
struct sh_qp;

void sh_detector_nics(void) SH_LOCKED; /* does any hang? Where something waits for one */

extern const struct sh_module sh_detector_module;
extern const struct sh_conn_part sh_detector_part;

#endif
