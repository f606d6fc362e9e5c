/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The findings, for people and for programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/probe/check.h"
#include "tools/probe/report.h"

#define REPORT_FORMAT 1

static unsigned count(const struct pr_report *report, enum pr_verdict verdict)
{
	unsigned n = 0;

	for (unsigned i = 0; i < report->n; i++)
		n += report->results[i].verdict == verdict;
	return n;
}

static json_t *differences_of(const struct pr_report *report)
{
	json_t *list = json_array(), *here;
	const char *key;

	json_object_foreach((json_t *)report->here, key,
			    here) if (report->there &&
				      !json_equal(here, json_object_get(report->there, key)))
		json_array_append_new(list, json_string(key));
	return list;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void print_value(const json_t *value)
{
	if (json_is_string(value))
		printf("%s", json_string_value(value));
	else if (json_is_real(value))
		printf("%.2f", json_real_value(value));
	else if (json_is_boolean(value))
		printf("%s", json_is_true(value) ? "yes" : "no");
	else
		printf("%lld", (long long)json_integer_value(value));
}

static void print_members(const json_t *object)
{
	const char *key, *sep = "";
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		printf("%s%s ", sep, key);
		print_value(value);
		sep = ", ";
	}
	putchar('\n');
}

static void print_hosts(const struct pr_report *report)
{
	json_t *differences = differences_of(report), *key;
	size_t i;

	printf("%s", report->loopback ? "one host, to itself: " : "client: ");
	print_members(report->here);
	if (report->loopback) {
		json_decref(differences);
		return;
	}
	printf("server: ");
	print_members(report->there);
	json_array_foreach(differences, i, key)
		printf("%s%s", i ? ", " : "THE HOSTS DIFFER in: ", json_string_value(key));
	if (json_array_size(differences))
		printf("; what holds for the one may not for the other, so run it both ways\n");
	json_decref(differences);
}

static void print_result(const struct pr_result *r)
{
	printf("%-17s %-11s ", r->check->name, pr_verdict_name(r->verdict));
	if (json_object_size(r->evidence))
		print_members(r->evidence);
	else
		printf("-\n");
	if (r->verdict == PR_HOLDS)
		return;
	printf("    reason:     %s\n", r->reason);
	if (r->verdict == PR_CANNOT_TELL)
		return;
	printf("    assumption: %s\n", r->check->assumption);
	printf("    otherwise:  %s\n", r->check->otherwise);
}

void pr_report_table(const struct pr_report *report)
{
	print_hosts(report);
	printf("\n%-17s %-11s %s\n", "CHECK", "VERDICT", "EVIDENCE");
	for (unsigned i = 0; i < report->n; i++)
		print_result(&report->results[i]);
	printf("\n%u hold, %u fail, %u cannot be told; %.1f s\n", count(report, PR_HOLDS),
	       count(report, PR_FAILS), count(report, PR_CANNOT_TELL), report->seconds);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static const char *verdict_word(enum pr_verdict verdict)
{
	return verdict == PR_FAILS ? "fails" : pr_verdict_name(verdict);
}

static json_t *result_pack(const struct pr_result *r)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:O, s:f}", "name", r->check->name,
			 "assumption", r->check->assumption, "otherwise", r->check->otherwise,
			 "verdict", verdict_word(r->verdict), "reason",
			 r->verdict == PR_HOLDS ? "" : r->reason, "evidence", r->evidence,
			 "seconds", r->seconds);
}

void pr_report_json(const struct pr_report *report)
{
	json_t *checks = json_array(), *all;

	for (unsigned i = 0; i < report->n; i++)
		json_array_append_new(checks, result_pack(&report->results[i]));
	all = json_pack("{s:i, s:s, s:O, s:O?, s:o, s:o, s:{s:i, s:i, s:i}, s:f}", "format",
			REPORT_FORMAT, "mode", report->loopback ? "loopback" : "two hosts",
			"client", report->here, "server", report->there, "differences",
			differences_of(report), "checks", checks, "summary", "holds",
			count(report, PR_HOLDS), "fails", count(report, PR_FAILS), "cannot_tell",
			count(report, PR_CANNOT_TELL), "seconds", report->seconds);
	json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(all);
}
