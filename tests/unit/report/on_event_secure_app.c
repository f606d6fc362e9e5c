/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Something happens, and the command of its argument is told: hook_secure_test.py. */
#include <stdio.h>
#include <sys/auxv.h>
#include "shiftlib/report/on_event.h"
#include "shiftlib/base/util.h"

int main(int argc, char **argv)
{
	struct sh_on_event_config config = { .command = argc > 1 ? argv[1] : NULL,
					     .kinds = "drain",
					     .timeout_ns = SH_NS_PER_S };
	struct sh_event event = { .kind = SH_EVENT_DRAIN, .from = "mlx5_0" };

	printf("secure=%lu\n", getauxval(AT_SECURE));
	sh_on_event_setup(&config);
	sh_event_record(&event);
	sh_on_event_end(10 * SH_NS_PER_S);
	return 0;
}
