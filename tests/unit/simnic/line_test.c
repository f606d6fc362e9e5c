/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Long cables in the fabric, without any device: what befalls a packet, when it arrives, and for whom. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "simnic/fabric/fabric.h"
#include "simnic/fabric/line.h"
#include "tests/lib/fork.h"

enum { PACKETS = 1000000, MS = 1000000, QPN = 0x50 };

static char name[64];
static uint32_t self; /* process slot */

static int setup(void **state)
{
	struct sn_fabric_config config = {
		.n_hosts = 2, .n_nics = 1, .link_layer = SN_LINK_ETH, .seed = 7
	};
	struct sn_fabric *fabric;
	int slot;

	snprintf(name, sizeof(name), "unit-line-%d", getpid());
	sn_fabric_destroy(name);
	if (sn_fabric_create(name, &config) || sn_fabric_attach(name, &fabric))
		return -1;
	slot = sn_proc_attach(fabric, 1);
	self = (uint32_t)slot;
	atomic_store(&fabric->nic[1][0].qpn_owner[QPN], (uint16_t)(self + 1));
	*state = fabric;
	return slot < 0;
}

static int teardown(void **state)
{
	sn_fabric_detach(*state);
	return sn_fabric_destroy(name);
}

static void one_direction_alone(void **state)
{
	struct sn_fabric *fabric = *state;
	const struct sn_line_config lossy = { .loss.loss = 0.5 };
	struct sn_pkt out = { .src_host = 0, .dst_host = 1 }, in = { .src_host = 1, .dst_host = 0 };
	struct sn_line *line;

	assert_int_equal(sn_line_set(fabric, 0, 0, NULL), 0);
	assert_int_equal(sn_line_set_way(fabric, 0, 0, SN_LINE_IN, &lossy), 0);
	assert_null(sn_line_of(fabric, &out));
	line = sn_line_of(fabric, &in);
	assert_non_null(line);
	assert_true(line->config.loss.loss == 0.5);
	assert_int_equal(sn_line_set_way(fabric, 0, 0, SN_LINE_OUT, &lossy), 0);
	assert_non_null(sn_line_of(fabric, &out));
	assert_ptr_not_equal(sn_line_of(fabric, &out), line);
	assert_int_equal(sn_line_set_way(fabric, 0, 0, SN_LINE_IN, NULL), 0);
	assert_null(sn_line_of(fabric, &in));
	assert_non_null(sn_line_of(fabric, &out));
	assert_int_equal(sn_line_set(fabric, 0, 0, NULL), 0);
}

static struct sn_line *line_with(struct sn_fabric *fabric, struct sn_line_config config)
{
	struct sn_pkt pkt = { .src_host = 0, .dst_host = 1 };

	assert_int_equal(sn_line_set(fabric, 0, 0, &config), 0);
	return sn_line_of(fabric, &pkt);
}

/* Sends one and says how many copies are under way. */
static int send_at(struct sn_fabric *f, struct sn_line *line, uint64_t now, uint32_t bytes,
		   uint32_t psn, bool may_wait)
{
	struct sn_line_slot *slots[2];
	int n = sn_line_enter(f, line, bytes, self, now, may_wait, slots);

	for (int i = 0; i < n; i++) {
		slots[i]->pkt = (struct sn_pkt){ .dst_host = 1, .dst_qpn = QPN, .psn = psn };
		sn_line_ready(f, slots[i]);
	}
	return n;
}

/* The next one's number; -1: none has arrived by then. */
static int64_t take_at(struct sn_fabric *f, uint64_t now)
{
	struct sn_line *line;
	struct sn_line_slot *slot = sn_line_take(f, self, now, &line);
	int64_t psn;

	if (!slot)
		return -1;
	psn = slot->pkt.psn;
	sn_line_free(f, line, slot, self);
	return psn;
}

/* ---- what befalls a packet --------------------------------------------------------------------- */

