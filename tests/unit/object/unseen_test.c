/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs that a program makes by commands of the driver (DEVX), for a GPU to write to their
 * rings: SHIFT does not reach them, and says so once for each device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "providers/engine.h"
#include "shiftlib/admin/admin.h"
#include "shiftlib/base/json.h"
#include "shiftlib/base/log.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/shift.h"

static struct shift_real verbs;
static struct ibv_device devices[2];
static struct ibv_context contexts[2];
static struct sh_ctx ctxs[2];
static char said[2][256];
static unsigned int n_said;
static struct sp_key_command does;

void __wrap_sp_key_command(struct ibv_context *ctx, const struct ib_uverbs_ioctl_hdr *command,
			   struct sp_key_command *out);
void __wrap_sp_key_command(struct ibv_context *ctx, const struct ib_uverbs_ioctl_hdr *command,
			   struct sp_key_command *out)
{
	(void)ctx;
	(void)command;
	*out = does;
}

void __wrap_sh_log(enum sh_log_level level, const char *format, ...);
void __wrap_sh_log(enum sh_log_level level, const char *format, ...)
{
	va_list args;

	assert_int_equal(level, SH_LOG_WARN);
	assert_in_range(n_said, 0, 1);
	va_start(args, format);
	vsnprintf(said[n_said++], sizeof(said[0]), format, args);
	va_end(args);
}

static const char *device_name(struct ibv_device *device)
{
	return device == &devices[0] ? "mlx5_0" : "mlx5_1";
}

static int setup(void **state)
{
	(void)state;
	verbs.get_device_name = device_name;
	sh.real = &verbs;
	list_init(&sh_objects.ctxs);
	n_said = 0;
	for (int i = 0; i < 2; i++) {
		contexts[i].device = &devices[i];
		ctxs[i] =
			(struct sh_ctx){ .ctx = &contexts[i], .dev = (struct sp_dev *)&devices[i] };
		list_init(&ctxs[i].pds);
		list_add_tail(&sh_objects.ctxs, &ctxs[i].link);
	}
	return 0;
}

static void command(struct ibv_context *context, struct sp_key_command what)
{
	const struct ib_uverbs_ioctl_hdr hdr = { .object_id = UVERBS_OBJECT_DEVICE };

	does = what;
	shift_command_done(context, &hdr);
}

static void said_once_for_each_device(void **state)
{
	const struct sp_key_command made = { .what = SP_QP_MADE };

	(void)state;
	command(&contexts[0], made);
	command(&contexts[0], made);
	command(&contexts[1], made);
	assert_int_equal(n_said, 2);
	assert_non_null(strstr(said[0], "mlx5_0: GPU-initiated"));
	assert_non_null(strstr(said[0], "not reached"));
	assert_non_null(strstr(said[1], "mlx5_1: GPU-initiated"));
}

static void nothing_is_said_of_other_commands(void **state)
{
	(void)state;
	command(&contexts[0], (struct sp_key_command){ .what = SP_KEY_NONE });
	command(&contexts[0], (struct sp_key_command){ .what = SP_KEY_GONE, .object = 7 });
	assert_int_equal(n_said, 0);
}

/* Of a device that SHIFT does not serve nothing is protected anyway, and that was said. */
static void nothing_is_said_of_foreign_devices(void **state)
{
	(void)state;
	ctxs[0].dev = NULL;
	command(&contexts[0], (struct sp_key_command){ .what = SP_QP_MADE });
	assert_int_equal(n_said, 0);
}

static void status_counts_them(void **state)
{
	const struct sp_key_command made = { .what = SP_QP_MADE };
	struct sh_json json = { 0 };

	(void)state;
	command(&contexts[1], made);
	command(&contexts[1], made);
	sh_lock();
	admin_direct(&json);
	sh_unlock();
	assert_non_null(strstr(json.text, "\"direct\": [{\"name\": \"mlx5_1\", \"qps\": 2}]"));
	free(json.text);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup(test, setup)
	const struct CMUnitTest tests[] = {
		CASE(said_once_for_each_device),
		CASE(nothing_is_said_of_other_commands),
		CASE(nothing_is_said_of_foreign_devices),
		CASE(status_counts_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
