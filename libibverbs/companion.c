/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A librdmacm.so.1 beside the drop-in, for programs that name librdmacm before libibverbs, as most do: the
 * loader would find the installed one's functions before those of rdmacm.c. It has the installed one's version
 * nodes and nothing in them; what it needs, and in which order, is all: the drop-in, then
 * librdmacm-distro.so.1, a symlink to the installed one.
 */
int shift_companion_stub(void);

__attribute__((visibility("hidden"))) int shift_companion_stub(void)
{
	return 0;
}
