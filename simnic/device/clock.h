/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The pages in which a program finds its NIC's clock: the clock's register, and what the kernel
 * says of it (struct mlx5_ib_clock_info). Here they are memory. The device brings the register up
 * to date with each batch and before each completion. So no completion has a later time than the
 * register, which else goes on in steps. Lock held.
 */
#ifndef SIMNIC_DEVICE_CLOCK_H
#define SIMNIC_DEVICE_CLOCK_H

#include <stdint.h>

struct sn_dev;

/* The time now, in the clock's cycles; the pages tell it too. */
uint64_t sn_dev_clock_tick(struct sn_dev *dev);

#endif
