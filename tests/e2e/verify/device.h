/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Everything between opening the device and connected QPs, and back. */
#ifndef VERIFY_DEVICE_H
#define VERIFY_DEVICE_H

struct verify;

void device_open(struct verify *v);
void device_connect(struct verify *v);
void device_close(struct verify *v);
void device_check_states(struct verify *v);

#endif
