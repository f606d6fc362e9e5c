/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A librdmacm.so.1 beside the drop-in, for programs that name librdmacm before libibverbs, as most
 * do: for them the loader would find the installed library's functions before those of rdmacm.c.
 * The companion has the version nodes of the installed library, and no functions. Its only content
 * is what it needs, in this order: the drop-in, then librdmacm-distro.so.1, a symlink to the
 * installed library.
 */
int shift_companion_stub(void);

__attribute__((visibility("hidden"))) int shift_companion_stub(void)
{
	return 0;
}
