/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Descriptors of SHIFT's, moved out of the numbers that the program may have (RLIMIT_NOFILE). The kernel gives none above the soft
 * limit, and one that lies there stays valid. So a short-lived process that shares the table of descriptors, and has a limit of its own,
 * duplicates them there: the program's limit is at no moment another one.
 */
#ifndef SHIFTLIB_ASIDE_H
#define SHIFTLIB_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#define SH_ASIDE_MOST 8 /* descriptors in one call */

/*
 * Moves the descriptors at fds[0..n-1] and closes the old numbers; -1 is passed over. One that cannot be moved stays where it is:
 * the hard limit is no higher, the soft one is above SH_ASIDE_LIMIT, or no process can be made. O_CLOEXEC is set on what is moved.
 * Keeps errno. Any thread; a descriptor that another one may use, or that has record locks (fcntl), is not to be moved.
 */
void sh_aside(int *const fds[], uint32_t n);
/*
 * The same for descriptors whose number the program may see and give to select(): one that FD_SET() has no place for is not taken,
 * and the descriptor stays where it is.
 */
void sh_aside_shown(int *const fds[], uint32_t n);
static inline void sh_aside_one(int *fd)
{
	sh_aside(&fd, 1);
}

/* Above it the table of descriptors, and each fork(), would grow by more than what is gained is worth. */
#define SH_ASIDE_LIMIT 32768

/* Can a descriptor be moved? Tries it with one. */
bool sh_aside_works(void);
/* Has SHIFT a descriptor below the soft limit of now, that the program could have instead? */
bool sh_aside_takes_any(void);

#endif
