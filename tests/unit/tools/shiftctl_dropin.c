/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A library with the names and links of SHIFT's, and nothing in it: shiftctl's checks of files are
 * tested with it, so that they need no working SHIFT.
 */
int kv_fixture_dropin(void);

__attribute__((visibility("default"))) int kv_fixture_dropin(void)
{
	return 0;
}
