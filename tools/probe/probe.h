/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shift-probe: tries SHIFT's assumptions about a NIC on one. It knows nothing of SHIFT's engine:
 * both read only mlx5dv.h, and each checks the other. One thread, except where commands are timed.
 *
 * The client drives. At the other end an agent obeys: another host's over TCP, or a child process
 * on the same NIC. Functions return 0, or -1 with a sentence in pr_why().
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <stdint.h>

#define PR_WHY_MAX 256u
#define PR_LONG_MS 10000u /* time after which a completion does not come any more */

/* How these programs end. */
enum { PR_ALL_HOLD = 0, PR_SOME_FAIL = 1, PR_USAGE = 2, PR_NOT_RUN = 3 };

int pr_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *pr_why(void);
uint64_t pr_now_ns(void);
void pr_nap_us(uint64_t us);

#endif
