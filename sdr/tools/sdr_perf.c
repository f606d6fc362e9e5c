/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* sdr_perf: how fast and how well SDR goes between two hosts; by the model, what to expect. */
#include <string.h>

#include "sdr/tools/perf.h"

int main(int argc, char **argv)
{
	bool model = argc > 1 && !strcmp(argv[1], "model");
	struct options o;

	if (!options_parse(argc - model, argv + model, model, &o))
		return 2;
	if (model)
		return run_model(&o);
	if (!o.dev) {
		complain("-d DEV is missing: ibv_devices lists them");
		return 2;
	}
	return o.sdk ? run_sdk(&o) : run_writes(&o);
}
