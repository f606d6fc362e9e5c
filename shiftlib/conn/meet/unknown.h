/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory keys in use that SHIFT does not know: such a connection must not be called protected. Lock held. */
#ifndef SHIFTLIB_CONN_MEET_UNKNOWN_H
#define SHIFTLIB_CONN_MEET_UNKNOWN_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/list.h"

struct sh_conn_part;
struct sh_qp;

/* In struct sh_carriers. */
struct sh_qp_unknown {
	struct list_node link; /* sh_conns.suspects: sightings, and not refused yet */
	uint32_t key;	       /* the one that is suspected, while sightings is not 0 */
	bool remote;
	uint8_t path; /* of the standby that would not have it */
	uint32_t sightings;
	uint32_t number; /* of the latest request, as of sp_qp_sending() */
	uint64_t first_ns, last_ns;
};

void sh_unknown_told(uint32_t lkey); /* a region has it, or no more */

extern const struct sh_conn_part sh_unknown_part;

#endif
