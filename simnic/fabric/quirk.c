/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The names of the quirks. */
#include <errno.h>
#include <string.h>

#include "simnic/fabric/quirk.h"

int sn_quirk_find(const char *name)
{
	static const char *const names[SN_QUIRKS] = {
		[SN_QUIRK_NOP_EARLY] = "nop-early",
		[SN_QUIRK_FENCE_IGNORED] = "fence-ignored",
		[SN_QUIRK_WRONG_INDEX] = "wrong-index",
		[SN_QUIRK_RUNS_AHEAD] = "runs-ahead",
		[SN_QUIRK_BLUEFLAME_TORN] = "blueflame-torn",
		[SN_QUIRK_COMPRESSED] = "compressed",
		[SN_QUIRK_SCATTER_SILENT] = "scatter-silent",
		[SN_QUIRK_ATOMICS_SWAPPED] = "atomics-swapped",
		[SN_QUIRK_UNSIGNALED_UNFLUSHED] = "unsignaled-unflushed",
		[SN_QUIRK_RECEIVES_UNFLUSHED] = "receives-unflushed",
		[SN_QUIRK_LATE_UNFLUSHED] = "late-unflushed",
		[SN_QUIRK_ERROR_NAMES_LAST] = "error-names-last",
		[SN_QUIRK_GIVES_UP_EARLY] = "gives-up-early",
		[SN_QUIRK_LATE_WRITES_LAND] = "late-writes-land",
		[SN_QUIRK_STALE_PSN] = "stale-psn",
		[SN_QUIRK_DATA_BEHIND_LOG] = "data-behind-log",
		[SN_QUIRK_GLOB_CLAIMED] = "glob-claimed",
		[SN_QUIRK_RESET_COMPLETES] = "reset-completes",
		[SN_QUIRK_NO_LAST_WQE] = "no-last-wqe",
		[SN_QUIRK_QPN_AGAIN] = "qpn-again",
		[SN_QUIRK_NO_PORT_EVENT] = "no-port-event",
		[SN_QUIRK_LOOPBACK_INSIDE] = "loopback-inside",
		[SN_QUIRK_UD_DIES] = "ud-dies",
		[SN_QUIRK_PKEY_IGNORED] = "pkey-ignored",
		[SN_QUIRK_UC_IN_ORDER] = "uc-in-order",
		[SN_QUIRK_UC_ENDS] = "uc-ends",
		[SN_QUIRK_WINDOW_ONE_QP] = "window-one-qp",
		[SN_QUIRK_UNBIND_IGNORED] = "unbind-ignored",
		[SN_QUIRK_NULL_KEY_REFUSED] = "null-key-refused",
		[SN_QUIRK_UMR_OFFSET_IGNORED] = "umr-offset-ignored",
		[SN_QUIRK_PORT_TWICE] = "port-twice",
	};

	for (int quirk = 0; quirk < SN_QUIRKS; quirk++)
		if (!strcmp(name, names[quirk]))
			return quirk;
	return -EINVAL;
}
