/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A NIC goes on when its program is halted, and ends with it. The peer is stopped by a signal or by a
 * tracer; its memory is written and read, receives that it posted are used, and what it finds
 * afterwards is right.
 */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "simnic/fabric/proc.h"
#include "tests/lib/fork.h"
#include "tests/lib/simnic_rig.h"

#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define RECEIVES    3
#define MAX_THREADS 64

/* Of receives that are missing, rare tells after about 0.3 s, patient never. */
static const struct rig_conn patient = { IBV_QPT_RC, 14, 7, 7, ACCESS, true };
static const struct rig_conn rare = { IBV_QPT_RC, 14, 7, 2, ACCESS, true };

static int connect_patient(void **state)
{
	return rig_connect(patient);
}

static int connect_rare(void **state)
{
	return rig_connect(rare);
}

static int no_connection(void **state)
{
	return rig_open(&rig, ACCESS);
}

/* ---- to halt the peer ------------------------------------------------------------------------ */

static pid_t helper(void)
{
	return rig_order((struct rig_order){ .op = RIG_STATE }).pid;
}

/* The state of each of its threads, from /proc/PID/task/TID/stat. */
static char thread_state(pid_t pid, const char *thread)
{
	char path[300], text[512] = "", *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%.15s/stat", pid, thread);
	file = fopen(path, "re");
	if (!file)
		return 'X';
	end = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	return end && end[1] ? end[2] : 'X';
}

static size_t threads_of(pid_t pid, char names[][16])
{
	struct dirent *entry;
	char path[64];
	size_t n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)) && n < MAX_THREADS)
		if (entry->d_name[0] != '.')
			snprintf(names[n++], 16, "%.15s", entry->d_name);
	closedir(dir);
	return n;
}

static void await_halt(pid_t pid)
{
	char names[MAX_THREADS][16];
	size_t n, halted;

	do {
		usleep(1000);
		n = threads_of(pid, names);
		halted = 0;
		for (size_t i = 0; i < n; i++)
			halted += strchr("Tt", thread_state(pid, names[i])) != NULL;
	} while (halted < n);
}

static void trace(pid_t pid, enum __ptrace_request request)
{
	char names[MAX_THREADS][16];
	size_t n = threads_of(pid, names);

	for (size_t i = 0; i < n; i++) {
		assert_return_code(ptrace(request, atoi(names[i]), NULL, NULL), errno);
		if (request == PTRACE_SEIZE)
			assert_return_code(ptrace(PTRACE_INTERRUPT, atoi(names[i]), NULL, NULL),
					   errno);
	}
}

/* A test that fails must not leave it halted. */
static pid_t halted;

static int finish(void **state)
{
	if (halted)
		kill(halted, SIGKILL);
	halted = 0;
	return rig_finish(state);
}

static void halt(pid_t pid, bool traced)
{
	halted = pid;
	if (traced)
		trace(pid, PTRACE_SEIZE);
	else
		assert_return_code(kill(pid, SIGSTOP), errno);
	await_halt(pid);
}

static void resume(pid_t pid, bool traced)
{
	if (traced)
		trace(pid, PTRACE_DETACH);
	else
		assert_return_code(kill(pid, SIGCONT), errno);
	halted = 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void post(enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = rig_sge(offset, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : length);
	struct ibv_send_wr wr = { .wr_id = offset,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode },
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = rig_peer.mem;
		wr.wr.atomic.rkey = rig_peer.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = rig_peer.mem + offset;
		wr.wr.rdma.rkey = rig_peer.rkey;
	}
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
}

static void done(enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length)
{
	struct ibv_wc wc = { 0 };

	post(opcode, offset, length);
	assert_int_equal(rig_poll(&wc), IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, offset);
}

static void peer_receives(void)
{
	for (uint32_t i = 0; i < RECEIVES; i++)
		assert_int_equal(rig_order((struct rig_order){ .op = RIG_RECV,
							       .a = (64 + i) * 4096,
							       .b = 4096 })
					 .result,
				 0);
}

static void goes_on(bool traced)
{
	uint8_t was[4096];
	struct rig_reply reply;
	struct ibv_wc wc;
	pid_t pid = helper();

	peer_receives();
	halt(pid, traced);
	memcpy(was, rig.mem, sizeof(was));
	done(IBV_WR_RDMA_WRITE, 0, RIG_MEM / 8);
	memset(rig.mem, 0, sizeof(was));
	done(IBV_WR_RDMA_READ, 0, sizeof(was));
	assert_memory_equal(rig.mem, was, sizeof(was));
	for (uint32_t i = 0; i < RECEIVES; i++)
		done(IBV_WR_SEND, (32 + i) * 4096, 700);
	done(IBV_WR_ATOMIC_FETCH_AND_ADD, 48 * 4096, 8);
	assert_memory_equal(rig.mem + 48 * 4096, was, 8);
	post(IBV_WR_SEND, 40 * 4096, 100); /* it waits for a receive, as long as that takes */
	usleep(200000);
	assert_int_equal(ibv_poll_cq(rig.cq, 1, &wc), 0);
	resume(pid, traced);
	reply = rig_order((struct rig_order){ .op = RIG_POLL, .a = RECEIVES });
	assert_int_equal(reply.result, RECEIVES);
	for (uint32_t i = 0; i < RECEIVES; i++) {
		assert_int_equal(reply.wc[i].wr_id, (64 + i) * 4096);
		assert_int_equal(reply.wc[i].byte_len, 700);
	}
	peer_receives();
	assert_int_equal(rig_poll(&wc), IBV_WC_SUCCESS);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_POLL, .a = 1 }).wc[0].byte_len,
			 100);
}