static void fate_hangs_on_seed_and_number(void **state)
{
	struct sn_loss a = { .seed = 1, .loss = .5, .reorder = .5, .duplicate = .5 }, b = a;
	uint32_t same = 0;

	b.seed = 2;
	for (uint64_t n = 0; n < 1000; n++) {
		struct sn_fate x = sn_fate_of(&a, n), y = sn_fate_of(&a, n), z = sn_fate_of(&b, n);

		assert_memory_equal(&x, &y, sizeof(x));
		same += x.lost == z.lost;
	}
	assert_in_range(same, 400, 600);
}

static void share_and_bursts(const struct sn_loss *loss, double *share, double *burst)
{
	uint64_t lost = 0, runs = 0;
	bool before = false;

	for (uint64_t n = 0; n < PACKETS; n++) {
		struct sn_fate fate = sn_fate_of(loss, n);

		lost += fate.lost;
		runs += fate.lost && !before;
		before = fate.lost;
	}
	*share = (double)lost / PACKETS;
	*burst = (double)lost / (double)runs;
}

static void losses_are_as_many_as_told(void **state)
{
	static const struct {
		double loss;
		uint32_t burst;
	} cases[] = { { 1e-3, 1 }, { 1e-2, 1 }, { 1e-2, 8 }, { .2, 4 }, { .5, 1 } };
	double share, burst;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sn_loss loss = { .seed = 3, .loss = cases[i].loss, .burst = cases[i].burst };

		share_and_bursts(&loss, &share, &burst);
		assert_true(share > .88 * cases[i].loss && share < 1.12 * cases[i].loss);
		assert_true(burst >= cases[i].burst);
		assert_true(burst < cases[i].burst * 1.3 / (1 - cases[i].loss));
	}
}

/* ---- when it arrives --------------------------------------------------------------------------- */

static void rate_and_delay(void **state)
{
	/* 1,000 bytes take 1 ms. */
	struct sn_line *line = line_with(
		*state,
		(struct sn_line_config){ .rate_bps = 8 * MS, .delay_ns = 50 * MS, .queue = MS });

	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(send_at(*state, line, 100 * MS, 1000, i, true), 1);
	assert_int_equal(sn_line_next_ns(*state), 151 * MS);
	assert_int_equal(take_at(*state, 151 * MS - 1), -1);
	assert_int_equal(take_at(*state, 151 * MS), 0);
	assert_int_equal(take_at(*state, 151 * MS), -1);
	assert_int_equal(take_at(*state, 160 * MS), 1);
	assert_int_equal(take_at(*state, 160 * MS), 2);
	assert_true(sn_line_next_ns(*state) == UINT64_MAX);
}

/* A line of 8 Mbit/s that has refused a packet at 100 ms, and is free at 102. */
static struct sn_line *line_that_refused(struct sn_fabric *f)
{
	struct sn_line *line =
		line_with(f, (struct sn_line_config){ .rate_bps = 8 * MS, .delay_ns = 50 * MS });

	assert_int_equal(send_at(f, line, 100 * MS, 1000, 1, true), 1);
	assert_int_equal(send_at(f, line, 100 * MS, 1000, 2, true), 1);
	assert_int_equal(send_at(f, line, 100 * MS, 1000, 3, true), -ENOBUFS);
	return line;
}

static void take_all(struct sn_fabric *f)
{
	while (take_at(f, 900 * MS) >= 0)
		;
}

/* What waited for the line leaves back to back, however late its sender gets a processor, with what came in the same breath. */
static void refused_packets_leave_no_gap(void **state)
{
	struct sn_line *line = line_that_refused(*state);

	assert_int_equal(send_at(*state, line, 106 * MS, 1000, 3, true), 1);
	assert_int_equal(send_at(*state, line, 106 * MS, 1000, 4, true), 1);
	assert_int_equal(line->free_ns, 104 * MS);
	assert_int_equal(take_at(*state, 152 * MS), 1);
	assert_int_equal(take_at(*state, 152 * MS), 2);
	assert_int_equal(take_at(*state, 153 * MS - 1), -1);
	assert_int_equal(take_at(*state, 153 * MS), 3);
	assert_int_equal(take_at(*state, 154 * MS), 4);
	/* Nobody was refused meanwhile: nothing can have waited. */
	assert_int_equal(send_at(*state, line, 107 * MS, 1000, 5, true), 1);
	assert_int_equal(line->free_ns, 108 * MS);
	take_all(*state);
}

