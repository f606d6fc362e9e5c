/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a NIC wrote to other devices' memory is there before the peer sends over another NIC. */
#ifndef SHIFTLIB_CONN_PARTS_PUSH_H
#define SHIFTLIB_CONN_PARTS_PUSH_H

struct sh_conn_part;

extern const struct sh_conn_part sh_push_part;

#endif
