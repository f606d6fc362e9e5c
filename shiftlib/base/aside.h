/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Descriptors of SHIFT's, moved out of the numbers that the program may have (RLIMIT_NOFILE). The
 * kernel gives no number above the soft limit, but a descriptor that lies there stays valid. So a
 * short-lived process that shares the table of descriptors, and has a limit of its own,
 * duplicates them there: the program's limit never changes.
 */
#ifndef SHIFTLIB_ASIDE_H
#define SHIFTLIB_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#define SH_ASIDE_MOST 8 /* descriptors in one call */

/*
 * Moves the descriptors at fds[0..n-1] and closes the old numbers; -1 is passed over. A
 * descriptor that cannot be moved stays where it is: the hard limit is no higher, the soft one is
 * above SH_ASIDE_LIMIT, or no process can be made. O_CLOEXEC is set on what is moved. Keeps
 * errno. Any thread. A descriptor that another thread may use, or that has record locks (fcntl),
 * must not be moved.
 */
void sh_aside(int *const fds[], uint32_t n);
/*
 * Moves descriptors whose number the program may see and give to select(): a number that FD_SET()
 * has no place for is not taken, and the descriptor stays where it is.
 */
void sh_aside_shown(int *const fds[], uint32_t n);
static inline void sh_aside_one(int *fd)
{
	sh_aside(&fd, 1);
}

/*
 * Above it the table of descriptors, and each fork(), would grow by more than what is gained is
 * worth.
 */
#define SH_ASIDE_LIMIT 32768

/* Can a descriptor be moved? Tries it with one. */
bool sh_aside_works(void);
/* Has SHIFT a descriptor below the soft limit of now, that the program could have instead? */
bool sh_aside_takes_any(void);

#endif
