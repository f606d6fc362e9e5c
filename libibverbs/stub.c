/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A stand-in for libibverbs-distro.so.1 at link time. Only its soname counts, which becomes the
 * DT_NEEDED of the drop-in. At run time the symlink beside the drop-in leads to the installed
 * library.
 */
int shift_distro_stub(void);

__attribute__((visibility("default"))) int shift_distro_stub(void)
{
	return 0;
}
