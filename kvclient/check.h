/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Assertions of kvclient, which hold in every build: a handle that is not what it believes to be
 * must not go on writing the program's memory. They judge the module's own state alone, never the
 * words of a server, a file or a peer.
 */
#ifndef KVCLIENT_CHECK_H
#define KVCLIENT_CHECK_H

#define KV_ASSERT(cond)                                                                            \
	do {                                                                                       \
		if (!(cond))                                                                       \
			__builtin_trap();                                                          \
	} while (0)

#endif
