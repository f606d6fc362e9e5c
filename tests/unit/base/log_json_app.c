/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Logs its arguments, a line each, at the level of the first; then one with fields. */
#include <string.h>
#include "shiftlib/base/log.h"

int main(int argc, char **argv)
{
	enum sh_log_level level = SH_LOG_ERROR;
	char wide[2 * SH_LOG_JSON_MAX];
	int i;

	if (argc > 1)
		while (level < SH_LOG_DEBUG && strcmp(argv[1], sh_log_level_name(level)))
			level++;
	for (i = 2; i < argc; i++)
		sh_log(level, "%s", argv[i]);
	sh_log_fields(level, "\"n\": 1, \"s\": {\"t\": null}", "%s", "with fields");
	memset(wide, ' ', sizeof(wide));
	wide[0] = '"';
	wide[sizeof(wide) - 1] = 0;
	sh_log_fields(level, wide, "too many fields");
	return !!sh_log_json() != 1;
}
