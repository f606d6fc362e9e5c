#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# run.sh OUT [engine_diff arguments]: on a fabric of its own, its NICs frozen.
out=$1
shift
SIMNIC_FABRIC="diff-$$"
export SIMNIC_FABRIC
"$out/bin/simnicctl" create --hosts 1 --nics 2 >/dev/null || exit 2
SIMNIC_FREEZE=1 "$out/bin/simnicctl" run --host h0 -- \
	timeout 3000 "$out/bin/engine_diff" "$@"
ret=$?
"$out/bin/simnicctl" destroy >/dev/null
exit $ret
