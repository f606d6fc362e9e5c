/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The calls by which a program asks something of SHIFT. They need no library: the functions are
 * weak, and NULL where the program runs without SHIFT:
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
 * Moves the traffic of this process off the NIC named @device (on != 0), or back to it (on == 0).
 *
 * Off: in order, and without a request sent twice, to the next NIC of SHIFT_BACKUP, as with
 * `shiftctl drain`. Connections that are made later move, too. A connection for which no other NIC
 * is ready stays.
 *
 * Returns at once; the connections move in the background. Returns 0 or a positive errno: ENODEV
 * (there is no such device), EINVAL (no name), EOPNOTSUPP (SHIFT is turned off by SHIFT_DISABLE).
 * Any thread may call it.
 */
int shift_drain(const char *device, int on) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