static void a_sender_that_stood_still_catches_up_on_nothing(void **state)
{
	struct sn_line *line = line_that_refused(*state);

	assert_int_equal(send_at(*state, line, 102 * MS + 20 * MS, 1000, 3, true), 1);
	assert_int_equal(line->free_ns, 123 * MS);
	take_all(*state);
}

/* It may pass by what waits, but is under way for as long as the line is long. */
static void a_datagram_never_arrives_early(void **state)
{
	struct sn_line *line = line_that_refused(*state);

	assert_int_equal(send_at(*state, line, 106 * MS, 1000, 3, true), 1);
	assert_int_equal(send_at(*state, line, 106 * MS, 1000, 4, false), 1);
	assert_int_equal(take_at(*state, 155 * MS), 1);
	assert_int_equal(take_at(*state, 155 * MS), 2);
	assert_int_equal(take_at(*state, 155 * MS), 3);
	assert_int_equal(take_at(*state, 156 * MS - 1), -1);
	assert_int_equal(take_at(*state, 156 * MS), 4);
	take_all(*state);
}

/* Its own rate is that of a NIC that is whole: the slower of the port and the PCI link says what is left. */
static void speed_limits_what_a_line_carries(void **state)
{
	struct sn_line *line = line_with(*state, (struct sn_line_config){ .rate_bps = 8 * MS });
	struct sn_fabric *f = *state;
	struct sn_nic *nic = &f->nic[0][0];

	assert_int_equal(line->rate_bps, 8 * MS);
	assert_int_equal(sn_speed_set_port(f, nic, 1, NULL), 0);
	assert_int_equal(line->rate_bps, 2 * MS);
	assert_int_equal(send_at(f, line, 0, 1000, 7, true), 1);
	assert_int_equal(take_at(f, 4 * MS - 1), -1);
	assert_int_equal(take_at(f, 4 * MS), 7);
	assert_int_equal(sn_speed_set_port(f, nic, 4, NULL), 0);
	assert_int_equal(sn_speed_set_pci(f, nic, 16, "8.0"), 0); /* 126 Gb/s for a port of 100 */
	assert_int_equal(line->rate_bps, 8 * MS);
	assert_int_equal(sn_speed_set_pci(f, nic, 8, "8.0"), 0);
	assert_in_range(line->rate_bps, 5 * MS, 5 * MS + MS / 25);
	line = line_with(f, (struct sn_line_config){ .rate_bps = 8 * MS });
	assert_in_range(line->rate_bps, 5 * MS, 5 * MS + MS / 25);
	assert_int_equal(sn_speed_set_pci(f, nic, 16, NULL), 0);
	assert_int_equal(line->rate_bps, 8 * MS);
}

static void speed_is_told_as_the_kernel_tells_it(void **state)
{
	struct sn_fabric *f = *state;
	struct sn_nic *nic = &f->nic[0][0];
	char rate[SN_SPEED_TEXT];

	assert_int_equal(sn_speed_set_port(f, nic, 1, "SDR"), 0);
	assert_int_equal(sn_speed_width(&nic->cable.speed), 1);
	assert_int_equal(sn_speed_lane(&nic->cable.speed), 1);
	sn_speed_rate_text(&nic->cable.speed, rate);
	assert_string_equal(rate, "2.5 Gb/sec (1X SDR)");
	assert_int_equal(sn_speed_set_port(f, nic, 3, NULL), -EINVAL);
	assert_int_equal(sn_speed_set_port(f, nic, 4, "XDR"), -EINVAL);
	assert_int_equal(sn_speed_set_port(f, nic, 4, NULL), 0);
	assert_int_equal(sn_speed_width(&nic->cable.speed), 2);
	assert_int_equal(sn_speed_lane(&nic->cable.speed), 32);
	sn_speed_rate_text(&nic->cable.speed, rate);
	assert_string_equal(rate, "100 Gb/sec (4X EDR)");
	assert_int_equal(sn_speed_set_pci(f, nic, 3, NULL), -EINVAL);
	assert_int_equal(sn_speed_set_pci(f, nic, 32, NULL), -EINVAL);
	assert_int_equal(sn_speed_set_pci(f, nic, 0, NULL), -EINVAL);
	assert_int_equal(sn_speed_set_pci(f, nic, 8, "9.0"), -EINVAL);
	assert_string_equal(sn_speed_pci_text(&nic->cable.speed), "16.0 GT/s PCIe");
}

