/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The room that a fabric takes in /dev/shm, and the processes that it takes. Each test has a
 * /dev/shm of its own size, in a mount namespace.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/inbox.h"
#include "tests/lib/fork.h"

#define NAME	     "room"
#define NOT_POSSIBLE 77
#define MANY	     70 /* more than the 64 that a fabric once took */

static const struct sn_fabric_config config = {
	.n_hosts = 2, .n_nics = 2, .link_layer = SN_LINK_ETH, .seed = 1
};

static void child_in_shm(const char *size, void (*run)(void))
{
	char options[32];

	snprintf(options, sizeof(options), "size=%s", size);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", "/dev/shm", "tmpfs", 0, options))
		_exit(NOT_POSSIBLE);
	run();
	_exit(0);
}

static void in_shm(const char *size, void (*run)(void))
{
	pid_t pid = test_fork();
	int status;

	if (!pid)
		child_in_shm(size, run);
	assert_int_equal(pid, waitpid(pid, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_POSSIBLE) {
		print_message("no right to mount a /dev/shm of another size\n");
		skip();
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(0, WEXITSTATUS(status));
}

static struct sn_fabric *make(void)
{
	struct sn_fabric *fabric;

	assert_int_equal(0, sn_fabric_create(NAME, &config));
	assert_int_equal(0, sn_fabric_attach(NAME, &fabric));
	return fabric;
}

/* ---- room ----------------------------------------------------------------------------------- */

static void no_room_for_the_fabric(void)
{
	char dir[256];

	assert_int_equal(-ENOSPC, sn_fabric_create(NAME, &config));
	assert_int_equal(0, sn_fabric_dir(NAME, dir, sizeof(dir)));
	assert_int_not_equal(0, access(dir, F_OK));
}

static void no_room_for_a_second_process(void)
{
	struct sn_fabric *fabric = make();
	struct sn_pkt pkt = { .op = SN_PKT_SEND, .n_inline = SN_PKT_INLINE }, out;
	int slot = sn_proc_attach(fabric, 0);

	assert_int_equal(0, slot);
	assert_int_equal(-ENOSPC, sn_proc_attach(fabric, 1));
	/* What has room has all of it: a full inbox, each datagram, each queue pair's number. */
	for (uint32_t i = 0; i < SN_INBOX_SLOTS; i++)
		assert_int_equal(0, sn_inbox_push(fabric, (uint32_t)slot, &pkt));
	assert_true(sn_inbox_pop(&fabric->proc[slot], &out));
	memset(fabric->proc[slot].datagram_payload, 1, sizeof(fabric->proc[slot].datagram_payload));
	for (uint32_t qpn = 0; qpn < SN_QPN_MAX; qpn++)
		atomic_store(&fabric->nic[1][1].qpn_owner[qpn], 1);
}

static void no_room_for_late_packets(void)
{
	struct sn_fabric *fabric = make();
	uint32_t n = 0;

	for (struct sn_held *held; (held = sn_held_begin(fabric, 0)); n++)
		memset(held->payload, 1, sizeof(held->payload));
	assert_in_range(n, 1, SN_MAX_HELD - 1);
	sn_held_forget(fabric, 0);
	assert_non_null(sn_held_begin(fabric, 0));
}

static void no_room_for_packets_on_a_cable(void)
{
	const struct sn_line_config slow = { .delay_ns = 1000000000 };
	struct sn_line_slot *slots[2];
	struct sn_fabric *fabric = make();
	struct sn_line *line;
	uint32_t n = 0;

	assert_int_equal(0, sn_line_set(fabric, 0, 0, &slow));
	line = &fabric->line[atomic_load(&fabric->nic[0][0].cable.out) - 1];
	while (sn_line_enter(fabric, line, 100, 0, 1000, false, slots) == 1 && ++n < SN_LINE_SLOTS)
		memset(slots[0]->payload, 1, sizeof(slots[0]->payload));
	assert_in_range(n, 1, SN_LINE_SLOTS - 1);
	assert_int_equal(1, line->overflown);
}

static void a_full_shm_is_an_error(void **state)
{
	in_shm("1M", no_room_for_the_fabric);
	in_shm("8M", no_room_for_a_second_process);
	in_shm("8M", no_room_for_late_packets);
	in_shm("8M", no_room_for_packets_on_a_cable);
}

/* ---- processes ------------------------------------------------------------------------------ */

static void many_attach(void)
{
	struct sn_fabric *fabric = make();

	for (int i = 0; i < MANY; i++)
		assert_int_equal(i, sn_proc_attach(fabric, 0));
}

static void last_attach(void)
{
	struct sn_fabric *fabric = make();

	for (uint32_t slot = 1; slot < SN_MAX_PROCS; slot++)
		atomic_store(&fabric->proc[slot].pid, getpid());
	atomic_store(&fabric->proc_slots, SN_MAX_PROCS);
	assert_int_equal(0, sn_proc_attach(fabric, 0));
	assert_int_equal(-EUSERS, sn_proc_attach(fabric, 0));
	sn_proc_wake_all(fabric);
}

static void many_processes_have_nics(void **state)
{
	assert_in_range(SN_MAX_PROCS, 1024, UINT16_MAX - 1); /* sn_nic.qpn_owner: 16 bits */
	in_shm("300M", many_attach);
	in_shm("64M", last_attach);
}

static void stranger(struct sn_fabric *fabric)
{
	pid_t pid;
	int status;

	if (unshare(CLONE_NEWPID))
		_exit(NOT_POSSIBLE);
	pid = test_fork();
	if (!pid) {
		assert_int_equal(1, sn_proc_attach(fabric, 1));
		_exit(0);
	}
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* A number of another pid namespace names somebody else here, or nobody. */
static void other_pid_spaces_reap_nobody(void)
{
	struct sn_fabric *fabric = make();
	int status, slot = sn_proc_attach(fabric, 0);
	pid_t pid;

	assert_int_equal(0, slot);
	pid = test_fork();
	if (!pid)
		stranger(fabric);
	assert_int_equal(pid, waitpid(pid, &status, 0));
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status))
		_exit(WEXITSTATUS(status));
	assert_int_equal(getpid(), fabric->proc[slot].pid);
	assert_int_equal(2, sn_proc_attach(fabric, 0));
}

static void pid_namespaces_are_told_apart(void **state)
{
	in_shm("64M", other_pid_spaces_reap_nobody);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_shm_is_an_error),
		cmocka_unit_test(many_processes_have_nics),
		cmocka_unit_test(pid_namespaces_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
