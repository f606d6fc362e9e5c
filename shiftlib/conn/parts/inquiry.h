/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Whose an error is that looks like a program's own: a NIC that cannot reach its host's memory any
 * more refuses requests that are well (IBA 9.9.3: the responder's "remote operational error" has
 * causes of its own). So both NICs are asked before the error is passed on.
 */
#ifndef SHIFTLIB_CONN_PARTS_INQUIRY_H
#define SHIFTLIB_CONN_PARTS_INQUIRY_H

struct sh_conn_part;

extern const struct sh_conn_part sh_inquiry_part;

#endif
