/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SHIFT_ON_EVENT: a command of the user's, run when something has happened (event.h), in a
 * process that the application does not notice.
 *
 * A thread of its own gives the command to /bin/sh, so that nothing waits for it. Registered
 * memory makes fork() slow and dangerous: no page table is copied here. That thread clones a
 * process A that shares its memory, and stands still meanwhile; A does the same with B, and B
 * executes the shell. A ends, and B is nobody's child any more. A was cloned without a signal for
 * its end, so neither SIGCHLD nor wait() tells the application of either.
 */
#ifndef SHIFTLIB_ON_EVENT_H
#define SHIFTLIB_ON_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include "shiftlib/base/config.h"
#include "shiftlib/report/event.h"

/*
 * Called once, before anything happens, in a thread of the application: the command gets its
 * environment, with SHIFT taken out of it. The command is not run in a program that has more
 * rights than its user (setuid).
 */
void sh_on_event_setup(const struct sh_on_event_config *config);

/*
 * Runs the command for an event. Of the events of a kind that come while a command runs, the
 * newest is told next, with their number. Any thread, one at a time; returns at once.
 */
void sh_on_event_run(const struct sh_event *event);

/*
 * Waits, when the process ends, until what has happened has been given to the command, not
 * until that ends, and not longer than timeout_ns.
 */
void sh_on_event_end(uint64_t timeout_ns);
void sh_on_event_after_fork(void); /* called in the child */

#endif