static void who_is_stopped_has_a_nic(void **state)
{
	goes_on(false);
}

static void who_is_traced_has_a_nic(void **state)
{
	goes_on(true);
}

static void who_is_stopped_runs_out_of_receives(void **state)
{
	struct ibv_wc wc = { 0 };
	pid_t pid = helper();

	halt(pid, false);
	post(IBV_WR_SEND, 0, 100);
	assert_int_equal(rig_poll(&wc), IBV_WC_RNR_RETRY_EXC_ERR);
	resume(pid, false);
}

/* A path that is down for a moment, while the peer is halted, is nothing but that. */
static void who_is_stopped_outlives_a_flap(void **state)
{
	struct ibv_wc wc = { 0 };
	pid_t pid = helper();

	halt(pid, false);
	assert_int_equal(rig_ctl("fault port-down h1/mlx5_1"), 0);
	post(IBV_WR_RDMA_WRITE, 0, 4096);
	usleep(100000);
	assert_int_equal(ibv_poll_cq(rig.cq, 1, &wc), 0);
	assert_int_equal(rig_ctl("heal all"), 0);
	assert_int_equal(rig_poll(&wc), IBV_WC_SUCCESS);
	resume(pid, false);
}

/* ---- its end ---------------------------------------------------------------------------------- */

static struct sn_proc *slot_of(pid_t pid)
{
	for (uint32_t i = 0; i < SN_MAX_PROCS; i++)
		if (atomic_load(&rig_fabric->proc[i].pid) == pid)
			return &rig_fabric->proc[i];
	return NULL;
}

/* The process of the NIC of a program that has one; 0: not yet. */
static pid_t nic_of(pid_t pid)
{
	const struct sn_proc *slot = slot_of(pid);

	return slot && atomic_load(&slot->device_start) ? atomic_load(&slot->device_pid) : 0;
}

static pid_t await_nic_of(pid_t pid)
{
	pid_t nic;

	while (!(nic = nic_of(pid)))
		usleep(1000);
	return nic;
}

enum end { BY_EXIT, BY_UNDERSCORE_EXIT, BY_EXEC, BY_SIGNAL, BY_CRASH, BY_ITS_NIC, ENDS };

static void child_ends(enum end how)
{
	static char *const argv[] = { "sleep", "1000", NULL };
	volatile int *nowhere = NULL;

	rig_open(&rig, ACCESS);
	rig_loopback(&patient, &rig_peer);
	await_nic_of(getpid());
	/* No child of its own may be seen. */
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		_exit(1);
	raise(SIGSTOP);
	switch (how) {
	case BY_EXIT: exit(0);
	case BY_UNDERSCORE_EXIT: _exit(0);
	case BY_EXEC: execvp("sleep", argv); _exit(127);
	case BY_CRASH:
		signal(SIGSEGV, SIG_DFL); /* cmocka has its own */
		*nowhere = 1;
		_exit(127);
	case BY_SIGNAL:
	case BY_ITS_NIC:
	case ENDS: pause();
	}
}

static void is_gone(pid_t nic)
{
	while (sn_proc_runs(nic))
		usleep(1000);
}

static void ends_with_its_program(enum end how)
{
	pid_t pid = test_fork(), nic;
	int status;

	if (!pid)
		child_ends(how);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	nic = nic_of(pid);
	assert_int_not_equal(nic, pid);
	assert_true(sn_proc_runs(nic));
	assert_int_not_equal(getpgid(nic), getpgid(pid));
	if (how == BY_SIGNAL)
		kill(pid, SIGKILL);
	else if (how == BY_ITS_NIC)
		kill(nic, SIGKILL);
	kill(pid, SIGCONT);
	is_gone(nic);
	if (how == BY_EXEC) {
		assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
		kill(pid, SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (how == BY_EXIT || how == BY_UNDERSCORE_EXIT)
		assert_int_equal(status, 0);
	else
		assert_true(WIFSIGNALED(status));
}

static void a_nic_ends_with_its_program(void **state)
{
	for (enum end how = BY_EXIT; how < ENDS; how++)
		ends_with_its_program(how);
}

static void a_nic_that_stops_with_its_program(void **state)
{
	pid_t pid = test_fork();
	int status;

	if (!pid) {
		setenv("SIMNIC_STOPS", "1", 1);
		rig_open(&rig, ACCESS);
		rig_loopback(&patient, &rig_peer);
		_exit(await_nic_of(getpid()) != getpid());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define WITH(connect, f) cmocka_unit_test_setup_teardown(f, connect, finish)

static int tests(void)
{
	const struct CMUnitTest thread[] = {
		WITH(no_connection, a_nic_that_stops_with_its_program),
	};
	const struct CMUnitTest apart[] = {
		WITH(connect_patient, who_is_stopped_has_a_nic),
		WITH(connect_patient, who_is_traced_has_a_nic),
		WITH(connect_rare, who_is_stopped_runs_out_of_receives),
		WITH(connect_patient, who_is_stopped_outlives_a_flap),
		WITH(no_connection, a_nic_ends_with_its_program),
	};
	int failed = cmocka_run_group_tests(thread, NULL, NULL);

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	print_message("NICs are threads in builds with a sanitizer: %zu tests are left out\n",
		      sizeof(apart) / sizeof(apart[0]));
	return failed;
#else
	return failed + cmocka_run_group_tests(apart, NULL, NULL);
#endif
}

int main(int argc, char **argv)
{
	return rig_main(argc, argv, tests);
}
