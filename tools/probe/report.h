/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The findings, as a table and as JSON. */
#ifndef PROBE_REPORT_H
#define PROBE_REPORT_H

#include <jansson.h>
#include <stdbool.h>

struct pr_result;

struct pr_report {
	bool loopback;
	json_t *here, *there; /* as pr_dev_describe() */
	struct pr_result *results;
	unsigned n;
	double seconds;
};

void pr_report_table(const struct pr_report *report);
void pr_report_json(const struct pr_report *report);

#endif
