/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * SIMNIC_CLOSE_WAITS: the last close of a device whose NIC hangs waits as a kernel does, which
 * destroys what is left by one command after the other; so does the end of a process, unless
 * another process has the file too.
 */
#ifndef SIMNIC_HOST_LAST_CLOSE_H
#define SIMNIC_HOST_LAST_CLOSE_H

struct sn_ctx;

/* Waits where the switch is on. No lock held. */
void sn_last_close(const struct sn_ctx *ctx);

#endif
