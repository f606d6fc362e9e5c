/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a program may ask of SHIFT, where it runs with it. No library is linked for this: the
 * functions are weak, and NULL without SHIFT:
 *
 *	if (shift_drain && shift_drain("mlx5_0", 1))
 *		...
 */
#ifndef SHIFT_API_H
#define SHIFT_API_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * on != 0: the traffic of this process leaves the NIC named @device, in order and without a request
 * sent twice, for the next NIC of SHIFT_BACKUP, as with `shiftctl drain`; so does that of connections
 * that are made later. on == 0: it comes back. A connection for which no other NIC is ready stays.
 *
 * Returns at once; the connections move in the background. 0, or a positive errno: ENODEV: there is
 * no such device; EINVAL: no name; EOPNOTSUPP: SHIFT is turned off (SHIFT_DISABLE). Any thread.
 */
int shift_drain(const char *device, int on) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
