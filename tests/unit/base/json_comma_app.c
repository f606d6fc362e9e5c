/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* In the environment's locale: a number by printf(), and the same in JSON, a line each. */
#include <locale.h>
#include <stdio.h>

#include "shiftlib/base/json.h"

int main(void)
{
	struct sh_json json = { 0 };

	if (!setlocale(LC_ALL, ""))
		return 2;
	sh_json_print(&json, "[%.3f, %g, %.400f]", 1.5, 0.25, 2.5);
	printf("%.1f\n%s\n", 1.5, json.text);
	sh_json_free(&json);
	printf("%.1f\n", 1.5); /* the program's own is what it was */
	return 0;
}