static void busy_line_makes_its_sender_wait(void **state)
{
	struct sn_line *line = line_with(*state, (struct sn_line_config){ .rate_bps = 8 * MS });
	int n = 0;

	while (send_at(*state, line, 0, 1000, 0, true) == 1)
		n++;
	assert_in_range(n, 1, 3);
	assert_int_equal(send_at(*state, line, 0, 1000, 0, true), -ENOBUFS);
	assert_int_equal(send_at(*state, line, 0, 1000, 0, false), 1); /* a datagram queues */
	assert_int_equal(send_at(*state, line, 10 * MS, 1000, 0, true), 1);
}

static void full_queue_loses(void **state)
{
	struct sn_line *line =
		line_with(*state, (struct sn_line_config){ .rate_bps = 8 * MS, .queue = 5000 });
	int n = 0;

	while (send_at(*state, line, 0, 1000, 0, true) == 1)
		n++;
	assert_in_range(n, 5, 6);
	assert_int_equal(atomic_load(&line->overflown), 1);
}

static void full_fabric_makes_its_sender_wait(void **state)
{
	struct sn_line *line = line_with(*state, (struct sn_line_config){ .delay_ns = 50 * MS });
	int n = 0;

	while (send_at(*state, line, 0, 0, 0, true) == 1)
		n++;
	assert_int_equal(n, SN_LINE_SLOTS - 1);
	assert_int_equal(send_at(*state, line, 0, 0, 0, false), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(take_at(*state, 60 * MS), 0);
	assert_int_equal(send_at(*state, line, 60 * MS, 0, 0, true), 1);
}

static void late_ones_are_overtaken(void **state)
{
	struct sn_line_config c = { .delay_ns = MS, .reorder_ns = 100 * MS };
	struct sn_line *line;
	int64_t psn, last = -1;
	int overtaken = 0;

	c.loss.reorder = .1;
	line = line_with(*state, c);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(send_at(*state, line, i * 1000, 64, i, true), 1);
	for (int i = 0; i < 1000; i++) {
		psn = take_at(*state, 102 * MS);
		assert_true(psn >= 0);
		overtaken += psn < last;
		last = psn > last ? psn : last;
	}
	assert_int_equal(overtaken, atomic_load(&line->reordered));
	assert_in_range(overtaken, 60, 140);
}

static void doubled_ones_come_twice(void **state)
{
	struct sn_line_config c = { .delay_ns = MS };
	struct sn_line *line;
	uint32_t sent = 0, came = 0;

	c.loss.duplicate = .25;
	line = line_with(*state, c);
	for (uint32_t i = 0; i < 1000; i++)
		sent += (uint32_t)send_at(*state, line, 0, 64, i, true);
	while (take_at(*state, 10 * MS) >= 0)
		came++;
	assert_int_equal(came, sent);
	assert_int_equal(sent, 1000 + atomic_load(&line->duplicated));
	assert_in_range(sent, 1180, 1320);
}

/* ---- whose it is ------------------------------------------------------------------------------- */

static void another_process_has_it(void **state)
{
	struct sn_line *line = line_with(*state, (struct sn_line_config){ .delay_ns = MS });
	struct sn_fabric *f = *state;

	assert_int_equal(send_at(f, line, 0, 64, 1, true), 1);
	atomic_store(&f->nic[1][0].qpn_owner[QPN], (uint16_t)(self + 2));
	assert_int_equal(take_at(f, 2 * MS), -1);
	assert_int_equal(take_at(f, 250 * MS), 1); /* it stands still: nothing waits behind it */
	assert_int_equal(send_at(f, line, 0, 64, 2, true), 1);
	atomic_store(&f->nic[1][0].qpn_owner[QPN], 0);
	assert_int_equal(take_at(f, 2 * MS), 2); /* nobody has it any more */
}

static void what_was_never_filled_goes(void **state)
{
	struct sn_line *line = line_with(*state, (struct sn_line_config){ .delay_ns = MS });
	struct sn_line_slot *slots[2], *slot;
	struct sn_line *of;

	assert_int_equal(sn_line_enter(*state, line, 64, self, 0, true, slots), 1);
	assert_int_equal(take_at(*state, 2 * MS), -1);
	slot = sn_line_take(*state, self, 250 * MS, &of);
	assert_non_null(slot);
	assert_int_equal(atomic_load(&slot->ready), 0);
	sn_line_free(*state, of, slot, self);
}

static void lock_of_the_dead_is_taken(void **state)
{
	struct sn_line *line = line_with(*state, (struct sn_line_config){ .delay_ns = MS });
	pid_t pid = test_fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	atomic_store(&line->holder, pid);
	assert_int_equal(send_at(*state, line, 0, 64, 1, true), 1);
	assert_int_equal(atomic_load(&line->holder), 0);
	atomic_store(&line->holder, pid);
	assert_int_equal(take_at(*state, 50 * MS), 1); /* by one who only receives, too */
	assert_int_equal(atomic_load(&line->holder), 0);
}

static void only_its_own_nic_and_way(void **state)
{
	struct sn_line *line = line_with(*state, (struct sn_line_config){ .delay_ns = MS });
	struct sn_pkt back = { .src_host = 1, .dst_host = 0 }, inside = { 0 };

	assert_non_null(sn_line_of(*state, &back));
	assert_ptr_not_equal(sn_line_of(*state, &back), line);
	assert_null(sn_line_of(*state, &inside));
	assert_int_equal(sn_line_set(*state, 0, 0, NULL), 0);
	assert_null(sn_line_of(*state, &back));
	assert_ptr_equal(line_with(*state, (struct sn_line_config){ .delay_ns = MS }), line);
}

static void nobody_has_the_gid(void **state)
{
	struct sn_line *line = line_with(*state, (struct sn_line_config){ .delay_ns = MS });
	struct sn_pkt out = { .src_host = 0, .dst_host = UINT8_MAX, .dst_nic = UINT8_MAX };
	struct sn_pkt back = { .src_host = 1, .dst_host = UINT8_MAX, .dst_nic = UINT8_MAX };

	assert_ptr_equal(sn_line_of(*state, &out), line);
	assert_null(sn_line_of(*state, &back));
}

int main(void)
{
#define WITH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(fate_hangs_on_seed_and_number),
		cmocka_unit_test(losses_are_as_many_as_told),
		WITH(rate_and_delay),
		WITH(refused_packets_leave_no_gap),
		WITH(a_sender_that_stood_still_catches_up_on_nothing),
		WITH(a_datagram_never_arrives_early),
		WITH(speed_limits_what_a_line_carries),
		WITH(speed_is_told_as_the_kernel_tells_it),
		WITH(busy_line_makes_its_sender_wait),
		WITH(full_queue_loses),
		WITH(full_fabric_makes_its_sender_wait),
		WITH(late_ones_are_overtaken),
		WITH(doubled_ones_come_twice),
		WITH(another_process_has_it),
		WITH(what_was_never_filled_goes),
		WITH(lock_of_the_dead_is_taken),
		WITH(only_its_own_nic_and_way),
		WITH(one_direction_alone),
		WITH(nobody_has_the_gid),
	};

	return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
