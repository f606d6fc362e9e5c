/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The counters of a port, as a program reads them below /sys, against what was done to its packets. One argument: eth
 * or ib.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/simnic_rig.h"

#define PORT "/sys/class/infiniband/mlx5_1/ports/1/"
#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* An answer is waited for 1 s: time for a fault, and its end. */
static const struct rig_conn rc = { IBV_QPT_RC, 18, 7, 7, ALL_ACCESS, false };

static int connect_rc(void **state)
{
	return rig_connect(rc);
}

/* As it is read on this host. */
static uint64_t own(const char *file)
{
	char path[256], text[32];
	FILE *f;

	snprintf(path, sizeof(path), PORT "%s", file);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	return strtoull(text, NULL, 10);
}

static uint64_t peers(const char *file)
{
	int number = sn_counter_find(file);

	assert_true(number >= 0);
	return sn_counter_read(rig_fabric, &rig_fabric->nic[1][1], (uint32_t)number);
}

static void post(enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge sge = rig_sge(0, length);
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.rdma.remote_addr = rig_peer.mem;
	wr.wr.rdma.rkey = rig_peer.rkey;
	assert_int_equal(ibv_post_send(rig.qp, &wr, &bad), 0);
}

static void succeeds(void)
{
	struct ibv_wc wc = { 0 };

	assert_int_equal(rig_poll(&wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void until(const _Atomic uint64_t *word, uint64_t from)
{
	for (int i = 0; i < 5000 && *word == from; i++)
		usleep(1000);
	assert_int_not_equal(*word, from);
}

static void what_is_sent_is_counted(void **state)
{
	uint64_t data = own("counters/port_xmit_data"), packets = own("counters/port_xmit_packets");
	uint64_t writes = peers("hw_counters/rx_write_requests");
	uint64_t received = peers("counters/port_rcv_data");

	post(IBV_WR_RDMA_WRITE, 100000);
	succeeds();
	assert_int_equal(own("counters/port_xmit_data") - data, 100000 / 4);
	/* Of the path MTU, whichever that is; the peer's acknowledgement is not among them. */
	assert_in_range(own("counters/port_xmit_packets") - packets, 100000 / 4096 + 1,
			100000 / 1024 + 1);
	assert_int_equal(peers("hw_counters/rx_write_requests") - writes, 1);
	assert_int_equal(peers("counters/port_rcv_data") - received, 100000 / 4);
	assert_int_equal(own("hw_counters/out_of_sequence"), 0);
	assert_int_equal(own("hw_counters/packet_seq_err"), 0);
}

/* The first is lost, and the second shows it. */
static void a_gap_is_counted_at_both_ends(void **state)
{
	uint64_t gaps = peers("hw_counters/out_of_sequence"),
		 naks = own("hw_counters/packet_seq_err");
	const _Atomic uint64_t *dropped = &rig_fabric->nic[0][1].count.dropped;
	uint64_t before = *dropped, timeouts = own("hw_counters/local_ack_timeout_err");

	assert_int_equal(rig_ctl("fault lose-tx h0/mlx5_1"), 0);
	post(IBV_WR_RDMA_WRITE, 64);
	until(dropped, before);
	assert_int_equal(rig_ctl("heal h0/mlx5_1"), 0);
	post(IBV_WR_RDMA_WRITE, 64);
	succeeds();
	succeeds();
	if (own("hw_counters/local_ack_timeout_err") != timeouts)
		return; /* all this took a second: no NAK was needed */
	assert_int_equal(peers("hw_counters/out_of_sequence") - gaps, 1);
	assert_int_equal(own("hw_counters/packet_seq_err") - naks, 1);
}

/* It was executed, and nobody said so. */
static void a_timeout_is_counted_at_both_ends(void **state)
{
	uint64_t twice = peers("hw_counters/duplicate_request"),
		 timeouts = own("hw_counters/local_ack_timeout_err");
	uint64_t writes = peers("hw_counters/rx_write_requests");

	assert_int_equal(rig_ctl("fault lose-acks h0/mlx5_1"), 0);
	post(IBV_WR_RDMA_WRITE, 64);
	until(&rig_fabric->nic[0][1].count.hw.local_ack_timeout_err, timeouts);
	assert_int_equal(rig_ctl("heal h0/mlx5_1"), 0);
	succeeds();
	assert_true(own("hw_counters/local_ack_timeout_err") > timeouts);
	assert_true(peers("hw_counters/duplicate_request") > twice);
	assert_int_equal(peers("hw_counters/rx_write_requests") - writes, 1);
}

static void a_pause_is_a_wait(void **state)
{
	uint64_t waits = own("counters/port_xmit_wait");

	post(IBV_WR_RDMA_WRITE, 64);
	succeeds();
	assert_int_equal(own("counters/port_xmit_wait"), waits);
	assert_int_equal(rig_ctl("fault pause h0/mlx5_1"), 0);
	post(IBV_WR_RDMA_WRITE, 64);
	until(&rig_fabric->nic[0][1].count.hw.tx_wait, waits);
	assert_int_equal(rig_ctl("heal h0/mlx5_1"), 0);
	succeeds();
	assert_true(own("counters/port_xmit_wait") > waits);
}

static void a_slow_receiver_is_no_gap(void **state)
{
	uint64_t gaps = peers("hw_counters/out_of_sequence"),
		 naks = own("hw_counters/packet_seq_err");
	uint64_t waits = own("hw_counters/rnr_nak_retry_err"),
		 empty = peers("hw_counters/out_of_buffer");

	post(IBV_WR_SEND, 64);
	until(&rig_fabric->nic[0][1].count.hw.rnr_nak_retry_err, waits);
	assert_int_equal(rig_order((struct rig_order){ .op = RIG_RECV, .b = 64 }).result, 0);
	succeeds();
	assert_true(own("hw_counters/rnr_nak_retry_err") > waits);
	assert_true(peers("hw_counters/out_of_buffer") > empty);
	assert_int_equal(peers("hw_counters/out_of_sequence"), gaps);
	assert_int_equal(own("hw_counters/packet_seq_err"), naks);
}

static void a_link_that_went_down_is_counted(void **state)
{
	uint64_t downs = own("counters/link_downed");

	assert_int_equal(rig_ctl("fault port-down h0/mlx5_1"), 0);
	assert_int_equal(rig_ctl("fault port-up h0/mlx5_1"), 0);
	assert_int_equal(own("counters/link_downed") - downs, 1);
}

/* As `cat` in a folder does, and through the other class. What is no counter is what it was. */
static void files_are_found_from_their_folder(void **state)
{
	static const char port[] =
		"/sys/class/infiniband_verbs/uverbs1/device/infiniband/mlx5_1/ports/1";
	int dir = open(port, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int folder = openat(dir, "counters", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int state_file = openat(dir, "state", O_RDONLY | O_CLOEXEC);
	int fd = openat(folder, "link_downed", O_RDONLY | O_CLOEXEC);
	char text[32] = "";

	assert_true(dir >= 0 && folder >= 0 && fd >= 0 && state_file >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_true(strtoull(text, NULL, 10) > 0);
	assert_true(read(state_file, text, sizeof(text) - 1) > 0);
	assert_memory_equal(text, "4: ACTIVE", 9);
	close(state_file);
	close(fd);
	close(folder);
	close(dir);
	assert_int_equal(open(PORT "hw_counters/no_such_counter", O_RDONLY | O_CLOEXEC), -1);
}

static int tests(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test_setup_teardown(what_is_sent_is_counted, connect_rc, rig_finish),
		cmocka_unit_test_setup_teardown(a_gap_is_counted_at_both_ends, connect_rc,
						rig_finish),
		cmocka_unit_test_setup_teardown(a_timeout_is_counted_at_both_ends, connect_rc,
						rig_finish),
		cmocka_unit_test_setup_teardown(a_pause_is_a_wait, connect_rc, rig_finish),
		cmocka_unit_test_setup_teardown(a_slow_receiver_is_no_gap, connect_rc, rig_finish),
		cmocka_unit_test_setup_teardown(a_link_that_went_down_is_counted, connect_rc,
						rig_finish),
		cmocka_unit_test_setup_teardown(files_are_found_from_their_folder, connect_rc,
						rig_finish),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv)
{
	return rig_main(argc, argv, tests);
}
