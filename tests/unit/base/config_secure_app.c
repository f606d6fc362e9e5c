/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What of the environment counts: everything, or in a program with more rights than its user nothing.
 * config_secure_test.py runs it both ways, with a hostile environment; prints what was believed.
 */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "kvclient/kv.h"
#include "shiftlib/base/config.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/run_dir.h"

static void show(const char *name, const char *value)
{
	printf("%s=%s\n", name, value ? value : "");
}

int main(void)
{
	struct sh_config config = { 0 };
	char dir[RUN_DIR_MAX];

	sh_config_read(&config);
	printf("secure=%lu\n", getauxval(AT_SECURE));
	show("kv", config.kv_url);
	show("password", config.kv_password_file);
	show("secret", config.secret_file);
	show("backup", config.backup);
	show("job", config.job);
	show("stats", config.stats);
	show("run_dir", config.run_dir);
	printf("timeout=%u\n", config.kv_timeout_ms);
	show("runtime", run_dir_path(NULL, 4711, dir) ? NULL : dir);
	printf("debug=%d\n", sh_log_enabled(SH_LOG_DEBUG));
	return 0;
}
