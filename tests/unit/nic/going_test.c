/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A device is going when its character device is not there any more; who has no file descriptor left cannot tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "shiftlib/news.h"
#include "shiftlib/nic/internal.h"

static struct ibv_device device;
static struct ibv_context context = { .device = &device };
static struct sh_nic nic;
static char chardev[sizeof(device.dev_path) + sizeof("/ibdev")];
static struct rlimit before;
static int taken, emptied;
static bool used;

bool __wrap_sh_news_nic_used(const struct sh_nic *of);
void __wrap_sh_news_nic_empty(struct sh_nic *of);
void __wrap_sh_nic_taken(struct sh_nic *of);

bool __wrap_sh_news_nic_used(const struct sh_nic *of)
{
	return used;
}

void __wrap_sh_news_nic_empty(struct sh_nic *of)
{
	emptied++;
}

void __wrap_sh_nic_taken(struct sh_nic *of)
{
	taken++;
}

static void chardev_comes(void)
{
	FILE *f = fopen(chardev, "w");

	assert_non_null(f);
	fclose(f);
}

static void chardev_goes(void)
{
	assert_int_equal(unlink(chardev), 0);
}

static void descriptors(bool any)
{
	struct rlimit limit = before;

	if (!any)
		limit.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void look(int want_taken)
{
	sh_nic_going_poll(&nic);
	assert_int_equal(taken, want_taken);
	assert_int_equal(nic.removal.leaving, want_taken > 0);
	assert_int_not_equal(nic.removal.look_at, 0);
}

static int setup(void **state)
{
	taken = emptied = 0;
	used = false;
	nic = (struct sh_nic){ .state = SH_NIC_OPEN, .ctx = &context };
	strcpy(device.dev_path, "/tmp/going_test.XXXXXX");
	if (getrlimit(RLIMIT_NOFILE, &before) || !mkdtemp(device.dev_path))
		return -1;
	snprintf(chardev, sizeof(chardev), "%s/ibdev", device.dev_path);
	return 0;
}

static int teardown(void **state)
{
	(void)unlink(chardev);
	return rmdir(device.dev_path);
}

static void it_is_given_up(void **state)
{
	chardev_comes();
	sh_nic_going_watch(&nic);
	look(0);
	chardev_goes();
	look(1);
	look(1); /* told once, emptied again and again */
	assert_int_equal(emptied, 2);
}

static void not_while_it_is_used(void **state)
{
	chardev_comes();
	sh_nic_going_watch(&nic);
	chardev_goes();
	used = true;
	look(0);
	used = false;
	look(1);
}

static void one_that_never_was_there_says_nothing(void **state)
{
	sh_nic_going_watch(&nic);
	assert_int_equal(nic.removal.look_at, 0);
}

/* It is there, and then it is not: neither is seen before there is a descriptor. */
static void without_a_descriptor_nobody_can_tell(void **state)
{
	chardev_comes();
	sh_nic_going_watch(&nic);
	descriptors(false);
	look(0);
	chardev_goes();
	look(0);
	descriptors(true);
	look(1);
}

/* What could not be told when it was opened is not taken for "it never was there". */
static void opened_without_a_descriptor_it_is_watched(void **state)
{
	chardev_comes();
	descriptors(false);
	sh_nic_going_watch(&nic);
	descriptors(true);
	assert_int_not_equal(nic.removal.look_at, 0);
	look(0);
	chardev_goes();
	look(1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(it_is_given_up),
		TEST(not_while_it_is_used),
		TEST(one_that_never_was_there_says_nothing),
		TEST(without_a_descriptor_nobody_can_tell),
		TEST(opened_without_a_descriptor_it_is_watched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
