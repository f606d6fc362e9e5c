/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* NICs that are taken away, and peers whose process is gone. Lock held. */
#ifndef SIMNIC_CM_GONE_H
#define SIMNIC_CM_GONE_H

#include <stdbool.h>
#include <stdint.h>

bool sn_cm_gone_run(uint64_t now_ns);	/* true: something was gone */
void sn_cm_gone_watch(uint64_t now_ns); /* there is a peer, as long as there is one */
uint64_t sn_cm_gone_next_ns(void);	/* time of the next look; UINT64_MAX: none */
void sn_cm_gone_forget(void);		/* called in the child of a fork */

#endif
