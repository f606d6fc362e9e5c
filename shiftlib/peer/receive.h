/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams that come in. */
#ifndef SHIFTLIB_PEER_RECEIVE_H
#define SHIFTLIB_PEER_RECEIVE_H

#include <stddef.h>

/* Lock held. nic: the struct sh_nic that it came to. */
void sh_receive(void *nic, const void *buf, size_t length);

#endif
