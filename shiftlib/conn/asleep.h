/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sleep of the looks. While no connection that may move has sends outstanding, nothing has to
 * be looked for often; engines tell of the next post (sp_qp_tell), which ends the sleep at once.
 */
#ifndef SHIFTLIB_CONN_ASLEEP_H
#define SHIFTLIB_CONN_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/lock.h"
#include "shiftlib/loop/loop.h"

bool sh_asleep(void) SH_LOCKED; /* true: looks are due at sh_rare_next() */

/*
 * Called at each look at the work: calm: nothing is under way. Falls asleep when it has been calm
 * for a while and arm() has all posts told; arm() is false if something was posted.
 */
void sh_asleep_judge(bool calm, bool (*arm)(uint64_t now), uint64_t now) SH_LOCKED;
/* Something happened that is to be looked at for a while. The looks are due at once. */
void sh_asleep_end(void) SH_LOCKED;
/* A post that was to be told. Any thread, no lock; engine locks may be held. */
void sh_asleep_posted(void);

extern const struct sh_module sh_asleep_module;

#endif
